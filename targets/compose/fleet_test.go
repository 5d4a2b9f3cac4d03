package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

var errFull = errors.New("no space left on device")

// started returns a started fleet on a fake engine.
func started(t testing.TB, i *fakeEngine, store targets.Store, change ...func(c *Config)) *Fleet {
	t.Helper()
	c := testConfig(t, i.host())
	for _, ch := range change {
		ch(c)
	}
	f := openFleet(t, c, store)
	f.quiet = 0
	engines.Store(f, i)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

var web = ref("shop/web")

// engines maps fleets to their fake engines.
var engines sync.Map

// caughtUp waits until a fleet has received all events of its engine.
func caughtUp(t testing.TB, f *Fleet) {
	t.Helper()
	i, ok := engines.Load(f)
	if !ok {
		return
	}
	f.follow()
	wait.Soon(t, "last event", func() (all bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		i := i.(*fakeEngine)
		i.with(func() {
			all = len(i.happened) == 0 || !f.follower.following || f.follower.seen.UnixNano() >= i.happened[len(i.happened)-1].TimeNano
		})
		return all
	})
}

func read(t testing.TB, f *Fleet) targets.Reading {
	t.Helper()
	caughtUp(t, f)
	readings, err := f.Snapshot(t.Context(), []targets.Ref{web})
	if err != nil {
		t.Fatal(err)
	}
	return readings[web]
}

func scale(t testing.TB, f *Fleet, n int32) error {
	t.Helper()
	return f.SetReplicas(t.Context(), web, n, "", "test decision")
}

func mustScale(t testing.TB, f *Fleet, n int32) {
	t.Helper()
	if err := scale(t, f, n); err != nil {
		t.Fatal(err)
	}
}

func names(i *fakeEngine) []string {
	var found []string
	for _, c := range i.of("shop", "web") {
		found = append(found, strings.TrimPrefix(c.Name, "/"))
	}
	return found
}

func wantNames(t testing.TB, i *fakeEngine, want ...string) {
	t.Helper()
	wait.Soon(t, fmt.Sprintf("containers %q (got %q)", want, names(i)), func() bool { return slices.Equal(names(i), want) })
}

// full returns a service with every setting that a replica must copy.
func full() service {
	volume := strings.Repeat("0a", 32)
	return service{
		project: "shop", name: "web", healthcheck: true, labels: map[string]string{"team": "shop"},
		networks: map[string]*network.EndpointSettings{
			"shop_front": {Aliases: []string{"www"}, DriverOpts: map[string]string{"opt": "1"}},
			"shop_back":  {Links: []string{"shop-db-1:db"}, IPAMConfig: &network.EndpointIPAMConfig{}},
		},
		mode:  "shop_front",
		ports: nat.PortMap{"80/tcp": {{HostPort: "8000-8009"}}, "81/tcp": {{}}, "82/tcp": {{HostPort: "0"}}},
		host: container.HostConfig{
			Binds:         []string{"named:/data:rw", "/etc/conf:/conf:ro", volume + ":/bound:rw"},
			Mounts:        []mount.Mount{{Type: mount.TypeVolume, Target: "/fresh"}, {Type: mount.TypeVolume, Source: volume, Target: "/inherited"}, {Type: mount.TypeVolume, Source: "other", Target: "/named"}},
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyAlways},
			Resources:     container.Resources{NanoCPUs: 5e8, Memory: 64 << 20},
		},
		config: container.Config{Env: []string{"A=1"}, Cmd: []string{"serve"}, StopSignal: "SIGUSR1"},
		files: map[string]file{
			"/run/secrets/token": {Path: "/run/secrets/token", Mode: 0o440, UID: 5, GID: 7, Data: []byte("secret")},
			"/app.conf":          {Path: "/app.conf", Mode: 0o444, Data: []byte("content")},
		},
	}
}

// TestUnscalableServices checks that the reading and the write return the reason, the setting and a
// remedy before a container is created.
func TestUnscalableServices(t *testing.T) {
	for _, test := range []struct {
		name    string
		service service
		reason  string
		words   []string
	}{
		{"container_name", service{container: "front-1"}, fixedContainerName, []string{`container_name "front-1"`, "remove container_name"}},
		{
			"port",
			service{ports: nat.PortMap{"80/tcp": {{HostPort: "8080"}}}},
			staticHostPort,
			[]string{"host port 8080", `publish "80" alone, or a range such as "8080-8089:80"`},
		},
		{
			"address",
			service{mode: "shop_front", networks: map[string]*network.EndpointSettings{"shop_front": {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "172.18.0.9"}}}},
			staticIP,
			[]string{"172.18.0.9", `network "shop_front"`, "remove ipv4_address"},
		},
		{"network of another container", service{mode: container.NetworkMode("container:" + strings.Repeat("ab", 32))}, sharedNetwork, []string{"container:abababababab", "replace network_mode with networks"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newFakeEngine(t)
			s := test.service
			s.project, s.name = "shop", "web"
			i.up(s, 1)
			f := started(t, i, &targettest.Store{})
			for what, err := range map[string]error{"Snapshot": read(t, f).Err, "SetReplicas": scale(t, f, 2)} {
				if !errors.Is(err, targets.ErrUnscalable) || targets.Reason(err) != test.reason {
					t.Errorf("%s() = %v with reason %q, want ErrUnscalable with %s", what, err, targets.Reason(err), test.reason)
					continue
				}
				for _, words := range append(test.words, `service "web" of project "shop"`, `docker compose up -d web`) {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("%s() = %q, want it to contain %q", what, err, words)
					}
				}
			}
			if i.calls["POST containers/create"] > 0 {
				t.Error("a container was created")
			}
		})
	}
}

// TestVictimsByReadiness checks that victims are in the order of the ReplicaSet controller, and
// that an older configuration matters only among containers that are equally ready.
func TestVictimsByReadiness(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(all []*fakeContainer)
		want   []string // the remaining containers
	}{
		{"unhealthy", func(all []*fakeContainer) { all[0].health = container.Unhealthy }, []string{"shop-web-2", "shop-web-3", "shop-web-4"}},
		{"healthy, with the old configuration", func(all []*fakeContainer) {
			all[0].Config.Labels[labelHash], all[1].Config.Labels[labelHash] = "old", "old"
			all[2].health, all[3].health = container.Starting, container.Starting
		}, []string{"shop-web-1", "shop-web-2"}},
		{"all unready, one with the old configuration", func(all []*fakeContainer) {
			for _, c := range all {
				c.health = container.Starting
			}
			all[1].Config.Labels[labelHash] = "old"
		}, []string{"shop-web-1", "shop-web-3", "shop-web-4"}},
		{"created, paused and exited", func(all []*fakeContainer) {
			all[0].State.Status, all[2].State.Status = container.StatePaused, container.StateCreated
			all[1].State.Status, all[1].State.ExitCode = container.StateExited, 1
		}, []string{"shop-web-4"}},
		{"exited before created before unhealthy", func(all []*fakeContainer) {
			all[0].State.Status, all[1].health = container.StateCreated, container.Unhealthy
			all[3].State.Status = container.StateExited
		}, []string{"shop-web-2", "shop-web-3"}},
		{"restarted recently", func(all []*fakeContainer) {
			for _, c := range all[1:] {
				c.started = c.started.Add(-time.Hour)
				c.State.StartedAt = c.started.UTC().Format(time.RFC3339Nano)
			}
		}, []string{"shop-web-2", "shop-web-3", "shop-web-4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web", healthcheck: true}, 4)
			i.with(func() {
				all := i.replicas("shop", "web")
				for n, c := range all {
					c.created = c.created.Add(time.Duration(n-3) * time.Minute)
				}
				test.change(all)
			})
			f := started(t, i, &targettest.Store{}, func(c *Config) { c.RestartFailed = new(bool) })
			read(t, f)
			mustScale(t, f, int32(len(test.want)))
			wantNames(t, i, test.want...)
		})
	}
}

// TestNamesOfContainers checks that labels identify the containers of a service. A renamed
// container is scaled like any other, and a number whose name is in use is skipped.
func TestNamesOfContainers(t *testing.T) {
	rename := func(from, to string) func(i *fakeEngine) {
		return func(i *fakeEngine) { i.find(from).Name = "/" + to }
	}
	foreign := func(state string, names ...string) func(i *fakeEngine) {
		return func(i *fakeEngine) {
			for _, name := range names {
				c := service{project: "other", name: "db", container: name}.replica(1)
				clear(c.Config.Labels)
				i.add(c)
				c.State.Status = state
			}
		}
	}
	web := service{project: "shop", name: "web"}
	for _, test := range []struct {
		name   string
		of     service
		count  int
		change func(i *fakeEngine)
		to     int32
		want   []string
	}{
		{"renamed to a lower number", web, 2, func(i *fakeEngine) {
			i.drop(i.find("shop-web-1"))
			rename("shop-web-2", "shop-web-1")(i)
		}, 2, []string{"shop-web-1", "shop-web-3"}},
		{"renamed to a higher number", web, 1, rename("shop-web-1", "shop-web-2"), 3, []string{"shop-web-2", "shop-web-3", "shop-web-4"}},
		{"renamed to something else", web, 1, rename("shop-web-1", "front"), 2, []string{"front", "shop-web-2"}},
		{"renamed, with the host's network", service{project: "shop", name: "web", mode: "host"}, 2, func(i *fakeEngine) {
			i.drop(i.find("shop-web-1"))
			rename("shop-web-2", "front")(i)
		}, 2, []string{"front", "shop-web-3"}},
		{"created by an older Compose", web, 1, func(i *fakeEngine) {
			rename("shop-web-1", "shop_web_1")(i)
			foreign(container.StateRunning, "shop_web_2", "shop-web-3")(i)
		}, 3, []string{"shop_web_1", "shop_web_3", "shop_web_4"}},
		{"the next name is in use", web, 1, foreign(container.StateRunning, "shop-web-2"), 2, []string{"shop-web-1", "shop-web-3"}},
		{"several names are in use", web, 1, foreign(container.StateExited, "shop-web-2", "shop-web-4"), 3, []string{"shop-web-1", "shop-web-3", "shop-web-5"}},
		{"name used by a created container", web, 1, foreign(container.StateCreated, "shop-web-2"), 2, []string{"shop-web-1", "shop-web-3"}},
		{"name used by a one-off container of the service", web, 1, func(i *fakeEngine) {
			c := service{project: "shop", name: "web", container: "shop-web-2", labels: map[string]string{labelOneoff: "True", labelNumber: "1", labelService: "other"}}.replica(1)
			i.add(c)
		}, 2, []string{"shop-web-1", "shop-web-3"}},
		{"similar names", web, 1, foreign(container.StateRunning, "shop-web-02", "shop-web-2b", "other-shop-web-2"), 2, []string{"shop-web-1", "shop-web-2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newFakeEngine(t)
			i.networks["host"] = true
			i.up(test.of, test.count)
			f := started(t, i, &targettest.Store{})
			read(t, f)
			i.with(func() { test.change(i) })
			if got := read(t, f); got.Err != nil || got.Hold != nil {
				t.Fatalf("reading = %v, %v, want neither an error nor a hold", got.Err, got.Hold)
			}
			mustScale(t, f, test.to)
			wantNames(t, i, test.want...)
			made := i.of("shop", "web")[len(test.want)-1]
			for _, endpoint := range made.NetworkSettings.Networks {
				if want := []string{strings.TrimPrefix(made.Name, "/"), "web"}; !slices.Equal(endpoint.Aliases[:2], want) {
					t.Errorf("aliases = %q, want %q", endpoint.Aliases, want)
				}
			}
			mustScale(t, f, 0)
			wantNames(t, i)
		})
	}
}

// TestFailedStart checks that a container that cannot be started is removed, and that
// containers that were started before it are kept.
func TestFailedStart(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	store := &targettest.Store{}
	f := started(t, i, store)
	fail := ""
	i.refuseStart = func(c *fakeContainer) string {
		if strings.HasSuffix(c.Name, fail) {
			return "driver failed programming external connectivity on endpoint: Bind for 0.0.0.0:8001 failed: port is already allocated"
		}
		return ""
	}
	fail = "-2"
	err := scale(t, f, 3)
	var partial *targets.PartialError
	if errors.As(err, &partial) || !errors.Is(err, targets.ErrTransient) || targets.Reason(err) != StartFailed || !strings.Contains(err.Error(), "start container shop-web-2") || !strings.Contains(err.Error(), "the port is in use") {
		t.Errorf("SetReplicas() = %v with reason %q", err, targets.Reason(err))
	}
	wantNames(t, i, "shop-web-1")
	fail = "-3"
	if err := scale(t, f, 3); !errors.As(err, &partial) || partial.Reached != 2 {
		t.Errorf("SetReplicas() = %v, want a PartialError with 2", err)
	}
	wantNames(t, i, "shop-web-1", "shop-web-2")
}

// TestDependencies checks that new replicas wait for the conditions of depends_on.
func TestDependencies(t *testing.T) {
	for _, test := range []struct {
		condition string
		change    func(db *fakeContainer)
		want      string // "" means no error
	}{
		{"service_started", func(*fakeContainer) {}, ""},
		{"service_started", func(db *fakeContainer) { db.State.Status = container.StateExited }, "is not running"},
		{"service_healthy", func(*fakeContainer) {}, ""},
		{"service_healthy", func(db *fakeContainer) { db.health = container.Starting }, "is not healthy"},
		{"service_completed_successfully", func(*fakeContainer) {}, "has not completed"},
		{"service_completed_successfully", func(db *fakeContainer) { db.State.Status = container.StateExited }, ""},
		{"service_completed_successfully", func(db *fakeContainer) { db.State.Status, db.State.ExitCode = container.StateExited, 1 }, "has not completed"},
	} {
		i := newFakeEngine(t)
		i.up(service{project: "shop", name: "db", healthcheck: true}, 1)
		i.up(service{project: "shop", name: "web", dependencies: "db:" + test.condition + ":false"}, 2)
		f := started(t, i, &targettest.Store{})
		i.with(func() { test.change(i.replicas("shop", "db")[0]) })
		err := scale(t, f, 3)
		var held *targets.HeldError
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: SetReplicas() = %v", test.condition, err)
		case test.want != "" && (!errors.As(err, &held) || held.Hold.Reason != DependencyNotReady || !strings.Contains(held.Hold.Message, test.want)):
			t.Errorf("%s: SetReplicas() = %v, want a hold that contains %q", test.condition, err, test.want)
		}
		if err := scale(t, f, 1); err != nil {
			t.Errorf("%s: scale-down = %v, want nil despite the dependency", test.condition, err)
		}
	}
}

// TestLeftOver checks that a container that hpad created but did not start is removed. Started
// containers, Compose's containers and those of other services are kept.
func TestLeftOver(t *testing.T) {
	i := newFakeEngine(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	i.with(func() {
		c := service{project: "shop", name: "db"}.replica(1)
		c.Config.Labels[labelBeside] = "false"
		i.add(c)
	})
	f := started(t, i, &targettest.Store{})
	create := func(number int, copied bool) {
		i.with(func() {
			c := s.replica(number)
			c.Config.Labels[labelImage] = i.images["bb:1"]
			if copied {
				c.Config.Labels[labelBeside] = "false"
			}
			i.add(c)
			if number == 4 {
				c.start()
			}
		})
	}
	create(2, true)
	create(3, false)
	create(4, true)
	for range 2 {
		if got := read(t, f); got.SpecReplicas != 3 {
			t.Errorf("spec = %d, want 3: the running containers and the one that Compose created", got.SpecReplicas)
		}
		wantNames(t, i, "shop-web-1", "shop-web-3", "shop-web-4")
		create(5, true)
	}
	if len(i.of("shop", "db")) != 1 {
		t.Error("a container of another hpad was removed")
	}
}

// TestFailedRemoval checks that a failed removal is retried and reported as a problem.
func TestFailedRemoval(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	f := started(t, i, &targettest.Store{})
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if r.Method == http.MethodDelete {
				return http.StatusInternalServerError, "device or resource busy"
			}
			return 0, ""
		}
	})
	mustScale(t, f, 1)
	wait.Soon(t, "problem", func() bool {
		problems := f.Problems()
		return len(problems) == 1 && strings.Contains(problems[0], "shop-web-2") && strings.Contains(problems[0], "device or resource busy")
	})
	if got := read(t, f); got.SpecReplicas != 1 {
		t.Errorf("spec %d, want 1", got.SpecReplicas)
	}
	i.with(func() { i.refuse = nil })
	read(t, f)
	wantNames(t, i, "shop-web-1")
	wait.Soon(t, "end of the problem", func() bool { return len(f.Problems()) == 0 })
}

// TestFullDisk checks that without a working store, scale-downs fail and scale-ups succeed.
func TestFullDisk(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	store := &targettest.Store{}
	f := started(t, i, store)
	read(t, f)
	store.Fail(errFull)
	for _, n := range []int32{1, 0} {
		if err := scale(t, f, n); !errors.Is(err, targets.ErrTransient) || !errors.Is(err, errFull) {
			t.Errorf("SetReplicas(%d) = %v, want ErrTransient", n, err)
		}
	}
	mustScale(t, f, 3)
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
}

// TestFromZero checks that a service returns from 0 unchanged, even after a restart of hpad.
// While an object is missing, the service is held.
func TestFromZero(t *testing.T) {
	i := newFakeEngine(t)
	i.networks["shop_front"], i.networks["shop_back"], i.volumes["named"], i.volumes["other"] = true, true, true, true
	s := full()
	i.up(s, 3)
	store := &targettest.Store{}
	f := started(t, i, store)
	read(t, f)
	mustScale(t, f, 0)
	wantNames(t, i)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	f = started(t, i, store)
	got := read(t, f)
	if got.Err != nil || got.SpecReplicas != 0 || got.Hold != nil || len(got.Notices) > 0 || got.Max == nil || *got.Max != 10 {
		t.Fatalf("reading at 0 = %+v", got)
	}
	for _, lack := range []struct {
		what  string
		there map[string]bool
		name  string
	}{{`network "shop_back"`, i.networks, "shop_back"}, {`volume "other"`, i.volumes, "other"}} {
		i.with(func() { lack.there[lack.name] = false })
		if got := read(t, f); got.Hold == nil || got.Hold.Reason != templateUnusable || !strings.Contains(got.Hold.Message, lack.what) || !strings.Contains(got.Hold.Message, "docker compose up -d web") {
			t.Errorf("hold without %s = %+v", lack.what, got.Hold)
		}
		if err := scale(t, f, 1); !errors.Is(err, targets.ErrHeld) {
			t.Errorf("without %s SetReplicas() = %v, want ErrHeld", lack.what, err)
		}
		i.with(func() { lack.there[lack.name] = true })
	}
	image := i.images["bb:1"]
	i.with(func() { delete(i.images, "bb:1") })
	if got := read(t, f); got.Hold == nil || !strings.Contains(got.Hold.Message, `image "bb:1"`) {
		t.Errorf("hold without the image = %+v", got.Hold)
	}
	i.with(func() { i.images["bb:1"] = image })
	mustScale(t, f, 2)
	wantNames(t, i, "shop-web-1", "shop-web-2")
	for _, c := range i.of("shop", "web") {
		if c.State.Status != container.StateRunning || !maps.EqualFunc(c.files, map[string]file{"/run/secrets/token": s.files["/run/secrets/token"]}, func(a, b file) bool { return cmp.Equal(a, b) }) {
			t.Errorf("%s is %s with files %v", c.Name, c.State.Status, c.files)
		}
	}
}

// TestTakenDown checks that a project is not treated as removed if hpad has scaled all its
// services to 0.
func TestTakenDown(t *testing.T) {
	i := newFakeEngine(t)
	s, db := service{project: "shop", name: "web"}, service{project: "shop", name: "db"}
	i.up(s, 1)
	i.up(db, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 0)
	wantNames(t, i)
	if got := read(t, f); got.Err != nil {
		t.Fatal(got.Err)
	}
	if err := f.SetReplicas(t.Context(), ref("shop/db"), 0, "", "test decision"); err != nil {
		t.Fatal(err)
	}
	wait.Soon(t, "end of the last container", func() bool { return len(i.of("shop", "db")) == 0 })
	if got := read(t, f); got.Err != nil {
		t.Errorf("error with all services at 0 = %v, want nil", got.Err)
	}
	mustScale(t, f, 1)
	if err := f.SetReplicas(t.Context(), ref("shop/db"), 1, "", "test decision"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Snapshot(t.Context(), []targets.Ref{web, ref("shop/db")}); err != nil {
		t.Fatal(err)
	}
	mustScale(t, f, 0)
	wantNames(t, i)
	i.up(db, 0) // docker compose down
	if got := read(t, f); targets.Reason(got.Err) != ServiceNotFound {
		t.Errorf("error after docker compose down = %v, want %s", got.Err, ServiceNotFound)
	}
	if found, err := f.Discover(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("Discover() = %v, %v", found, err)
	}
	if left := f.store.of(key{"shop", "web"}); left.Template != nil {
		t.Error("the template of the removed project is still stored")
	}
}

// TestTemplates checks that a template is stored only while a service is at 0.
func TestTemplates(t *testing.T) {
	i := newFakeEngine(t)
	i.networks["shop_default"] = true
	i.up(service{project: "shop", name: "web"}, 1)
	store := &targettest.Store{}
	f := started(t, i, store)
	stored := func() bool { return f.store.template(key{"shop", "web"}) != nil }
	if read(t, f); stored() {
		t.Error("a template of a running service is stored")
	}
	mustScale(t, f, 0)
	wantNames(t, i)
	mustScale(t, f, 1)
	if stored() {
		t.Error("the template of a running service was kept")
	}
	mustScale(t, f, 0)
	wantNames(t, i)
	i.up(service{project: "shop", name: "web"}, 1)
	if read(t, f); stored() {
		t.Error("the template of a service that Compose started was kept")
	}
}

// TestSecretsNotStored checks that the last replica is kept if store_secrets is false.
func TestSecretsNotStored(t *testing.T) {
	i := newFakeEngine(t)
	i.networks["shop_front"], i.networks["shop_back"] = true, true
	i.up(full(), 2)
	store := &targettest.Store{}
	f := started(t, i, store, func(c *Config) { *c.StoreSecrets = false })
	read(t, f)
	err := scale(t, f, 0)
	if targets.Reason(err) != noTemplate || !strings.Contains(err.Error(), "store_secrets is false") || !strings.Contains(err.Error(), "/run/secrets/token") {
		t.Errorf("SetReplicas(0) = %v with reason %q", err, targets.Reason(err))
	}
	mustScale(t, f, 3)
	if f.store.template(key{"shop", "web"}) != nil {
		t.Error("a template is stored")
	}
	if got, err := f.Check(t.Context()); err != nil || !strings.Contains(strings.Join(got, "\n"), "cannot be scaled to 0") {
		t.Errorf("Check() = %q, %v, want it to contain the service", got, err)
	}
}

// TestFileTooLarge checks that a service with too large files cannot be scaled.
func TestFileTooLarge(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web", files: map[string]file{"/run/secrets/big": {Path: "/run/secrets/big", Data: make([]byte, filesSize+1)}}}, 1)
	f := started(t, i, &targettest.Store{})
	if err := scale(t, f, 2); !errors.Is(err, targets.ErrUnscalable) || !strings.Contains(err.Error(), "/run/secrets") {
		t.Errorf("SetReplicas() = %v, want ErrUnscalable", err)
	}
	wantNames(t, i, "shop-web-1")
}

// TestDeadline checks that a write returns a PartialError if there is not enough time for
// another container.
func TestDeadline(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/start") {
				timer := time.NewTimer(300 * time.Millisecond)
				defer timer.Stop()
				<-timer.C
			}
			return 0, ""
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := f.SetReplicas(ctx, web, 20, "", "test decision")
	var partial *targets.PartialError
	if !errors.As(err, &partial) || !errors.Is(err, targets.ErrWriteTime) || errors.Is(err, targets.ErrUnknownOutcome) || partial.Reached < 2 || int(partial.Reached) != len(names(i)) {
		t.Errorf("SetReplicas() = %v with %d containers, want a PartialError with the same number and ErrWriteTime", err, len(names(i)))
	}
}

// TestOverdue checks that a write whose deadline ends while a container starts has an unknown outcome,
// and that the service has no reading until this container has started.
func TestOverdue(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var starts atomic.Int32
	release := make(chan struct{})
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/start") {
				if starts.Add(1) == 2 {
					cancel()
					<-release
				}
			}
			return 0, ""
		}
	})
	if err := f.SetReplicas(ctx, web, 5, "", "test decision"); !errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
	}
	if got := read(t, f); !errors.Is(got.Err, targets.ErrTransient) || !strings.Contains(got.Err.Error(), "still being started") {
		t.Errorf("reading = %+v, want an ErrTransient", got)
	}
	close(release)
	wait.For(t, time.Minute, "reading", func() (string, bool) {
		got := read(t, f)
		return fmt.Sprintf("%+v", got), got.Err == nil && got.SpecReplicas == 3
	})
}

// TestStates checks the phase of each container state.
func TestStates(t *testing.T) {
	for _, test := range []struct {
		state      string
		exit       int
		phase      policy.Phase
		spec, live int32
		deleting   bool
	}{
		{container.StateCreated, 0, policy.PhasePending, 1, 1, false},
		{container.StateRunning, 0, policy.PhaseRunning, 1, 1, false},
		{container.StatePaused, 0, policy.PhaseRunning, 1, 1, false},
		{container.StateRestarting, 1, policy.PhasePending, 1, 1, false},
		{container.StateExited, 0, policy.PhaseSucceeded, 1, 0, false},
		{container.StateExited, 137, policy.PhaseFailed, 1, 0, false},
		{container.StateDead, 0, policy.PhaseFailed, 0, 0, false},
		{container.StateRemoving, 0, policy.PhaseUnknown, 0, 0, true},
	} {
		i := newFakeEngine(t)
		i.up(service{project: "shop", name: "web"}, 2)
		i.with(func() {
			c := i.replicas("shop", "web")[1]
			c.State.Status, c.State.ExitCode = test.state, test.exit
		})
		got := read(t, started(t, i, &targettest.Store{}))
		if got.SpecReplicas != 1+test.spec || got.StatusReplicas != 1+test.live {
			t.Errorf("%s: spec %d and status %d, want %d and %d", test.state, got.SpecReplicas, got.StatusReplicas, 1+test.spec, 1+test.live)
		}
		for n, instance := range got.Instances {
			if got.Locations.At(n).Name == "shop-web-2" && (instance.Phase != test.phase || instance.Deleting != test.deleting) {
				t.Errorf("%s: phase %v, deleting %v, want %v, %v", test.state, instance.Phase, instance.Deleting, test.phase, test.deleting)
			}
		}
	}
}

// TestNotReplicas checks that one-off containers and hooks are not counted.
func TestNotReplicas(t *testing.T) {
	i := newFakeEngine(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	i.with(func() {
		for name, label := range map[string]string{"run": labelOneoff, "hook": labelHook, "bare": labelHash} {
			c := s.replica(7)
			c.Name = "/shop-web-" + name
			c.Config.Labels[label] = map[string]string{labelOneoff: "True", labelHook: "pre_start"}[label]
			i.add(c)
			c.start()
		}
	})
	f := started(t, i, &targettest.Store{})
	if got := read(t, f); got.SpecReplicas != 1 || len(got.Instances) != 1 {
		t.Errorf("spec %d of %d instances, want 1", got.SpecReplicas, len(got.Instances))
	}
	mustScale(t, f, 2)
	wait.Soon(t, "shop-web-2", func() bool { return slices.Contains(names(i), "shop-web-2") })
}

// TestRestartedContainer checks that a restart between two readings is detected even if both readings list the same containers.
func TestRestartedContainer(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	old := time.Now().Add(-time.Hour)
	i.with(func() {
		c := i.replicas("shop", "web")[0]
		c.started, c.State.StartedAt = old, old.UTC().Format(time.RFC3339Nano)
	})
	f := started(t, i, &targettest.Store{})
	if got := read(t, f).Instances[0]; !got.StartedAt.Equal(old) {
		t.Fatalf("started at %v, want %v", got.StartedAt, old)
	}
	i.with(func() {
		i.replicas("shop", "web")[0].start()
		i.emit(i.replicas("shop", "web")[0], events.ActionStart, "")
	})
	got := read(t, f).Instances[0]
	if !got.StartedAt.After(old) || !got.ReadinessChanged.After(old) || got.Readiness != policy.ReadinessTrue {
		t.Errorf("instance after a restart = %+v", got)
	}
}

func TestDiscover(t *testing.T) {
	i := newFakeEngine(t)
	labeled := func(name, hash string, labels map[string]string) service {
		return service{project: "shop", name: name, hash: hash, labels: labels}
	}
	i.up(labeled("plain", "", nil), 1)
	i.up(labeled("off", "", map[string]string{"hpad.enable": "false"}), 1)
	i.up(labeled("changed", "old", map[string]string{"hpad.max": "3"}), 1)
	i.with(func() { i.replicas("shop", "changed")[0].created = time.Now().Add(-time.Minute) })
	i.up(labeled("changed", "new", map[string]string{"hpad.max": "5"}), 2)
	i.up(labeled("web", "", map[string]string{"hpad.enable": "true", "hpad.min": "0"}), 1)
	orphan := labeled("orphan", "", map[string]string{"hpad.enable": "true"})
	i.up(orphan, 1)
	store := &targettest.Store{}
	f := started(t, i, store)
	if _, err := f.Snapshot(t.Context(), []targets.Ref{web, ref("shop/orphan")}); err != nil {
		t.Fatal(err)
	}
	i.up(orphan, 0)
	mustScale(t, f, 0)
	wantNames(t, i)
	got, err := f.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []targets.Discovered{
		{Name: "shop/changed", Labels: map[string]string{"hpad.max": "5"}},
		{Name: "shop/off", Labels: map[string]string{"hpad.enable": "false"}},
		{Name: "shop/web", Labels: map[string]string{"hpad.enable": "true", "hpad.min": "0"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Discover() (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	found, err := f.Check(t.Context())
	if err != nil || !strings.Contains(strings.Join(found, "\n"), "connected to Docker 28.5.2, API version 1.51") {
		t.Errorf("Check() = %q, %v", found, err)
	}
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				return 0, ""
			}
			return http.StatusForbidden, "the proxy forbids it"
		}
	})
	_, err = f.Check(t.Context())
	if !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "create containers, start containers, stop containers, remove containers") {
		t.Errorf("Check() = %v, want ErrForbidden with the forbidden operations", err)
	}
	if len(names(i)) != 1 {
		t.Errorf("containers after Check() = %q, want no change", names(i))
	}
}

// TestOneBadContainer checks that a failed inspection affects only the container's own service.
func TestOneBadContainer(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	i.up(service{project: "shop", name: "db"}, 1)
	bad := i.of("shop", "db")[0].ID
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.Contains(r.URL.Path, bad) {
				return http.StatusInternalServerError, "layer does not exist"
			}
			return 0, ""
		}
	})
	f := started(t, i, &targettest.Store{})
	readings, err := f.Snapshot(t.Context(), []targets.Ref{web, ref("shop/db")})
	if err != nil {
		t.Fatal(err)
	}
	if readings[web].Err != nil {
		t.Errorf("error of the other service = %v, want nil", readings[web].Err)
	}
	if err := readings[ref("shop/db")].Err; !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "layer does not exist") {
		t.Errorf("error of its own service = %v, want ErrTransient", err)
	}
}

// TestCorruptStore checks that a record that cannot be decoded makes the reading fail and
// prevents a scale-down.
func TestCorruptStore(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	store := &targettest.Store{}
	if err := store.Save(t.Context(), storePrefix+"shop/web", []byte("{")); err != nil {
		t.Fatal(err)
	}
	f := started(t, i, store)
	if _, err := f.Snapshot(t.Context(), []targets.Ref{web}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), storePrefix+"shop/web") {
		t.Errorf("Snapshot() = %v, want ErrTransient with the entry", err)
	}
	if err := scale(t, f, 1); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("SetReplicas() = %v, want ErrTransient", err)
	}
	if len(names(i)) != 2 {
		t.Errorf("containers = %q", names(i))
	}
}

// TestHooks checks that hooks run in new containers and in victims. A new container is removed
// if its hook fails; a victim is always removed.
func TestHooks(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{}, func(c *Config) {
		c.Services = map[string]Service{"shop/web": {
			PostStart: []Hook{{Command: []string{"warm", "up"}, User: "root", Environment: map[string]string{"B": "2", "A": "1"}}},
			PreStop:   []Hook{{Command: []string{"drain"}}},
		}}
	})
	mustScale(t, f, 2)
	for _, exec := range i.execs {
		if got := exec.options; got.User != "root" || !slices.Equal(got.Env, []string{"A=1", "B=2"}) {
			t.Errorf("hook options = %+v", got)
		}
	}
	i.with(func() { i.exit = func([]string) int { return 3 } })
	if err := scale(t, f, 3); targets.Reason(err) != StartFailed || !strings.Contains(err.Error(), `post_start: `) || !strings.Contains(err.Error(), `run ["warm" "up"]: it exited with code 3`) {
		t.Errorf("SetReplicas() = %v with reason %q", err, targets.Reason(err))
	}
	wantNames(t, i, "shop-web-1", "shop-web-2")
	mustScale(t, f, 1)
	wantNames(t, i, "shop-web-1")
	if got := f.Problems(); len(got) != 1 || !strings.Contains(got[0], `pre_stop of container shop-web-2`) {
		t.Errorf("Problems() = %q, want the failed hook", got)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	want := []string{
		"run warm up in shop-web-2", "run warm up in shop-web-3", "remove shop-web-3 v=1",
		"run drain in shop-web-2", "stop shop-web-2", "remove shop-web-2 v=1",
	}
	if !slices.Equal(i.order, want) {
		t.Errorf("calls to the engine = %q, want %q", i.order, want)
	}
}

// TestDrain checks the order of a graceful removal: terminating, withdrawn, drain delay, pre_stop,
// stop. It also checks that the removal continues after a restart of hpad during the delay.
func TestDrain(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 3)
	store := &targettest.Store{}
	configure := func(delay time.Duration) func(c *Config) {
		return func(c *Config) {
			c.Services = map[string]Service{"shop/web": {DrainDelay: delay, PreStop: []Hook{{Command: []string{"drain"}}}}}
		}
	}
	f := started(t, i, store, configure(time.Hour))
	withdrawn := make(chan targets.Reading, 1)
	f.env.Withdraw = func(context.Context, targets.Ref) { withdrawn <- read(t, f) }
	mustScale(t, f, 1)
	if got := <-withdrawn; got.StatusReplicas != 1 || len(got.Instances) != 3 {
		t.Errorf("got %+v at the withdrawal, want two of three instances deleting", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	i.with(func() {
		if len(i.order) > 0 {
			t.Errorf("the engine received %q during the drain delay", i.order)
		}
	})
	started(t, i, store, configure(time.Millisecond))
	wantNames(t, i, "shop-web-1")
	i.with(func() {
		if got := strings.Join(i.order, ", "); strings.Index(got, "run drain in shop-web-3") > strings.Index(got, "stop shop-web-3") {
			t.Errorf("the engine received %q, want pre_stop before the stop", got)
		}
	})
}

// TestVictimRemovedDuringList checks that a victim whose removal ends while a list is in
// progress is not counted as a replica.
func TestVictimRemovedDuringList(t *testing.T) {
	k := key{"shop", "web"}
	victim := &member{Summary: container.Summary{ID: "a"}, key: k}
	newStore(&targettest.Store{}).mark(&containerList{services: map[key][]*member{k: {victim}}}, map[string]bool{"a": true})
	if !victim.doomed {
		t.Error("the victim was counted as a replica")
	}
}
