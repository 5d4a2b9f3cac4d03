package docker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/wait"
)

// TestComposeContract runs the contract suite for Compose services on a real engine.
func TestComposeContract(t *testing.T) {
	if !separate(t) {
		return
	}
	composeContract(t, dockertest.Start(t, dockertest.Options{Version: dockertest.Newest}), "300ms", "interval: 1s, start_period: 30s, start_interval: 200ms")
}

// composeContract runs the contract suite on an engine. A worker stops after the delay stop. health
// contains additional settings of the health check.
func composeContract(t *testing.T, e *dockertest.Engine, stop, health string) {
	e.ImportWorker(t, dockertest.Worker, "1")
	projects := 0
	targettest.Run(t, targettest.Kind{Samples: true, Patience: patience, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		projects++
		c := &contract{e: e, stop: stop, health: health, gate: newGate(t, e), store: &targettest.Store{}, services: map[targets.Ref]*contractService{}}
		c.project = e.Project(t, fmt.Sprintf("contract%d", projects), "")
		return c.platform(t, counts)
	}})
}

// contract is a Compose project on which one case of the contract suite runs.
type contract struct {
	e        *dockertest.Engine
	stop     string
	health   string
	gate     *gate
	project  *dockertest.Project
	store    *targettest.Store
	services map[targets.Ref]*contractService
}

type contractService struct {
	name, ports string
	scale       int32
}

func (c *contract) platform(t *testing.T, counts []int32) *targettest.Platform {
	p := &targettest.Platform{Missing: targets.Ref{Fleet: "shop", Name: c.project.Name + "/missing"}, Survive: true}
	p.Open = func(t *testing.T) targets.Fleet { return c.open(t) }
	for n, count := range counts {
		s := &contractService{name: fmt.Sprintf("svc-%c", 'a'+n), scale: max(1, count)}
		ref := targets.Ref{Fleet: "shop", Name: c.project.Name + "/" + s.name}
		c.services[ref] = s
		p.Refs = append(p.Refs, ref)
	}
	c.up()
	for n, count := range counts {
		if count == 0 {
			c.toZero(t, p.Refs[n])
		}
	}
	p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
		c.project.Compose("up", "--detach", "--no-recreate", "--scale", fmt.Sprintf("%s=%d", c.services[ref].name, n), c.services[ref].name)
	}
	p.SetReady = c.setReady
	p.Hold = c.hold
	p.Unreachable = func(_ *testing.T, on bool) { c.gate.set(func() { c.gate.broken = on }) }
	p.Throttle = func(_ *testing.T, on bool) { c.gate.set(func() { c.gate.throttle = on }) }
	p.Hang = func(_ *testing.T, on bool) { c.gate.hold(on) }
	p.Reach = func(t *testing.T, ref targets.Ref, count int32) {
		// An unrelated container takes the name of the next replica just before the fleet creates
		// that replica.
		name := fmt.Sprintf("%s-%s-%d", c.project.Name, c.services[ref].name, count+1)
		var once sync.Once
		c.gate.set(func() {
			c.gate.before = func(r *http.Request) {
				if path.Base(r.URL.Path) == "create" && r.URL.Query().Get("name") == name {
					once.Do(func() { c.e.CLI(t, "create", "--name", name, dockertest.Worker) })
				}
			}
		})
		t.Cleanup(func() { c.e.CLI(t, "rm", name) })
	}
	if !c.e.IsPodman() { // rejects ranges of host ports
		p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
			c.services[ref].ports = fmt.Sprintf("ports: [\"18900-%d:8080\"]", 18899+highest)
			c.up()
		}
	}
	p.SlowStop = func(*testing.T, targets.Ref) {} // all workers stop slowly
	p.Writes = func() int {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		return c.gate.writes
	}
	p.Sampling = func() bool {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		return time.Since(c.gate.sampled) < 2500*time.Millisecond
	}
	return p
}

// up writes the Compose file and runs "docker compose up".
func (c *contract) up() {
	var file strings.Builder
	file.WriteString("services:\n")
	for _, s := range c.services {
		fmt.Fprintf(&file, `  %s:
    image: %s
    scale: %d
    environment: { WORKER_STOP_AFTER: %s }
    stop_grace_period: 10s
    healthcheck: { test: [CMD, /worker, check], retries: 1, %s }
    %s
`, s.name, dockertest.Worker, s.scale, c.stop, c.health, s.ports)
	}
	c.project.Write("compose.yaml", file.String())
	c.project.Compose("up", "--detach")
}

func (c *contract) open(t *testing.T) *compose.Fleet {
	t.Helper()
	config := &compose.Config{Config: docker.Config{Host: c.gate.host(), ResourceInterval: time.Second}}
	config.SetDefaults()
	f, err := compose.New("shop", config, targets.Env{Store: c.store})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// toZero scales a service to 0 with a separate fleet, and waits until no containers remain.
func (c *contract) toZero(t *testing.T, ref targets.Ref) {
	t.Helper()
	f := c.open(t)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.SetReplicas(t.Context(), ref, 0, "", "test"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "removal of the last container", func() (string, bool) {
		left := c.e.CLI(t, "ps", "--all", "--quiet", "--filter", "name="+c.project.Name+"-"+c.services[ref].name)
		return left, left == ""
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// setReady sets the result of a worker's health check.
func (c *contract) setReady(t *testing.T, _ targets.Ref, id string, ready bool) {
	t.Helper()
	inspected, err := c.e.Client.ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	health := "bad"
	if ready {
		health = "good"
	}
	for _, endpoint := range inspected.NetworkSettings.Networks {
		response, err := c.e.HTTP().Post("http://"+net.JoinHostPort(endpoint.IPAddress, "8080")+"/set?health="+health, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return
	}
	t.Fatalf("container %s has no network", id)
}

// hold gives the first container of a service the temporary name that Compose uses while it
// replaces a container. With on = false, it restores the name.
func (c *contract) hold(t *testing.T, ref targets.Ref, on bool) {
	t.Helper()
	name := c.project.Name + "-" + c.services[ref].name + "-1"
	from, to := name, "0123456789ab_"+name
	if !on {
		from, to = to, from
	}
	if err := c.e.Client.ContainerRename(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
}

// gate is a proxy between a fleet and the engine that injects faults and counts calls.
type gate struct {
	server *httptest.Server

	mu               sync.Mutex
	broken, throttle bool
	held             chan struct{}
	writes           int
	sampled          time.Time
	// before, if not nil, runs before each call.
	before func(r *http.Request)
}

func newGate(t testing.TB, e *dockertest.Engine) *gate {
	g := &gate{}
	socket := strings.TrimPrefix(e.Host(), "unix://")
	target := &url.URL{Scheme: "http", Host: "docker"}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	proxy.Transport = transport
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.pass(w, r, proxy)
	}))
	t.Cleanup(g.server.Close)
	t.Cleanup(func() { g.hold(false) })
	return g
}

func (g *gate) host() string { return "tcp://" + g.server.Listener.Addr().String() }

func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// hold blocks all calls if on is true. Otherwise, it lets them continue.
func (g *gate) hold(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case on && g.held == nil:
		g.held = make(chan struct{})
	case !on && g.held != nil:
		close(g.held)
		g.held = nil
	}
}

// pass applies the current faults to a call and forwards it.
func (g *gate) pass(w http.ResponseWriter, r *http.Request, engine http.Handler) {
	g.mu.Lock()
	broken, throttle, held, before := g.broken, g.throttle, g.held, g.before
	switch action := path.Base(r.URL.Path); {
	case r.Method == http.MethodPost && (action == "create" || action == "stop" || action == "update"):
		g.writes++
	case action == "stats":
		g.sampled = time.Now()
	}
	g.mu.Unlock()
	if before != nil {
		before(r)
	}
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	if broken {
		panic(http.ErrAbortHandler)
	}
	if throttle {
		http.Error(w, `{"message":"too many requests"}`, http.StatusTooManyRequests)
		return
	}
	engine.ServeHTTP(w, r)
}

// TestComposeHooks checks that a fleet runs the configured hooks in new replicas and in victims.
func TestComposeHooks(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t, dockertest.Options{})
	e.ImportWorker(t, dockertest.Worker, "1")
	p := e.Project(t, "hooked", "services: { web: { image: \"worker:1\", volumes: [\"./shared:/shared\"], stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach")
	write := func(name string) []compose.Hook {
		return []compose.Hook{{Command: []string{"/worker", "write", "/shared/" + name, "x"}, User: "0"}}
	}
	config := &compose.Config{
		Config:   docker.Config{Host: e.Host(), Timeout: patience},
		Services: map[string]compose.Service{"hooked/web": {PostStart: write("started"), PreStop: write("stopping")}},
	}
	config.SetDefaults()
	f, err := compose.New("shop", config, targets.Env{Store: &targettest.Store{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		replicas int32
		name     string
	}{{2, "started"}, {1, "stopping"}} {
		if err := f.SetReplicas(t.Context(), targets.Ref{Fleet: "shop", Name: "hooked/web"}, step.replicas, "", "test"); err != nil {
			t.Fatal(err)
		}
		wait.For(t, patience, "file of the hook", func() (string, bool) {
			_, err := os.Stat(filepath.Join(p.Dir, "shared", step.name))
			return fmt.Sprint(err, f.Problems()), err == nil
		})
	}
}
