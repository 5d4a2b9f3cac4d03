package nomad

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

// patience is how long hpad and Nomad may take to do what they do within seconds
// on an idle machine.
const patience = 40 * time.Second

// world is a daemon of a test, with its state.
type world struct {
	*daemon.Daemon
	t     testing.TB
	dir   string
	kinds daemon.Kinds
	stop  func()
}

// newWorld runs a daemon in the test's process over the configuration.
func newWorld(t testing.TB, text string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), kinds: daemon.BuiltIn()}
	w.run(text)
	return w
}

func (w *world) run(text string) {
	w.t.Helper()
	text = fmt.Sprintf("[daemon]\nsync_period = \"1s\"\nstate_dir = %q\ncpu_initialization_period = \"1s\"\ninitial_readiness_delay = \"1s\"\n%s",
		filepath.Join(w.dir, "state"), text)
	if _, err := config.Parse("hpad.toml", []byte(text)); err != nil {
		w.t.Fatal(err)
	}
	store, err := state.Open(filepath.Join(w.dir, "state"), state.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Daemon = daemon.New(daemon.Options{
		Load:  func() (*config.Config, error) { return config.Parse("hpad.toml", []byte(text)) },
		Store: store, Kinds: w.kinds,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the daemon ends with %v", err)
		}
		if err := store.Close(); err != nil {
			w.t.Errorf("close the store: %v", err)
		}
	})
	w.t.Cleanup(func() {
		if w.t.Failed() {
			for _, a := range w.Autoscalers() {
				w.t.Logf("%s at the end: %+v\n%s", a.Name, a.Status, a.Evaluation.Error)
			}
		}
		w.stop()
	})
	wait.For(w.t, patience, "first pass of every autoscaler", func() (string, bool) {
		r := w.Readiness()
		return fmt.Sprintf("%+v", r), r.Ready
	})
}

// autoscaler answers what hpad shows of an autoscaler.
func (w *world) autoscaler(name string) api.Autoscaler {
	w.t.Helper()
	a, ok := w.Autoscaler(name)
	if !ok {
		w.t.Fatalf("there is no autoscaler %q", name)
	}
	return a
}

// condition answers one condition of an autoscaler; the zero one when it is not
// set yet.
func (w *world) condition(name string, kind policy.ConditionType) policy.Condition {
	w.t.Helper()
	for _, c := range w.autoscaler(name).Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return policy.Condition{}
}

// await waits until a condition of an autoscaler has a status, a reason and a
// message with some words.
func (w *world) await(name string, kind policy.ConditionType, reason, words string) policy.Condition {
	w.t.Helper()
	var c policy.Condition
	wait.For(w.t, patience, fmt.Sprintf("%s of %q with reason %s and %q", kind, name, reason, words), func() (string, bool) {
		c = w.condition(name, kind)
		return fmt.Sprintf("it is %+v", c), c.Reason == reason && strings.Contains(c.Message, words)
	})
	return c
}

// passes waits until so many more passes of an autoscaler ended.
func (w *world) passes(name string, n int) {
	w.t.Helper()
	seen, last := 0, w.autoscaler(name).Evaluation.Last
	wait.For(w.t, patience, fmt.Sprintf("%d passes of %q", n, name), func() (string, bool) {
		if now := w.autoscaler(name).Evaluation.Last; now.After(last) {
			last = now
			seen++
		}
		return fmt.Sprintf("%d ended", seen), seen >= n
	})
}

// load is an exporter whose values the test sets, and a Prometheus that scrapes
// it every second.
type load struct {
	url string

	mu     sync.Mutex
	values map[string]float64
}

// newLoad starts both.
func newLoad(t testing.TB) *load {
	t.Helper()
	l := &load{values: map[string]float64{}}
	exporter := httptest.NewServer(l)
	t.Cleanup(exporter.Close)
	l.url = promtest.Start(t, fmt.Sprintf(`
global:
  scrape_interval: 1s
scrape_configs:
- job_name: load
  static_configs:
  - targets: [%q]
`, strings.TrimPrefix(exporter.URL, "http://"))).URL
	return l
}

// set gives a series a value, as set(`queue{of="web"}`, 3).
func (l *load) set(series string, value float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[series] = value
}

// ServeHTTP is what Prometheus scrapes.
func (l *load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for series, value := range l.values {
		_, _ = fmt.Fprintf(w, "%s %v\n", series, value)
	}
}

// queue sets the length of a job's queue.
func (l *load) queue(job string, length float64) { l.set(fmt.Sprintf("queue{of=%q}", job), length) }

// fleet is the configuration of a fleet called prod.
func fleet(address, extra string) string {
	return fmt.Sprintf("[fleets.prod]\nkind = \"nomad\"\naddress = %q\nresource_interval = \"1s\"\ntimeout = \"3s\"\n%s\n", address, extra)
}

// source is that of a source called prom.
func (l *load) source() string {
	return fmt.Sprintf("[sources.prom]\nkind = \"prometheus\"\nurl = %q\n", l.url)
}

// queued is that of an autoscaler that gives a job an instance for each 10 in its
// queue, and shrinks after 2 seconds.
func queued(job string, minimum, maximum int) string {
	return fmt.Sprintf(`
[autoscalers.%[1]s]
target       = { fleet = "prod", job = %[1]q, group = "app" }
min_replicas = %[2]d
max_replicas = %[3]d
[[autoscalers.%[1]s.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = 'queue{of=%[1]q}'
average_value = "10"
[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "2s"
`, job, minimum, maximum)
}
