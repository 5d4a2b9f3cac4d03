package page

import (
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hpad/hpad/test/scale/sim"
)

// TestDrawing points at instants of the drawing and zooms, by keys and by a mouse.
func TestDrawing(t *testing.T) {
	t.Parallel()
	server := newShop(t)
	b := newTab(t)
	b.look(1400, "light")
	b.open(server + "/autoscalers/checkout")
	b.await("a drawing", "document.querySelector('#drawing canvas') && document.querySelector('#live').innerText === 'live'")
	count := func() string { return b.text("#key b") }
	if got := count(); got != "7" {
		t.Errorf("the key has a count of %s now, want 7", got)
	}

	// Its right end is now; 60 steps of 200 are 18 minutes of the hour.
	b.js("document.querySelector('#drawing').focus()")
	b.do(chromedp.KeyEvent(kb.End))
	b.await("the last decision", "document.querySelector('#reading').innerText.includes('The count stays at 7')")
	b.do(chromedp.KeyEvent(strings.Repeat(kb.ArrowLeft, 60)))
	b.await("what was before", "document.querySelector('#reading').innerText.includes('no decision is recorded up to then')")
	if got := b.js(`(async () => {
		const at = Number(document.querySelector('#drawing').getAttribute('aria-valuenow'));
		const { data } = await (await fetch('../api/v1/autoscalers/checkout/graph')).json();
		const known = [at - 1, at, at + 1].map((time) => data.replicas[data.time.findLastIndex((one) => one <= time)]);
		return known.includes(Number(document.querySelector('#key b').innerText)) && Math.round((Date.now() / 1000 - at) / 60);
	})()`); got != 18.0 {
		t.Errorf("60 steps lead %v minutes back, with a count of %s", got, count())
	}
	b.accessible("an instant that is pointed at")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("the explanation of then", "document.querySelector('#why').innerText.includes('no decision is recorded') && location.search.startsWith('?at=')")
	b.do(chromedp.Click("[data-now]", chromedp.ByQuery))
	b.await("the explanation of now", "document.querySelector('#h-why').innerText === 'Why 7?' && location.search === ''")

	b.js("document.querySelector('#drawing').focus()")
	b.do(chromedp.KeyEvent("+"))
	b.await("a zoom", "!document.querySelector('#unzoom').disabled")
	b.click("Zoom out")
	b.await("no zoom", "document.querySelector('#unzoom').disabled")
	b.js("document.querySelector('#drawing').scrollIntoView({block: 'center'})")
	middle, _ := b.js("(() => { const r = document.querySelector('.u-over').getBoundingClientRect(); return r.top + r.height / 2; })()").(float64)
	left := chromedp.Button("left")
	b.do(chromedp.MouseEvent(input.MousePressed, 500, middle, left, chromedp.ClickCount(1)), chromedp.MouseEvent(input.MouseMoved, 700, middle, left),
		chromedp.MouseEvent(input.MouseReleased, 700, middle, left, chromedp.ClickCount(1)))
	b.await("a zoom", "!document.querySelector('#unzoom').disabled && location.search === ''")
	b.click("6 h")
	b.await("6 hours", "document.querySelector('[data-hours=\"6\"]').getAttribute('aria-pressed') === 'true' && document.querySelector('#unzoom').disabled")

	b.js("document.querySelector('#drawing-table').closest('details').open = true")
	b.await("the table of the drawing", "document.querySelectorAll('#drawing-table tbody tr').length > 10")
}

// TestHang stops hpad without ending it.
func TestHang(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "1s", "")
	b := newTab(t)
	b.as("alice")
	b.open(c.url)
	b.await("a live list", "document.querySelector('#live').innerText === 'live'")
	c.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { c.Signal(syscall.SIGCONT) })
	b.await("word that hpad is gone", "document.querySelector('#live').innerText.includes('no connection')")
	c.Signal(syscall.SIGCONT)
	b.await("a live list again", "document.querySelector('#live').innerText === 'live'")
}

// TestPasswordInAddress opens the page by an address that no script may write again.
func TestPasswordInAddress(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, "1s", "")
	b := newTab(t)
	address, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("alice", password)
	b.open(address.String())
	b.await("a live list", "document.querySelector('#live').innerText === 'live' && document.querySelectorAll('#rows tr[data-name]').length === 3")
	b.fill("input[name=q]", sim.JobID(2))
	b.await("one row", "document.querySelectorAll('#rows tr[data-name]').length === 1")
	b.do(chromedp.Click("#rows a", chromedp.ByQuery))
	b.await("the details", "document.querySelector('#drawing canvas') && document.querySelector('#instances table')")
}
