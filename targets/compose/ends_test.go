package compose

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

func TestEndOf(t *testing.T) {
	never, always, unless := container.RestartPolicy{Name: "no"}, container.RestartPolicy{Name: "always"}, container.RestartPolicy{Name: "unless-stopped"}
	failures := container.RestartPolicy{Name: "on-failure"}
	thrice := container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 3}
	for _, test := range []struct {
		name     string
		state    container.State
		policy   container.RestartPolicy
		restarts int
		signal   string
		want     end
	}{
		{"running", container.State{Status: "running"}, never, 0, "", endNone},
		{"created", container.State{Status: "created"}, never, 0, "", endNone},
		{"restarting", container.State{Status: "restarting", ExitCode: 1}, always, 0, "", endNone},
		{"dead", container.State{Status: "dead", ExitCode: 1}, never, 0, "", endNone},
		{"exit code 0", container.State{Status: "exited"}, never, 0, "", endStopped},
		{"SIGTERM", container.State{Status: "exited", ExitCode: 143}, never, 0, "", endStopped},
		{"SIGKILL", container.State{Status: "exited", ExitCode: 137}, never, 0, "", endStopped},
		{"SIGKILL, no policy", container.State{Status: "exited", ExitCode: 137}, container.RestartPolicy{}, 0, "", endStopped},
		{"out of memory", container.State{Status: "exited", ExitCode: 137, OOMKilled: true}, never, 0, "", endFailed},
		{"out of memory, exit code 0", container.State{Status: "exited", OOMKilled: true}, never, 0, "", endFailed},
		{"exit code 1", container.State{Status: "exited", ExitCode: 1}, never, 0, "", endFailed},
		{"SIGINT", container.State{Status: "exited", ExitCode: 130}, never, 0, "", endFailed},
		{"configured SIGINT", container.State{Status: "exited", ExitCode: 130}, never, 0, "SIGINT", endStopped},
		{"configured signal 2", container.State{Status: "exited", ExitCode: 130}, never, 0, "2", endStopped},
		{"SIGTERM instead of the configured signal", container.State{Status: "exited", ExitCode: 143}, never, 0, "SIGINT", endStopped},
		{"exit code 128 with an unknown configured signal", container.State{Status: "exited", ExitCode: 128}, never, 0, "SIGNONE", endFailed},
		{"always", container.State{Status: "exited", ExitCode: 1}, always, 0, "", endStopped},
		{"unless stopped", container.State{Status: "exited", ExitCode: 1}, unless, 7, "", endStopped},
		{"always, out of memory", container.State{Status: "exited", ExitCode: 137, OOMKilled: true}, always, 2, "", endStopped},
		{"always, start failed", container.State{Status: "exited", ExitCode: 128, Error: "port is already allocated"}, always, 0, "", endFailed},
		{"on failure", container.State{Status: "exited", ExitCode: 1}, failures, 9, "", endStopped},
		{"on failure, exit code 0", container.State{Status: "exited"}, failures, 0, "", endStopped},
		{"on failure, before the last restart", container.State{Status: "exited", ExitCode: 1}, thrice, 2, "", endStopped},
		{"on failure, after the last restart", container.State{Status: "exited", ExitCode: 1}, thrice, 3, "", endFailed},
		{"on failure, after the last restart, SIGTERM", container.State{Status: "exited", ExitCode: 143}, thrice, 3, "", endStopped},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := endOf(&container.InspectResponse{
				ContainerJSONBase: &container.ContainerJSONBase{State: &test.state, RestartCount: test.restarts, HostConfig: &container.HostConfig{RestartPolicy: test.policy}},
				Config:            &container.Config{StopSignal: test.signal},
			})
			if got != test.want {
				t.Errorf("endOf() = %v, want %v", got, test.want)
			}
		})
	}
}

// isHeld checks whether readings and writes are held with ServiceStopped.
func isHeld(t *testing.T, f *Fleet, want bool) {
	t.Helper()
	got := read(t, f)
	if held := got.Hold != nil && got.Hold.Reason == ServiceStopped && strings.Contains(got.Hold.Message, `"docker compose start web"`); got.Err != nil || held != want {
		t.Errorf("hold = %+v, error %v, want a hold with reason %s: %v", got.Hold, got.Err, ServiceStopped, want)
	}
	for _, n := range []int32{got.SpecReplicas + 1, got.SpecReplicas - 1} {
		if want {
			if err := scale(t, f, n); !errors.Is(err, targets.ErrHeld) {
				t.Errorf("SetReplicas(%d) = %v, want ErrHeld", n, err)
			}
		}
	}
}

// TestServiceStopped checks that a stopped service is held, even after a restart of hpad, until
// one of its containers runs again.
func TestServiceStopped(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 3)
	store := &targettest.Store{}
	f := started(t, i, store)
	isHeld(t, f, false)
	i.halt("shop", "web", 143)
	isHeld(t, f, true)
	if got := read(t, f); len(got.Notices) > 0 || got.SpecReplicas != 3 {
		t.Errorf("spec = %d with notices %+v, want 3 without notices, because an operator stopped the containers", got.SpecReplicas, got.Notices)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = started(t, i, store)
	isHeld(t, f, true)
	i.with(func() { i.replicas("shop", "web")[1].start() })
	isHeld(t, f, false)
	mustScale(t, f, 4)
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3", "shop-web-4")

	// A single stopped container is irrelevant, and a paused container is running.
	i.halt("shop", "web", 0)
	i.with(func() {
		i.replicas("shop", "web")[3].start()
		i.replicas("shop", "web")[3].State.Status = container.StatePaused
	})
	isHeld(t, f, false)
}

func TestServiceEnded(t *testing.T) {
	run := func(c *fakeContainer) { c.State.Status = container.StateRestarting }
	code := func(code int) func(c *fakeContainer) { return func(c *fakeContainer) { c.end(code) } }
	memory := func(c *fakeContainer) { c.end(137); c.State.OOMKilled = true }
	later := func(do func(c *fakeContainer)) func(c *fakeContainer) {
		return func(c *fakeContainer) {
			do(c)
			c.State.FinishedAt = time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
		}
	}
	created := func(c *fakeContainer) { c.State.Status = container.StateCreated }
	for _, test := range []struct {
		name string
		// ends contains a function for each container that sets its state.
		ends []func(c *fakeContainer)
		want bool
	}{
		{"all with exit code 0", []func(c *fakeContainer){code(0), code(0)}, true},
		{"killed and stopped", []func(c *fakeContainer){code(137), code(143)}, true},
		{"one stopped and one never started", []func(c *fakeContainer){code(143), created}, true},
		{"all created", []func(c *fakeContainer){created, created}, false},
		{"one restarting", []func(c *fakeContainer){code(143), run}, false},
		{"all failed", []func(c *fakeContainer){code(1), code(2)}, false},
		{"all out of memory", []func(c *fakeContainer){memory, memory}, false},
		{"one failed, then one stopped", []func(c *fakeContainer){code(1), later(code(143))}, true},
		{"one stopped, then one failed", []func(c *fakeContainer){code(143), later(code(1))}, false},
		{"one stopped, then one out of memory", []func(c *fakeContainer){code(143), later(memory)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web"}, len(test.ends))
			i.with(func() {
				for n, c := range i.replicas("shop", "web") {
					test.ends[n](c)
					i.emit(c, events.ActionDie, "")
					i.happened[n].TimeNano = max(i.happened[n].TimeNano, parseTime(c.State.FinishedAt).UnixNano())
				}
			})
			isHeld(t, started(t, i, &targettest.Store{}), test.want)
		})
	}
}

// TestStoppedWithAnError checks that containers that exit with an error after a signal were
// stopped, even if the engine no longer stores the event. Old signals and signals with other
// meanings are ignored.
func TestStoppedWithAnError(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	store := &targettest.Store{}
	f := started(t, i, store)
	i.halt("shop", "web", 1)
	isHeld(t, f, true)
	i.with(func() { i.happened = nil })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = started(t, i, store)
	isHeld(t, f, true)

	for name, signal := range map[string]struct {
		number string
		ago    time.Duration
		want   bool
	}{
		"2": {"2", 0, true}, "1 (reload)": {"1", 0, false}, "15 long ago": {"15", stopAge + time.Second, false}, "15 within the grace period": {"15", 80 * time.Second, true},
	} {
		i := newFakeEngine(t)
		s := service{project: "shop", name: "web"}
		if name == "15 within the grace period" {
			s.config.StopTimeout = new(90)
		}
		i.up(s, 1)
		f := started(t, i, &targettest.Store{})
		read(t, f)
		i.with(func() {
			c := i.replicas("shop", "web")[0]
			i.emit(c, events.ActionKill, signal.number)
			i.happened[0].TimeNano -= signal.ago.Nanoseconds()
			c.State.StartedAt = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
			c.end(1)
			i.emit(c, events.ActionDie, "")
		})
		if got := read(t, f).Hold != nil; got != signal.want {
			t.Errorf("after signal %s: held = %v, want %v", name, got, signal.want)
		}
	}
}

// TestStoppedWithoutEvents checks that without events, the exit code decides.
func TestStoppedWithoutEvents(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	f := started(t, i, &targettest.Store{})
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/events") {
				return http.StatusForbidden, "forbidden by the proxy"
			}
			return 0, ""
		}
	})
	i.halt("shop", "web", 143)
	isHeld(t, f, true)
	i.with(func() {
		for _, c := range i.replicas("shop", "web") {
			c.start()
			c.end(1)
			c.State.FinishedAt = time.Now().Add(-endSlack).UTC().Format(time.RFC3339Nano)
		}
	})
	f = started(t, i, &targettest.Store{})
	isHeld(t, f, true) // the events are pending
	f.follower.first = f.follower.first.Add(-endSlack)
	isHeld(t, f, false)
}

// TestOwnStops checks that a service that hpad has scaled to 0 is not held.
func TestOwnStops(t *testing.T) {
	i := newFakeEngine(t)
	i.networks["shop_default"] = true
	i.up(service{project: "shop", name: "web"}, 2)
	store := &targettest.Store{}
	f := started(t, i, store)
	read(t, f)
	refuse := func(r *http.Request) (int, string) {
		if r.Method == http.MethodDelete {
			return http.StatusInternalServerError, "device or resource busy"
		}
		return 0, ""
	}
	i.with(func() { i.refuse = refuse })
	mustScale(t, f, 0)
	wait.Soon(t, "stops", func() (stopped bool) {
		i.with(func() {
			stopped = !slices.ContainsFunc(i.replicas("shop", "web"), func(c *fakeContainer) bool { return c.State.Status == container.StateRunning })
		})
		return stopped
	})
	isHeld(t, f, false)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = started(t, i, store)
	isHeld(t, f, false)
	i.with(func() { i.refuse = nil })
	wait.Soon(t, "removal by a later reading", func() bool { // a reading does not repeat a removal in progress
		isHeld(t, f, false)
		return len(names(i)) == 0
	})
	mustScale(t, f, 1)
	wantNames(t, i, "shop-web-1")
}

func TestRespectStopped(t *testing.T) {
	for name, test := range map[string]struct {
		fleet, service *bool
		want           bool
	}{
		"default": {nil, nil, true}, "fleet": {new(false), nil, false}, "service": {nil, new(false), false}, "fleet, overridden by the service": {new(false), new(true), true},
	} {
		t.Run(name, func(t *testing.T) {
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web"}, 2)
			f := started(t, i, &targettest.Store{}, func(c *Config) {
				c.RespectStopped, c.Services = cmp.Or(test.fleet, c.RespectStopped), map[string]Service{"shop/web": {RespectStopped: test.service}}
			})
			i.halt("shop", "web", 0)
			isHeld(t, f, test.want)
			if test.want {
				return
			}
			if got := read(t, f); len(got.Notices) != 1 || got.Notices[0].Condition != ContainersFailing {
				t.Errorf("notices = %+v, want %s", got.Notices, ContainersFailing)
			}
			mustScale(t, f, 3)
			wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
		})
	}
}
