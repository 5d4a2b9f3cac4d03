package proxy

import (
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/traffic"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// The requests of each pool keep a tenth of a CPU busy.
func TestMain(m *testing.M) { program.Exit(parallel.Run(m, 6)) }

// pool is an hpad with a pool of workers behind a proxy, as docs/proxies.md describes it.
type pool struct {
	*program.Program
	t testing.TB
	// dir contains the files of hpad and of the proxy.
	dir string
	// first is the lowest of the workers' ports. port is the port of the proxy.
	first, port int
	// wanted is the number of workers that the metric requires.
	wanted  atomic.Int64
	config  string
	version int
	load    *traffic.Load
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
		"/usr/local/bin/web\"", worker+"\"", "/usr/local/bin/", p.dir+"/", "/var/cache/hpad/", p.dir+"/", "/run/haproxy/", p.dir+"/",
		"listen 80", fmt.Sprintf("listen 127.0.0.1:%d", p.port), "bind :80", fmt.Sprintf("bind 127.0.0.1:%d", p.port),
		`["systemctl", "reload", "nginx"]`, fmt.Sprintf("[%q]", p.path("reload")), `["systemctl", "reload", "haproxy"]`, fmt.Sprintf("[%q]", p.path("reload")),
	)
	examples := map[string]string{}
	for _, block := range guide.Blocks(t, "../../docs/proxies.md", heading) {
		if !strings.HasPrefix(block.Text, "EXTRAOPTS") { // for Debian's unit
			examples[block.Language] = replaced.Replace(regexp.MustCompile(`80(0[1-9]|1[0-6])\b`).ReplaceAllStringFunc(block.Text, p.movedPort))
		}
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

// run starts a proxy and waits until it forwards requests to the first worker.
func (p *pool) run(name string, arguments ...string) {
	p.t.Helper()
	path := proxyProgram(p.t, name)
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
		err := traffic.Get(p.t.Context(), http.DefaultClient, p.url())
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
		list, err := api.Get[api.InstanceList](p.t.Context(), p.Client, api.Path("autoscalers", "web", "instances"), nil)
		ids = nil
		for _, instance := range list.Instances {
			ids = append(ids, instance.ID)
		}
		return fmt.Sprintf("%+v, %v", list.Counts(), err), err == nil && wanted(list.Counts())
	})
	slices.Sort(ids)
	return ids
}
