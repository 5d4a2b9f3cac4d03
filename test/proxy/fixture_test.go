package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) { program.Exit(m.Run()) }

// pool is an hpad with a pool of workers behind a proxy, as docs/proxies.md describes it.
type pool struct {
	*program.Program
	t testing.TB
	// dir contains the files of hpad and of the proxy.
	dir string
	// first is the lowest of the workers' ports. port is the port of the proxy.
	first, port int
	// wanted is the number of workers that the metric requires.
	wanted atomic.Int64
	config string
	// version is the version of the workers.
	version int
	load    *load
}

// workers is the number of ports in the examples, from 8001 on.
const workers = 16

// scaling makes the examples scale by a metric, in single steps and without delay.
const scaling = `
[sources.prom]
kind           = "prometheus"
url            = %q
time_tolerance = "5s"
[[autoscalers.web.metrics]]
type          = "External"
name          = "requests"
source        = "prom"
query         = "requests"
average_value = "50"
[autoscalers.web.behavior.scale_up]
policies = [{ type = "Pods", value = 8, period = "1s" }]
[autoscalers.web.behavior.scale_down]
stabilization_window = "0s"
`

// newPool prepares hpad and the files in the examples with a heading, and starts nothing.
func newPool(t testing.TB, heading string) *pool {
	p := &pool{t: t, dir: t.TempDir(), first: ports.Block(t, workers+1)}
	p.port = p.first + workers
	p.wanted.Store(1)
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"%d"]}]}}`, time.Now().Unix(), 50*p.wanted.Load())
	}))
	t.Cleanup(prometheus.Close)
	worker, err := filepath.Abs("testdata/web.py")
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer(
		"/usr/local/bin/web\"", worker+"\"", "/usr/local/bin/", p.dir+"/", "/var/lib/hpad/", p.dir+"/", "/run/haproxy/", p.dir+"/",
		"listen 80", fmt.Sprintf("listen 127.0.0.1:%d", p.port), "bind :80", fmt.Sprintf("bind 127.0.0.1:%d", p.port),
		`["systemctl", "reload", "nginx"]`, fmt.Sprintf("[%q]", p.path("reload")), `["systemctl", "reload", "haproxy"]`, fmt.Sprintf("[%q]", p.path("reload")),
	)
	examples := map[string]string{}
	for _, block := range blocks(t, heading) {
		examples[block.language] = replaced.Replace(regexp.MustCompile(`80(0[1-9]|1[0-6])\b`).ReplaceAllStringFunc(block.text, p.movedPort))
	}
	p.config = examples["toml"] + fmt.Sprintf(scaling, prometheus.URL)
	p.write("proxy.conf", examples["text"], 0o600)
	p.write("haproxy-web", examples["sh"], 0o700)
	t.Cleanup(func() { child.KillMarked(t, poolVariable+"="+p.dir) }) // the workers survive hpad
	p.Program = program.Prepare(t, program.Options{Config: p.config, Environment: []string{"NOTIFY_SOCKET=" + p.serviceManager(), poolVariable + "=" + p.dir}})
	return p
}

// poolVariable is an environment variable of hpad and the workers. Its value is the directory of
// the pool.
const poolVariable = "HPAD_TEST_POOL"

// serviceManager returns a socket that receives notifications for systemd. With it, hpad does not
// stop the workers when it stops.
func (p *pool) serviceManager() string {
	p.t.Helper()
	path := p.path("notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = socket.Close() })
	go func() { _, _ = io.Copy(io.Discard, socket) }()
	return path
}

// movedPort returns the free port that replaces a port of the examples.
func (p *pool) movedPort(text string) string {
	port, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return strconv.Itoa(p.first + port - 8001)
}

func (p *pool) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pool) write(name, text string, mode os.FileMode) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
}

type block struct{ language, text string }

// blocks returns the examples of docs/proxies.md below a heading, without additions to files that
// the tests do not have.
func blocks(t testing.TB, heading string) (found []block) {
	t.Helper()
	section := guide.Section(t, "../../docs/proxies.md", heading)
	for _, match := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		if !strings.HasPrefix(match[2], "EXTRAOPTS") {
			found = append(found, block{match[1], match[2]})
		}
	}
	return found
}

// run starts a proxy and waits until it forwards requests to the first worker.
func (p *pool) run(name string, arguments ...string) {
	p.t.Helper()
	path, err := installed.Program(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		installed.Absent(p.t, name+" is missing: run test/install/proxies.sh")
	}
	log, err := os.Create(p.path("proxy.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(path, arguments...)
	command.Stdout, command.Stderr = log, log
	proxy, err := child.Start(command)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := proxy.Stop(syscall.SIGTERM, world.Patience); err != nil { // SIGKILL would leave the workers of the proxy
			p.t.Error(err)
		}
		if text, _ := os.ReadFile(p.path("proxy.log")); p.t.Failed() {
			p.t.Logf("log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	wait.For(p.t, world.Patience, "response through the proxy", func() (string, bool) {
		_, err := get(p.t.Context(), http.DefaultClient, p.url())
		return fmt.Sprint(err), err == nil
	})
}

func (p *pool) url() string { return fmt.Sprintf("http://127.0.0.1:%d/", p.port) }

// scale makes the metric require n workers, and waits until n workers are ready and no others are
// left.
func (p *pool) scale(n int) {
	p.t.Helper()
	p.wanted.Store(int64(n))
	p.await(n)
}

// await waits until there are n ready workers and no others, and returns their IDs.
func (p *pool) await(n int) (ids []string) {
	p.t.Helper()
	return p.awaitCounts(fmt.Sprintf("%d ready workers", n), func(counts api.Instances) bool { return counts == api.Instances{Ready: int32(n)} })
}

// awaitCounts waits until the workers have the wanted states, and returns their IDs.
func (p *pool) awaitCounts(what string, wanted func(api.Instances) bool) (ids []string) {
	p.t.Helper()
	wait.For(p.t, world.Patience, what, func() (string, bool) {
		list, err := p.Client.Instances(p.t.Context(), "web")
		ids = nil
		for _, instance := range list.Instances {
			ids = append(ids, instance.ID)
		}
		return fmt.Sprintf("%+v, %v", list.Counts(), err), err == nil && wanted(list.Counts())
	})
	slices.Sort(ids)
	return ids
}

// load sends requests until it is stopped.
type load struct {
	cancel  context.CancelFunc
	clients sync.WaitGroup
	count   atomic.Int64
	began   time.Time

	mu     sync.Mutex
	failed []string
}

// clients is the number of clients. Each sends a request every 40 ms, so that together they send
// 250 requests per second. Every second client uses persistent connections.
const clients = 10

func startLoad(url string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, began: time.Now()}
	for i := range clients {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
		l.clients.Go(func() {
			defer client.CloseIdleConnections()
			for tick := time.NewTicker(40 * time.Millisecond); ; {
				select {
				case <-tick.C:
				case <-ctx.Done():
					tick.Stop()
					return
				}
				if _, err := get(context.Background(), client, url); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprintf("after %v, client %d: %v", time.Since(l.began).Round(time.Millisecond), i, err))
					l.mu.Unlock()
				}
				l.count.Add(1)
			}
		})
	}
	return l
}

func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}

// awaitRequests waits for 200 more requests.
func (l *load) awaitRequests(t testing.TB) {
	t.Helper()
	until := l.count.Load() + 200
	wait.For(t, world.Patience, "requests", func() (string, bool) { return fmt.Sprint(l.count.Load()), l.count.Load() >= until })
}

// takeFailed returns the requests that have failed since the last call.
func (l *load) takeFailed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := l.failed
	l.failed = nil
	return failed
}

// get returns the name of the instance that responded.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}
