package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/internal/parallel"
)

var binary string

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerVariable); dir != "" {
		fmt.Println("worker:", work(dir))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hpad-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "hpad")
	if err := gobuild.Hpad(context.Background(), binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return parallel.Run(m, 6)
}

// world has the directories, ports and configuration of one test.
type world struct {
	t           testing.TB
	dir         string
	control     string
	first, last int
	// listen is hpad's TCP address.
	listen string
}

// instances is the number of worker ports in a world.
const instances = 8

// portBlock is the number of ports in a world: the instances and hpad.
const portBlock = instances + 1

var nextPort atomic.Int32

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.control = filepath.Join(w.dir, "control")
	if err := os.Mkdir(w.control, 0o700); err != nil {
		t.Fatal(err)
	}
	w.load("queue_length", 10)
	w.load("sessions", 10)
	w.first = freePorts(t)
	w.last = w.first + instances - 1
	w.listen = fmt.Sprintf("127.0.0.1:%d", w.last+1)
	return w
}

// freePorts returns the first port of a free block below the kernel's ephemeral range. An
// abstract Unix socket reserves the block for this process.
func freePorts(t testing.TB) int {
	t.Helper()
	const lowest, blocks = 20_000, 1000
	nextPort.CompareAndSwap(0, int32(os.Getpid()))
	for range blocks {
		first := lowest + int(nextPort.Add(1))%blocks*portBlock
		claim, err := net.Listen("unix", fmt.Sprintf("@hpad-e2e-%d", first))
		if err != nil {
			continue
		}
		if allFree(first) {
			t.Cleanup(func() { _ = claim.Close() })
			return first
		}
		_ = claim.Close()
	}
	t.Fatalf("there are no %d free ports in a row from %d on", portBlock, lowest)
	return 0
}

func allFree(first int) bool {
	for port := first; port < first+portBlock; port++ {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) configure(s setup) {
	w.t.Helper()
	w.write(s.toml(w))
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path("hpad.toml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// setup has the differences between the configurations of the tests.
type setup struct {
	// Prometheus is the URL of the server. Empty means the embedded source.
	Prometheus string
	Max        int
	// Metrics and Behavior are TOML. Empty means a queue of 10 per worker and a scale-down
	// window of 2 s.
	Metrics, Behavior string
	// StateDir is in the world's directory if empty.
	StateDir string
}

func (s setup) toml(w *world) string {
	source := fmt.Sprintf("[sources.prom]\nkind = \"prometheus\"\nurl = %q\ntimeout = \"900ms\"\n", s.Prometheus)
	if s.Prometheus == "" {
		source = fmt.Sprintf(`[sources.prom]
kind = "embedded"
dir  = %q
[[sources.prom.scrape]]
fleet    = "local"
target   = "worker"
interval = "500ms"
`, w.path("samples"))
	}
	return fmt.Sprintf(`[daemon]
listen      = %q
socket      = %q
state_dir   = %q
sync_period = "1s"

[fleets.local]
kind = "process"
[fleets.local.services.worker]
command   = [%q]
ports     = "%d-%d"
env       = { %s = %q }
readiness = { http = "/pid", interval = "200ms" }

%s
[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
min_replicas = 1
max_replicas = %d

%s
%s`,
		w.listen, w.path("sock"), cmp.Or(s.StateDir, w.path("state")), os.Args[0], w.first, w.last, workerVariable, w.control,
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

// hpad is a running daemon.
type hpad struct {
	w       *world
	command *exec.Cmd
	client  *api.Client
	http    *http.Client
	log     *os.File
	// done is closed when the process has exited.
	done <-chan struct{}
}

// start runs hpad and waits until it is ready.
func (w *world) start() *hpad {
	w.t.Helper()
	h := w.launch(nil)
	eventually(w.t, "hpad is ready", 20*time.Second, func() (string, bool) {
		select {
		case <-h.done:
			w.t.Fatalf("hpad ended: %s\n%s", h.command.ProcessState, h.said())
		default:
		}
		_, body, err := h.request(http.MethodGet, "/-/ready")
		return fmt.Sprint(body, err), err == nil && strings.Contains(body, `"ready":true`)
	})
	return h
}

// launch starts hpad with additional environment variables and does not wait. hpad is killed
// at the end of the test, or by the kernel if the test process ends first.
func (w *world) launch(environment []string) *hpad {
	w.t.Helper()
	log, err := os.OpenFile(w.path("log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	h := &hpad{w: w, client: api.NewClient(w.path("sock")), log: log}
	h.http = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		Dial:              func(string, string) (net.Conn, error) { return net.Dial("unix", w.path("sock")) },
	}}
	h.command = exec.Command(binary, "run", "--log-format", "json", "--config", w.path("hpad.toml"))
	h.command.Env = append(os.Environ(), worldVariable+"="+w.control)
	h.command.Env = append(h.command.Env, environment...)
	h.command.Stdout, h.command.Stderr = log, log
	process, err := child.Start(h.command)
	if err != nil {
		w.t.Fatalf("start hpad: %v", err)
	}
	h.done = process.Done
	w.t.Cleanup(func() {
		h.signal(syscall.SIGKILL)
		<-h.done
		_ = log.Close()
		if w.t.Failed() {
			text := h.said()
			w.t.Logf("what hpad said at last:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return h
}

func (h *hpad) signal(signal syscall.Signal) {
	if err := h.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		h.w.t.Errorf("send %s to hpad: %v", signal, err)
	}
}

func (h *hpad) kill() {
	h.w.t.Helper()
	h.signal(syscall.SIGKILL)
	<-h.done
}

// stop sends SIGTERM and wants exit code 0.
func (h *hpad) end() {
	h.w.t.Helper()
	h.signal(syscall.SIGTERM)
	h.ended(0)
}

// awaitExit waits until hpad exits with the code.
func (h *hpad) ended(code int) {
	h.w.t.Helper()
	select {
	case <-h.done:
	case <-time.After(20 * time.Second):
		h.w.t.Fatal("hpad did not end within 20s")
	}
	if got := h.command.ProcessState.ExitCode(); got != code {
		h.w.t.Errorf("hpad ended with %s, want exit code %d", h.command.ProcessState, code)
	}
}

// logged returns the log of all runs of hpad in this world.
func (h *hpad) said() string {
	h.w.t.Helper()
	text, err := os.ReadFile(h.w.path("log"))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return string(text)
}

// awaitLogged waits until the log contains all texts.
func (h *hpad) awaitSaid(texts ...string) {
	h.w.t.Helper()
	eventually(h.w.t, fmt.Sprintf("the log has %q", texts), 10*time.Second, func() (string, bool) {
		said := h.said()
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return text + " is not there", false
			}
		}
		return "", true
	})
}

// request sends a request over the socket, or over TCP if path is a URL.
func (h *hpad) request(method, path string) (status int, body string, err error) {
	client := h.http
	if strings.HasPrefix(path, "/") {
		path = "http://hpad" + path
	} else {
		client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	request, err := http.NewRequest(method, path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
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

func (h *hpad) view() api.Autoscaler {
	h.w.t.Helper()
	view, err := h.client.Autoscaler(h.w.t.Context(), "worker")
	if err != nil {
		h.w.t.Fatal(err)
	}
	return view
}

// awaitView waits until the autoscaler has a decision and ok returns true.
func (h *hpad) awaitView(what string, limit time.Duration, ok func(api.Autoscaler) bool) api.Autoscaler {
	h.w.t.Helper()
	var view api.Autoscaler
	eventually(h.w.t, what, limit, func() (string, bool) {
		view = h.view()
		return fmt.Sprintf("%+v %+v", view.Status, view.Evaluation), view.Decision != nil && ok(view)
	})
	return view
}

// awaitCount waits for a number of desired replicas.
func (h *hpad) awaitCount(want int32, limit time.Duration) api.Autoscaler {
	h.w.t.Helper()
	return h.awaitView(fmt.Sprintf("it wants %d replicas", want), limit, func(view api.Autoscaler) bool {
		return view.Status.DesiredReplicas == want
	})
}

type answer struct {
	out, err string
	code     int
}

// hpad runs an hpad command.
func (w *world) hpad(args ...string) answer {
	w.t.Helper()
	command := exec.CommandContext(w.t.Context(), binary, args...)
	command.Env = append(os.Environ(), "HPAD_SOCKET="+w.path("sock"))
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("hpad %s: %v", args, err)
	}
	return answer{out: out.String(), err: errs.String(), code: command.ProcessState.ExitCode()}
}

// wantOutput runs a command that must succeed and print all texts.
func (w *world) wantSaid(args []string, texts ...string) {
	w.t.Helper()
	got := w.hpad(args...)
	if got.code != 0 || got.err != "" {
		w.t.Errorf("hpad %s ended with %d and said %q", args, got.code, got.err)
	}
	for _, text := range texts {
		if !strings.Contains(got.out, text) {
			w.t.Errorf("hpad %s does not say %q:\n%s", args, text, got.out)
		}
	}
}

// queryURL returns the URL of an instant query to a Prometheus server.
func queryURL(server, query string) string {
	return server + "/api/v1/query?query=" + url.QueryEscape(query)
}
