package page

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/crypto/bcrypt"

	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
)

var update = flag.Bool("update", false, "write the screenshots of the docs")

// cluster is an hpad process with a simulated Nomad and Prometheus.
type cluster struct {
	*program.Program
	*sim.World
	url string
}

const password = "a long password" //nolint:gosec // a user in this test only

// newCluster starts hpad with the given number of jobs.
func newCluster(t *testing.T, jobs int) *cluster {
	t.Helper()
	c := &cluster{World: sim.New(sim.Options{Jobs: jobs})}
	go c.Run(t.Context())
	serve := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[fleets.prod]\nkind = \"nomad\"\naddress = %q\n[sources.prom]\nkind = \"prometheus\"\nurl = %q\n", serve(c.Nomad()), serve(c.Prometheus()))
	for n := range jobs {
		id := sim.JobID(n)
		fmt.Fprintf(&text, `[autoscalers.%[1]s]
target = { fleet = "prod", job = %[1]q, group = "app" }
max_replicas = 20
[[autoscalers.%[1]s.metrics]]
type = "External"
name = "load"
source = "prom"
query = 'sum by (service) (shop_load)'
select = { service = %[1]q }
average_value = "10"
[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "5s"
`, id)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	web := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(web, fmt.Appendf(nil, "basic_auth_users:\n  alice: %s\n  guest: %s\n", hash, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	address := ports.Free(t)
	c.url = "http://" + address + "/"
	c.Program = program.Prepare(t, program.Options{
		Config: text.String(), Daemon: fmt.Sprintf("listen = %q\nsync_period = \"1s\"\nweb_config = %q\nwriters = [\"alice\"]\n", address, web),
	})
	c.Start()
	return c
}

// as sets the user that the tab sends in requests.
func (b *tab) as(user string) {
	b.t.Helper()
	b.do(network.Enable(), network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Basic " + basic(user, password)}))
}

func basic(user, password string) string {
	request := http.Request{Header: http.Header{}}
	request.SetBasicAuth(user, password)
	return strings.TrimPrefix(request.Header.Get("Authorization"), "Basic ")
}

// TestViews checks the accessibility of every view at three widths and in both color schemes.
func TestViews(t *testing.T) {
	t.Parallel()
	server := newFakePage(t, 40)
	b := newTab(t)
	for _, width := range []int64{390, 820, 1400} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			at := fmt.Sprintf(", %d wide, %s", width, scheme)
			b.open(server + "/")
			b.await("a live list", live+" && document.querySelector('.spark path')")
			b.accessible("the list" + at)
			b.open(server + "/?state=attention&sort=late")
			b.await("a live list", live+" && document.querySelectorAll('#rows tr[data-name]').length === 11")
			b.accessible("what needs attention" + at)
			b.open(server + "/autoscalers/shop-03")
			b.await("a chart and instances", "document.querySelector('#drawing canvas') && document.querySelector('#instances table')")
			b.js("document.querySelectorAll('details').forEach((d) => d.open = true)")
			b.accessible("details" + at)
			b.click("Pause…")
			b.await("a dialog", "document.querySelector('dialog[open]')")
			b.accessible("the dialog" + at)
			b.expect("404")
			b.open(server + "/autoscalers/nobody")
			b.accessible("a missing autoscaler" + at)
		}
	}
}

// TestMarkup checks that the page shows markup in a label as text.
func TestMarkup(t *testing.T) {
	server := newFakePage(t, 5)
	b := newTab(t)
	b.open(server + "/?q=onerror")
	b.await("the row", live+" && document.querySelectorAll('#rows tr[data-name]').length === 1")
	if text := b.text("#rows"); !strings.Contains(text, hostile) {
		t.Errorf("text of the list = %q, want %q in it", text, hostile)
	}
	b.do(chromedp.Click("#rows a", chromedp.ByQuery))
	b.await("the details", "document.body.dataset.page === 'details' && document.querySelector('#instances table') && document.querySelector('#drawing canvas')")
	b.js("document.querySelectorAll('details').forEach((d) => d.open = true)")
	if text := b.text("main"); strings.Count(text, hostile) < 3 {
		t.Errorf("the details contain %q fewer than three times:\n%s", hostile, text)
	}
	if got := b.js("document.querySelectorAll('img').length + (window.broken ?? 0)"); got != 0.0 {
		t.Errorf("got %v images or script runs, want none", got)
	}
}

// TestLive checks that the page shows a scaling while it happens, reports a lost connection, and
// reconnects.
func TestLive(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	name := sim.JobID(1)
	list, details := newTab(t), newTab(t)
	for _, b := range []*tab{list, details} {
		b.as("guest")
		b.expect("ERR_CONNECTION_REFUSED")
		b.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
		b.expect("ERR_EMPTY_RESPONSE")
		b.expect("ERR_CONNECTION_RESET")
	}
	list.open(c.url)
	details.open(c.url + "autoscalers/" + name)
	row := fmt.Sprintf("document.querySelector('tr[data-name=%q] .count b')", name)
	list.await("the row", row)
	for _, want := range []int{6, 2} {
		c.World.Ask(1, want)
		list.await(fmt.Sprintf("%d in the list", want), fmt.Sprintf("%s.innerText === '%d'", row, want))
		details.await(fmt.Sprintf("%d in the details", want), fmt.Sprintf("document.querySelector('#count b').innerText === '%d' && document.querySelector('#h-why').innerText === 'Why %d?'", want, want))
		if got := int(c.View(name).Status.CurrentReplicas); got != want {
			t.Errorf("got %d replicas, want %d", got, want)
		}
	}
	details.await("the scaling in the history", "document.querySelector('#history tr.changed .values').innerText.includes('→ 2')")
	if text := details.text("footer"); !strings.Contains(text, `"guest" is not in daemon.writers`) {
		t.Errorf("footer for a guest = %q, want the reason for the missing buttons", text)
	}
	if got := details.js("document.querySelectorAll('#acts').length"); got != 0.0 {
		t.Error("a guest has buttons, want none")
	}

	c.Stop()
	for _, b := range []*tab{list, details} {
		b.await("lost connection", "document.querySelector('#live').innerText.includes('no connection')")
	}
	c.Start()
	for _, b := range []*tab{list, details} {
		b.await("a live page again", live)
	}
	c.World.Ask(1, 5)
	list.await("5 in the list", row+".innerText === '5'")
	details.await("5 in the details", "document.querySelector('#count b').innerText === '5'")
}

// live is a JavaScript expression that is true while the page receives events.
const live = "document.querySelector('#live').innerText === 'live'"

// dialog opens a dialog, fills it in, confirms it and waits for the result.
func (b *tab) dialog(button string, fill func(), confirm string) {
	b.t.Helper()
	b.click(button)
	b.await("a dialog", "document.querySelector('dialog[open]')")
	if fill != nil {
		fill()
	}
	b.click(confirm)
	b.await("the result", "document.querySelector('dialog h2').innerText === 'Done'")
}

// TestActions pauses, resumes, scales and reloads on the page as a user with write access.
func TestActions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	name := sim.JobID(0)
	b := newTab(t)
	b.as("alice")
	b.look(1400, "light")
	b.open(c.url + "autoscalers/" + name)
	b.await("a live page", live)

	b.dialog("Pause…", func() { b.fill("dialog input[name=reason]", "the sale") }, "Pause")
	if text := b.text("dialog"); !strings.Contains(text, "alice") || !strings.Contains(text, "the sale") {
		t.Errorf("got %q, want the author and the reason of the pause", text)
	}
	b.click("Close")
	b.await("the pause", "document.querySelector('#state').innerText.includes('the sale')")
	if pauses := c.View(name).Pauses; len(pauses) != 1 || pauses[0].Author != "alice" || pauses[0].Until.IsZero() {
		t.Errorf("got pauses %+v, want one by alice", pauses)
	}

	b.dialog("Resume…", func() {
		b.await("a dialog with the pause", "document.querySelector('dialog[open]').innerText.includes('the sale')")
	}, "Resume")
	b.click("Close")
	b.await("the end of the pause", "!document.querySelector('#state').innerText.includes('the sale')")
	if pauses := c.View(name).Pauses; len(pauses) != 0 {
		t.Errorf("got pauses %+v, want none", pauses)
	}

	b.expect("409")
	b.dialog("Scale once…", func() {
		b.fill("dialog input[name=replicas]", "99")
		b.click("Scale")
		b.await("a rejection", "document.querySelector('dialog [role=alert]').innerText.includes('20')")
		b.fill("dialog input[name=replicas]", "17")
	}, "Scale")
	b.click("Close")
	b.await("the scaling in the history", "[...document.querySelectorAll('#history tr')].some((tr) => tr.innerText.includes('set by alice') && tr.innerText.includes('17'))")

	b.dialog("Evaluate now…", nil, "Evaluate")
	b.click("Close")

	b.open(c.url)
	b.await("a live page", live)
	b.click("Reload…")
	b.await("a dialog with the changes", "document.querySelector('dialog pre').innerText === 'nothing'")
	b.click("Reload")
	b.await("the result", "document.querySelector('dialog').innerText.includes('0 changes')")
	b.click("Close")
	b.dialog("Pause all…", nil, "Pause")
	b.click("Close")
	b.await("the notice of pauses", "document.querySelector('#notices').innerText.includes('2 autoscalers are held')")
}

func TestWithoutScripts(t *testing.T) {
	server := newFakePage(t, 250)
	b := newTab(t)
	b.do(emulation.SetScriptExecutionDisabled(true))
	b.open(server + "/?page=2")
	var text string
	b.do(chromedp.Text("main", &text, chromedp.ByQuery))
	if !strings.Contains(text, "shop-150") || !strings.Contains(text, "101 to 200 of 250") || !strings.Contains(text, "Show") {
		t.Errorf("text of the list:\n%s", text)
	}
	b.do(chromedp.Click("a[rel=next]", chromedp.ByQuery), chromedp.WaitVisible(`tr[data-name="shop-248"]`, chromedp.ByQuery))
	b.do(chromedp.Click(`tr[data-name="shop-203"] a`, chromedp.ByQuery), chromedp.WaitVisible("#h-why", chromedp.ByQuery))
	b.do(chromedp.Click("[data-read]", chromedp.ByQuery), chromedp.WaitVisible("#instances table", chromedp.ByQuery))
	b.do(chromedp.Text("main", &text, chromedp.ByQuery))
	for _, want := range []string{"Why ", "Metrics", "instance-1", "Conditions", "History", "Active configuration"} {
		if !strings.Contains(text, want) {
			t.Errorf("the details do not contain %q:\n%s", want, text)
		}
	}
}

// TestKeyboard uses the page only with the keyboard.
func TestKeyboard(t *testing.T) {
	server := newFakePage(t, 12)
	b := newTab(t)
	b.look(1400, "light")
	b.open(server + "/")
	b.await("a live list", live)
	tab := func(what, expression string) {
		t.Helper()
		for range 40 {
			if b.js(expression) == true {
				return
			}
			b.do(chromedp.KeyEvent(kb.Tab))
		}
		t.Fatalf("%s is not reachable with the tab key", what)
	}
	tab("the search", "document.activeElement.name === 'q'")
	b.do(chromedp.KeyEvent("shop-03"))
	b.await("the row", "document.querySelectorAll('#rows tr[data-name]').length === 1")
	tab("the row", "document.activeElement.closest('#rows') !== null")
	if outline := b.js("getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("the focused element has no outline")
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("the details", "document.body.dataset.page === 'details' && document.querySelector('#acts button')")
	tab("the pause", "document.activeElement.innerText === 'Pause…'")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("a dialog with the focus", "document.querySelector('dialog[open]')?.contains(document.activeElement)")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("no dialog", "!document.querySelector('dialog')")
}

// TestBehindProxy uses the page below a path prefix, through a proxy that buffers the event
// stream.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	target, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.SetBasicAuth("alice", password)
	}}
	outer := httptest.NewServer(http.StripPrefix("/ops/hpad", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/changes") {
			w.Header().Set("Content-Type", "text/event-stream") // does not send any events
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(patience):
			}
			return
		}
		proxy.ServeHTTP(w, r)
	})))
	t.Cleanup(outer.Close)
	t.Cleanup(outer.CloseClientConnections)
	name := sim.JobID(0)
	b := newTab(t)
	b.open(outer.URL + "/ops/hpad/")
	b.await("a live list", live)
	c.World.Ask(0, 5)
	b.await("5", fmt.Sprintf("document.querySelector('tr[data-name=%q] .count b').innerText === '5'", name))
	b.do(chromedp.Click(fmt.Sprintf("tr[data-name=%q] a", name), chromedp.ByQuery))
	b.await("a chart", "document.querySelector('#drawing canvas') && location.pathname.startsWith('/ops/hpad/autoscalers/')")
	b.dialog("Evaluate now…", nil, "Evaluate")
}

// TestPictures checks that the screenshots in the documentation exist and are small. With -update,
// it creates them.
func TestPictures(t *testing.T) {
	const most = 100_000
	if *update {
		server := newShop(t)
		b := newTab(t)
		b.do(emulation.SetDeviceMetricsOverride(1040, 640, 1, false))
		b.open(server)
		b.await("small lines", "document.querySelectorAll('.spark path').length > 3")
		b.picture(t, "page-list.png")
		b.do(emulation.SetDeviceMetricsOverride(1040, 760, 1, false))
		b.open(server + "/autoscalers/checkout")
		b.await("a chart", "document.querySelector('#drawing canvas')")
		b.picture(t, "page-details.png")
	}
	for _, name := range []string{"page-list.png", "page-details.png"} {
		info, err := os.Stat(filepath.Join("../../docs/img", name))
		if err != nil || info.Size() > most {
			t.Errorf("%s: %v, %v; go test ./test/page -run TestPictures -update creates it", name, info, err)
		}
	}
}

func (b *tab) picture(t *testing.T, name string) {
	t.Helper()
	var png []byte
	b.do(chromedp.Sleep(time.Second), chromedp.CaptureScreenshot(&png))
	if err := os.MkdirAll("../../docs/img", 0o755); err != nil { //nolint:gosec // every user may read it
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("../../docs/img", name), png, 0o644); err != nil { //nolint:gosec // every user may read it
		t.Fatal(err)
	}
}
