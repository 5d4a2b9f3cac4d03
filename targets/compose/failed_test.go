package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// TestFailureClock checks that a clock that was set back does not extend a wait.
func TestFailureClock(t *testing.T) {
	now := time.Now()
	d := &detail{finished: now}
	r := failure{}.again(d, now.Add(time.Hour)).again(d, now)
	if r.Due(now.Add(backoff.First-1)) || !r.Due(now.Add(backoff.First)) {
		t.Errorf("wait after the clock was set back starts at %v, want it to start at %v", r.Since, now)
	}
}

// TestFailurePending checks that a back-off continues while the event of an end is pending.
func TestFailurePending(t *testing.T) {
	s := newStore(&targettest.Store{})
	k, m := key{"shop", "web"}, &member{}
	m.ID = "one"
	now := time.Now()
	for _, d := range []*detail{{end: endFailed, finished: now}, {end: endStopped, pending: true, finished: now}} {
		s.observeFailures(t.Context(), k, []*member{m}, map[string]*detail{m.ID: d}, now)
	}
	if got := s.of(k).Failed[m.ID]; got.Wait != backoff.First {
		t.Errorf("record = %+v, want the first wait", got)
	}
}

// TestFailureSteady checks that waits use the clock in the fleet's environment, including in
// the next fleet.
func TestFailureSteady(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	store := &targettest.Store{}
	now := time.Now().Add(-24 * time.Hour) // the wall clock is ahead of the fleet's clock
	passes := func(d time.Duration) []int {
		t.Helper()
		now = now.Add(d)
		f, err := New("shop", testConfig(t, i.host()), targets.Env{Store: store, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		engines.Store(f, i)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		read(t, f)
		f.background.Wait()
		return running(i)
	}
	i.fail(1, 2)
	for _, d := range []time.Duration{0, backoff.First - 1} {
		if got := passes(d); slices.Contains(got, 2) {
			t.Errorf("running containers before the end of the wait = %v", got)
		}
	}
	if got := passes(1); !slices.Contains(got, 2) {
		t.Errorf("running containers after the end of the wait = %v", got)
	}
}

// fail ends containers of the service web with an exit code.
func (i *fakeEngine) fail(code int, numbers ...int) {
	i.with(func() {
		for _, c := range i.replicas("shop", "web") {
			if slices.Contains(numbers, c.number()) {
				c.end(code)
				i.emit(c, events.ActionDie, "")
			}
		}
	})
}

// impatient ends the waits of all failed containers immediately.
func impatient(f *Fleet) {
	for _, k := range f.store.services() {
		f.store.updateFailures(context.Background(), k, func(all map[string]failure) {
			for id, one := range all {
				one.Since = one.Since.Add(-backoff.Longest)
				all[id] = one
			}
		})
	}
}

// running returns the numbers of the running containers.
func running(i *fakeEngine) []int {
	i.mu.Lock()
	defer i.mu.Unlock()
	var numbers []int
	for _, c := range i.replicas("shop", "web") {
		if c.State.Status == container.StateRunning {
			numbers = append(numbers, c.number())
		}
	}
	return numbers
}

// condition returns the message of a notice, or "".
func condition(got targets.Reading, kind policy.ConditionType) string {
	for _, n := range got.Notices {
		if n.Condition == kind {
			return n.Message
		}
	}
	return ""
}

// restarted waits until exactly these containers are running. The count must not change in the
// meantime.
func restarted(t *testing.T, i *fakeEngine, f *Fleet, numbers ...int) targets.Reading {
	t.Helper()
	var got targets.Reading
	wait.Soon(t, fmt.Sprintf("running containers %v (got %v)", numbers, running(i)), func() bool {
		got = read(t, f)
		if got.Err != nil || int(got.SpecReplicas) != len(numbers) {
			t.Fatalf("spec during the restarts = %d, %v, want %d", got.SpecReplicas, got.Err, len(numbers))
		}
		return slices.Equal(running(i), numbers) && len(i.of("shop", "web")) == len(numbers)
	})
	return read(t, f)
}

// TestRestartFailed checks that a container that fails repeatedly is restarted after increasing
// waits, each time by a new fleet.
func TestRestartFailed(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 3)
	store := &targettest.Store{}
	f := started(t, i, store)
	next := func() {
		t.Helper()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		f = started(t, i, store)
	}
	for n := range 6 {
		i.fail(3, 2)
		got := read(t, f)
		wait := min(backoff.First<<n, backoff.Longest)
		if text := condition(got, ContainersFailing); got.StatusReplicas != 2 || !strings.Contains(text, fmt.Sprintf("shop-web-2 exited with 3 (hpad restarts it after %v", wait)) {
			t.Errorf("status = %d with notices %+v, want 2 and a restart after %v", got.StatusReplicas, got.Notices, wait)
		}
		next()
		read(t, f)
		if got := running(i); !slices.Equal(got, []int{1, 3}) {
			t.Errorf("running containers immediately after the failure = %v", got)
		}
		impatient(f)
		got = restarted(t, i, f, 1, 2, 3)
		if text := condition(got, ContainersRestarted); !strings.Contains(text, fmt.Sprintf("shop-web-2 exited with 3 (restarts by hpad: %d)", n+1)) || condition(got, ContainersFailing) != "" {
			t.Errorf("notices = %+v after %d starts", got.Notices, n+1)
		}
	}
	f.store.updateFailures(t.Context(), key{"shop", "web"}, func(all map[string]failure) {
		for id, one := range all {
			one.Since = one.Since.Add(-backoff.Reset)
			all[id] = one
		}
	})
	if got := read(t, f); len(got.Notices) > 0 {
		t.Errorf("after running for %v, notices = %+v, want none", backoff.Reset, got.Notices)
	}
	if left := f.store.of(key{"shop", "web"}).Failed; len(left) > 0 {
		t.Errorf("records = %v, want none", left)
	}
}

func TestLeftAlone(t *testing.T) {
	end := func(code int) func(i *fakeEngine, c *fakeContainer) {
		return func(i *fakeEngine, c *fakeContainer) {
			c.end(code)
			i.emit(c, events.ActionDie, "")
		}
	}
	policy := func(name container.RestartPolicyMode) func(i *fakeEngine, c *fakeContainer) {
		return func(i *fakeEngine, c *fakeContainer) {
			c.HostConfig.RestartPolicy.Name = name
			end(1)(i, c)
		}
	}
	for name, test := range map[string]struct {
		end    func(i *fakeEngine, c *fakeContainer)
		change func(c *Config)
		// idle means that the fleet is not started; held means that the service is on hold.
		dry, idle, held, want bool
	}{
		"failed": {end: end(1), want: true},
		"docker kill": {end: func(i *fakeEngine, c *fakeContainer) {
			i.emit(c, events.ActionKill, "9")
			c.end(137)
			i.emit(c, events.ActionDie, "")
		}},
		"killed long ago":               {end: func(_ *fakeEngine, c *fakeContainer) { c.end(137) }},
		"killed without a signal event": {end: func(i *fakeEngine, c *fakeContainer) { c.end(137); i.emit(c, events.ActionDie, "") }, want: true},
		"event received late": {end: func(i *fakeEngine, c *fakeContainer) {
			c.end(137)
			c.State.FinishedAt = time.Now().Add(-3 * time.Second).UTC().Format(time.RFC3339Nano)
			c.State.StartedAt = time.Now().Add(-5 * time.Second).UTC().Format(time.RFC3339Nano)
			i.emit(c, events.ActionDie, "")
		}, want: true},
		"previous run ended": {end: func(i *fakeEngine, c *fakeContainer) {
			i.emit(c, events.ActionDie, "")
			c.start()
			c.end(137)
		}},
		"stopped with 1":      {end: func(i *fakeEngine, c *fakeContainer) { i.emit(c, events.ActionKill, "15"); end(1)(i, c) }},
		"always":              {end: policy(container.RestartPolicyAlways)},
		"never started":       {end: func(_ *fakeEngine, c *fakeContainer) { c.State.Status = container.StateCreated }},
		"off":                 {end: end(1), change: func(c *Config) { c.RestartFailed = new(false) }},
		"off for the service": {end: end(1), change: func(c *Config) { c.Services = map[string]Service{"shop/web": {RestartFailed: new(false)}} }},
		"on for the service": {end: end(1), want: true, change: func(c *Config) {
			c.RestartFailed, c.Services = new(false), map[string]Service{"shop/web": {RestartFailed: new(true)}}
		}},
		"dry run":     {end: end(1), dry: true},
		"not started": {end: end(1), idle: true},
		"held":        {end: end(1), held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web"}, 3)
			c := testConfig(t, i.host())
			if test.change != nil {
				test.change(c)
			}
			f, err := New("shop", c, targets.Env{Store: &targettest.Store{}, DryRun: test.dry})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			engines.Store(f, i)
			if !test.idle {
				if err := f.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			read(t, f)
			f.mu.Lock()
			f.follower.known = f.follower.known.Add(-stopAge)
			f.mu.Unlock()
			i.with(func() {
				test.end(i, i.replicas("shop", "web")[1])
				if test.held {
					i.replicas("shop", "web")[0].Name = "/0123456789ab_shop-web-1"
				}
			})
			for range 3 {
				read(t, f)
				impatient(f)
				f.background.Wait()
			}
			if got := slices.Contains(running(i), 2); got != test.want {
				t.Errorf("running = %v, want %v", got, test.want)
			}
		})
	}
}

// TestRestartFails checks that a failed start is reported and retried.
func TestRestartFails(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	i.fail(1, 2)
	i.with(func() {
		i.refuseStart = func(c *fakeContainer) string {
			c.State.Error = "network shop_default not found"
			return c.State.Error
		}
	})
	for n := range 2 {
		read(t, f)
		impatient(f)
		want := fmt.Sprintf("(hpad restarts it after %v; the last start failed: ", backoff.First<<(n+1))
		wait.Soon(t, want, func() bool {
			text := condition(read(t, f), ContainersFailing)
			return strings.Contains(text, "shop-web-2 exited with 1 "+want) && strings.Contains(text, "network shop_default not found")
		})
	}
	i.with(func() { i.refuseStart = nil })
	impatient(f)
	restarted(t, i, f, 1, 2)
}

// TestRepairWithoutStore checks that hpad repairs nothing while it cannot store the repair, which
// is also the case after another member has taken over the fleet.
func TestRepairWithoutStore(t *testing.T) {
	s := service{project: "shop", name: "web"}
	for name, test := range map[string]struct {
		damage func(i *fakeEngine, f *Fleet)
		// repaired lists the numbers of the containers that run after the repair.
		repaired []int
	}{
		"restart": {func(i *fakeEngine, f *Fleet) {
			i.fail(1, 2)
			read(t, f) // records the failure
			impatient(f)
		}, []int{1, 2, 3}},
		"replacement": {func(i *fakeEngine, _ *Fleet) {
			next := s
			next.hash = "hash-2"
			i.renew(next, i.seen("shop")[:2])
		}, []int{1, 2, 4}},
		"removal": {func(i *fakeEngine, _ *Fleet) {
			i.with(func() {
				c := s.replica(4)
				c.Config.Labels[labelBeside], c.Config.Labels[labelImage] = "true", i.images["bb:1"]
				i.add(c)
			})
		}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newFakeEngine(t)
			i.up(s, 2)
			store := &targettest.Store{}
			f := started(t, i, store)
			read(t, f)
			mustScale(t, f, 3)
			test.damage(i, f)
			store.Fail(errors.New("another member may own it"))
			changes := func() int {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.changesLocked()
			}
			before := changes()
			for range 2 {
				_, _ = f.Snapshot(t.Context(), []targets.Ref{web})
				f.background.Wait()
			}
			if got := changes(); got != before {
				t.Errorf("calls that change the engine = %d, want 0", got-before)
			}
			store.Fail(nil)
			restarted(t, i, f, test.repaired...)
		})
	}
}
