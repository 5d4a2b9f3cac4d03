package e2e

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerVariable); dir != "" {
		fmt.Println("worker:", work(dir))
		os.Exit(1)
	}
	if queue := os.Getenv(jobsVariable); queue != "" {
		fmt.Println("worker:", takeJobs(queue))
		os.Exit(1)
	}
	code := parallel.Run(m, 6)
	program.Clean()
	os.Exit(code)
}

// fixture is an hpad process with the directory and the ports of one test.
type fixture struct {
	*program.Program
	t            testing.TB
	dir, control string
	first, last  int
	// listen is hpad's TCP address.
	listen string
}

// instances is the number of ports for workers.
const instances = 8

// newFixture prepares hpad without starting it. options may set State and Environment.
func newFixture(t testing.TB, options program.Options) *fixture {
	t.Helper()
	w := &fixture{t: t, dir: t.TempDir(), first: ports.Block(t, instances+1)}
	w.control = filepath.Join(w.dir, "control")
	if err := os.Mkdir(w.control, 0o700); err != nil {
		t.Fatal(err)
	}
	w.load("queue_length", 10)
	w.load("sessions", 10)
	w.last = w.first + instances - 1
	w.listen = fmt.Sprintf("127.0.0.1:%d", w.last+1)
	options.Daemon = fmt.Sprintf("listen = %q\nsync_period = \"1s\"\n", w.listen)
	options.Environment = append(options.Environment, testVariable+"="+w.control)
	w.Program = program.Prepare(t, options)
	return w
}

// start runs hpad with a configuration and waits until the autoscaler has been evaluated.
func (w *fixture) start(s setup) {
	w.t.Helper()
	w.Configure(s.toml(w))
	w.Start()
}

// setup contains the settings that differ between tests.
type setup struct {
	// Prometheus is the URL of the server. If it is empty, the embedded source is used.
	Prometheus string
	Max        int
	// Service contains further keys of the service in TOML.
	Service string
	// Metrics and Behavior are TOML. If they are empty, the target is a queue of 10 per worker,
	// and the scale-down window is 2 s.
	Metrics, Behavior string
}

func (s setup) toml(w *fixture) string {
	source := fmt.Sprintf("[sources.prom]\nkind = \"prometheus\"\nurl = %q\ntimeout = \"900ms\"\n", s.Prometheus)
	if s.Prometheus == "" {
		source = fmt.Sprintf(`[sources.prom]
kind = "embedded"
dir  = %q
[[sources.prom.scrape]]
fleet    = "local"
target   = "worker"
interval = "500ms"
`, filepath.Join(w.dir, "samples"))
	}
	return fmt.Sprintf(`[fleets.local]
kind = "process"
[fleets.local.services.worker]
command   = [%q]
ports     = "%d-%d"
env       = { %s = %q }
readiness = { http = "/pid", interval = "200ms" }
%s
%s
[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
min_replicas = 1
max_replicas = %d

%s
%s`,
		os.Args[0], w.first, w.last, workerVariable, w.control, s.Service,
		source, cmp.Or(s.Max, instances), cmp.Or(s.Metrics, queueMetric), cmp.Or(s.Behavior, quickDown))
}

const queueMetric = `[[autoscalers.worker.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = 'max(worker_queue_length)'
average_value = "10"
`

const quickDown = `[autoscalers.worker.behavior.scale_down]
stabilization_window = "2s"
`

// eventually waits until ok returns true. The string returned by ok describes the current state.
func eventually(t testing.TB, what string, ok func() (string, bool)) {
	t.Helper()
	wait.For(t, world.Patience, "state in which "+what, ok)
}

// awaitExit waits until hpad has exited with the given status.
func (w *fixture) awaitExit(want string) {
	w.t.Helper()
	eventually(w.t, "exit of hpad", func() (string, bool) { return "it is still running", w.Ended() != "" })
	if got := w.Ended(); got != want {
		w.t.Errorf("exit status of hpad = %s, want %s", got, want)
	}
}

// ready returns the response of /-/ready.
func (w *fixture) ready() string {
	w.t.Helper()
	_, body, err := w.Ask(http.MethodGet, "/-/ready")
	if err != nil {
		w.t.Fatal(err)
	}
	return body
}

// get returns a page, or an error if the status is not 200.
func get(client *http.Client, address string) (string, error) {
	response, err := client.Get(address)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", address, response.Status, text)
	}
	return string(text), err
}

// newClient returns a client that does not reuse connections.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

// awaitView waits until the autoscaler has made a decision and ok returns true.
func (w *fixture) awaitView(what string, ok func(api.Autoscaler) bool) api.Autoscaler {
	w.t.Helper()
	var view api.Autoscaler
	eventually(w.t, what, func() (string, bool) {
		view = w.View("worker")
		return fmt.Sprintf("%+v %+v", view.Status, view.Evaluation), view.Decision != nil && ok(view)
	})
	return view
}

// awaitCount waits for a number of desired replicas.
func (w *fixture) awaitCount(want int32) api.Autoscaler {
	w.t.Helper()
	return w.awaitView(fmt.Sprintf("hpad desires %d replicas", want), func(view api.Autoscaler) bool {
		return view.Status.DesiredReplicas == want
	})
}

// wantOutput runs a command that must succeed, and checks that its output contains all texts.
func (w *fixture) wantOutput(args []string, texts ...string) {
	w.t.Helper()
	output := w.Says(args...)
	for _, text := range texts {
		if !strings.Contains(output, text) {
			w.t.Errorf("output of hpad %s =\n%s\nwant %q", args, output, text)
		}
	}
}

// queryURL returns the URL of an instant query to a Prometheus server.
func queryURL(server, query string) string {
	return server + "/api/v1/query?query=" + url.QueryEscape(query)
}
