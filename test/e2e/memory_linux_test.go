package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/soak"
)

// The memory that hpad.service gives hpad, and what Go may take of it.
const (
	unitMemory = 2 << 30
	unitGo     = "GOMEMLIMIT=1792MiB"
)

// memoryGroup is a control group whose memory is limited.
type memoryGroup struct {
	dir string
	// unified says that it is of the second version.
	unified bool
}

// newMemoryGroup makes a group that may use so much memory and no swap.
func newMemoryGroup(t *testing.T, limit int64) memoryGroup {
	t.Helper()
	name := filepath.Base(filepath.Dir(binary))
	g := memoryGroup{dir: filepath.Join("/sys/fs/cgroup/memory", name)}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g = memoryGroup{dir: filepath.Join("/sys/fs/cgroup", name), unified: true}
		// Where it is delegated already, or where the root has it on, this changes nothing.
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0)
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) {
			t.Fatalf("make a control group: %v", err)
		}
		installed.Absent(t, "limiting memory needs a control group that root can make: "+err.Error())
	}
	t.Cleanup(func() {
		eventually(t, "the control group is empty", 10*time.Second, func() (string, bool) {
			err := os.Remove(g.dir)
			return fmt.Sprint(err), err == nil
		})
	})
	g.set(t, map[bool]string{false: "memory.limit_in_bytes", true: "memory.max"}[g.unified], limit)
	if g.unified {
		g.set(t, "memory.swap.max", 0)
	} else {
		g.set(t, "memory.swappiness", 0)
	}
	return g
}

func (g memoryGroup) set(t *testing.T, name string, value int64) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(strconv.FormatInt(value, 10)), 0); err != nil {
		t.Fatalf("limit the memory of a control group: %v", err)
	}
}

// enter is a command that runs the one after it in the group, and has it collect garbage as
// it does for people, whatever the tests do.
func (g memoryGroup) enter() []string {
	return []string{"sh", "-c", `echo $$ >"$0" && unset GOGC && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// kills counts the processes that were killed for want of memory.
func (g memoryGroup) kills(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, map[bool]string{false: "memory.oom_control", true: "memory.events"}[g.unified]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(count)
		}
	}
	t.Fatalf("the control group does not say how many were killed: %s", text)
	return ""
}

// resident is the memory of hpad that is in use, and the most that ever was.
func (h *hpad) resident() (now, most int64) {
	h.w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.command.Process.Pid))
	if err != nil {
		h.w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			now = kilobytes << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			most = kilobytes << 10
		}
	}
	return now, most
}

// largeAnswer is a response of 58 MiB: 250,000 series of seven labels.
func largeAnswer(at int64) []byte {
	var body bytes.Buffer
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range 250_000 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"metric":{"__name__":"http_requests_total","alloc_id":"6fcba8f0-19f8-4d2c-9f5a-%012d","code":"200","env":"production","handler":"/api/v1/orders","instance":"10.0.%d.%d:9100","job":"checkout"},"value":[%d,"%d.25"]}`,
			i, i>>8&255, i&255, at, i)
	}
	body.WriteString(`]}}`)
	return body.Bytes()
}

// flood is a server whose responses to "large" queries have 58 MiB, as long as it is
// on, and one series to others.
type flood struct {
	*httptest.Server
	on   atomic.Bool
	sent atomic.Int64
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	const when = 1_000_000_000 // takes the place of the time of the query, which has as many digits
	large := largeAnswer(when)
	times := strings.Count(string(large[:1000]), strconv.Itoa(when))
	if times == 0 {
		t.Fatal("the answer states no time")
	}
	f := &flood{}
	f.on.Store(true)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.FormValue("time")
		w.Header().Set("Content-Type", "application/json")
		if !f.on.Load() || !strings.HasPrefix(r.FormValue("query"), "large") {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"alloc_id":"a"},"value":[%s,"1"]}]}}`, at)
			return
		}
		f.sent.Add(1)
		from, to := []byte(strconv.Itoa(when)), []byte(at)
		for rest := large; len(rest) > 0; {
			part := rest[:min(len(rest), 256<<10)]
			if end := bytes.LastIndexByte(part, '{'); len(part) < len(rest) && end > 0 {
				part = part[:end]
			}
			rest = rest[len(part):]
			if _, err := w.Write(bytes.ReplaceAll(part, from, to)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// besieged is a configuration with quiet autoscalers, and one of many metrics.
func (w *world) besieged(source, quiet string, large []string) {
	var text strings.Builder
	fmt.Fprintf(&text, "[daemon]\nlisten = \"\"\nsocket = %q\nstate_dir = %q\nsync_period = \"5s\"\n%s[fleets.local]\nkind = \"process\"\n", w.path("sock"), w.path("state"), source)
	autoscaler := func(name string, queries ...string) {
		fmt.Fprintf(&text, "[fleets.local.services.%s]\ncommand = [\"sleep\", \"1000\"]\n[autoscalers.%s]\ntarget = { fleet = \"local\", service = %q }\nmin_replicas = 1\nmax_replicas = 2\n", name, name, name)
		for i, query := range queries {
			fmt.Fprintf(&text, "[[autoscalers.%s.metrics]]\ntype = \"External\"\nname = \"m%d\"\nsource = \"prom\"\nquery = %q\nselect = { alloc_id = \"a\" }\nvalue = \"1\"\n", name, i, query)
		}
	}
	for i := range quietOnes {
		autoscaler(quietName(i), quiet)
	}
	autoscaler("besieger", large...)
	w.write(strings.ReplaceAll(text.String(), `select = { alloc_id = "a" }`, map[bool]string{true: "", false: `select = { alloc_id = "a" }`}[strings.Contains(source, "embedded")]))
}

const quietOnes = 3

func quietName(i int) string { return fmt.Sprintf("quiet%d", i) }

// withstand runs hpad for a few periods, or for ten minutes, in the memory of its unit.
// It wants the quiet autoscalers to be evaluated in every one of them, the large
// queries to fail by the budget alone, and hpad to live.
func (w *world) withstand(t *testing.T, setting string) (h *hpad, g memoryGroup) {
	t.Helper()
	g = newMemoryGroup(t, unitMemory)
	w.wrap = g.enter()
	h = w.launch([]string{unitGo})
	eventually(t, "hpad evaluates", 20*time.Second, func() (string, bool) {
		view, err := h.client.Autoscaler(t.Context(), quietName(0))
		return fmt.Sprint(err), err == nil && !view.Evaluation.Last.IsZero()
	})
	first, late, refused := map[string]time.Time{}, map[string]int{}, false
	const period = 5 * time.Second
	held := time.Duration(soak.Rounds(4, 120)) * period
	eventually(t, "every quiet autoscaler is evaluated all the time, and a large query finds no room", held+30*time.Second, func() (string, bool) {
		all := true
		for i := range quietOnes {
			view := h.viewOf(quietName(i))
			if first[view.Name].IsZero() {
				first[view.Name], late[view.Name] = view.Evaluation.Last, int(view.Evaluation.Late)
			}
			if int(view.Evaluation.Late) > late[view.Name] || view.Evaluation.Error != "" {
				t.Fatalf("%s did not keep its period: %+v", view.Name, view.Evaluation)
			}
			all = all && view.Evaluation.Last.Sub(first[view.Name]) >= held
		}
		if view := h.viewOf("besieger"); view.Decision != nil {
			for _, metric := range view.Decision.Metrics {
				refused = refused || strings.Contains(metric.Error, setting)
			}
		}
		select {
		case <-h.done:
			t.Fatalf("hpad ended: %s; %s killed for want of memory", h.command.ProcessState, g.kills(t))
		default:
		}
		_, most := h.resident()
		return fmt.Sprintf("at most %d MiB, refused: %t", most>>20, refused), all && refused
	})
	if kills := g.kills(t); kills != "0" {
		t.Errorf("%s processes were killed for want of memory", kills)
	}
	now, most := h.resident()
	t.Logf("hpad has %d MiB, and had %d MiB at most", now>>20, most>>20)
	return h, g
}

// Responses of many times the memory that hpad has do not end it, and do not disturb
// autoscalers of the same server.
func TestLargeAnswers(t *testing.T) {
	w, server := newWorld(t), newFlood(t)
	var large []string
	for i := range 40 {
		large = append(large, fmt.Sprintf("large%d", i))
	}
	w.besieged(fmt.Sprintf("[sources.prom]\nkind = \"prometheus\"\nurl = %q\n", server.URL), "small", large)
	h, _ := w.withstand(t, `daemon.answer_memory = "256Mi"`)
	t.Logf("%d answers of 58 MiB were begun", server.sent.Load())
	h.end()
}

// Queries that each hold nearly as much as one may do not end hpad together.
func TestLargeEmbeddedQueries(t *testing.T) {
	w := newWorld(t)
	var large []string
	for i := range 64 {
		large = append(large, fmt.Sprintf("count_over_time(vector(%d)[2400s:1ms])", i))
	}
	w.besieged(fmt.Sprintf("[sources.prom]\nkind = \"embedded\"\ndir = %q\n", w.path("samples")), "vector(1)", large)
	h, _ := w.withstand(t, "daemon.query_samples = 10000000")
	h.end()
}
