package drain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

// step is one event in the life of a target.
type step struct {
	kind  string
	n     int
	pause time.Duration
}

func (s step) String() string { return fmt.Sprintf("%s %d, %v", s.kind, s.n, s.pause) }

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		kind: rapid.SampledFrom([]string{
			"scale", "scale", "scale", "finish work", "restart", "break drainer", "repair drainer",
			"lose responses", "reject", "be unreachable", "throttle", "repair platform", "lose an instance", "fail to save",
		}).Draw(t, "kind"),
		n: rapid.IntRange(0, 8).Draw(t, "n"),
		pause: rapid.SampledFrom([]time.Duration{
			0, time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second, 3 * time.Minute, 15 * time.Minute,
		}).Draw(t, "pause"),
	}
})

// TestAnyInterleaving checks that with random events in random order, no more instances are
// removed than decided, none is removed twice, and in the end all counts agree and the remaining
// instances have work.
func TestAnyInterleaving(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(steps, 1, 25).Draw(rt, "script")
		var failures []string
		synctest.Test(t, func(t *testing.T) { failures = play(t, script) })
		if len(failures) > 0 {
			rt.Fatal(strings.Join(failures, "\n"))
		}
	})
}

// scriptRun is one execution of a script.
type scriptRun struct {
	*world
	mends    []func()
	decided  int32
	failures []string
}

func play(t *testing.T, script []step) []string {
	c := &scriptRun{world: &world{
		T: t, platform: targettest.Removable{Memory: targettest.NewMemory("memory")}, store: &targettest.Store{},
		drainer: newDrainer("web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7"),
	}, decided: 5}
	c.ref = c.platform.Add("web", targettest.MemoryTarget{Replicas: 5, StopDelay: 3 * time.Second})
	c.options = drain.Options{Victims: drain.Oldest, Drainer: c.drainer, Deadline: 10 * time.Minute}
	c.begin()
	for _, s := range script {
		c.do(s)
		c.wait(s.pause)
		if got := c.platform.Replicas("web"); got < c.decided {
			c.failures = append(c.failures, fmt.Sprintf("after %q: replicas on the platform = %d, want at least the decided %d", s, got, c.decided))
		}
	}
	c.do(step{kind: "repair drainer"})
	c.do(step{kind: "repair platform"})
	c.drainer.done("web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7")
	c.wait(2 * time.Hour)
	c.converged()
	c.close()
	return c.failures
}

func (c *scriptRun) begin() {
	c.fleet = drain.Wrap(c.platform, c.store, clock.New(clock.System{}), zap.NewNop())
	c.fleet.Configure(map[targets.Ref]drain.Options{c.ref: c.options})
	if err := c.fleet.Start(c.Context()); err != nil {
		c.Fatal(err)
	}
}

func (c *scriptRun) do(s step) {
	fault := func(err error, lost bool) {
		c.mends = append(c.mends, c.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Err: err, Lost: lost}))
	}
	switch s.kind {
	case "scale":
		c.decide(int32(s.n))
	case "finish work":
		c.drainer.done(fmt.Sprintf("web-%d", s.n))
	case "restart":
		c.close()
		c.begin()
	case "break drainer":
		c.drainer.fail([]string{"begin", "drained", "undo", "finish"}[s.n%4], errTest)
	case "repair drainer":
		for _, call := range []string{"begin", "drained", "undo", "finish"} {
			c.drainer.fail(call, nil)
		}
	case "lose responses":
		fault(nil, true)
	case "reject":
		fault(targets.ErrForbidden, false)
	case "be unreachable":
		fault(targets.ErrTransient, false)
	case "throttle":
		fault(&targets.ThrottledError{RetryAfter: time.Minute, Err: errTest}, false)
	case "repair platform":
		for _, mend := range c.mends {
			mend()
		}
		c.mends = nil
		c.store.Fail(nil)
	case "lose an instance":
		c.platform.Lose("web", fmt.Sprintf("web-%d", s.n), true)
	case "fail to save":
		c.store.Fail(errTest)
	}
}

// decide sets a count, and records the lowest count decided since the earlier decisions were
// completed.
func (c *scriptRun) decide(n int32) {
	readings, err := c.fleet.Snapshot(c.Context(), []targets.Ref{c.ref})
	if err != nil {
		return // the store is broken and has not been read yet
	}
	reading := readings[c.ref]
	switch err := c.fleet.SetReplicas(c.Context(), c.ref, n, reading.Version, "test decision"); err {
	case nil:
		c.decided = n
	default:
		c.decided = min(c.decided, n)
	}
}

// converged checks that no work is in progress, and that the result is right.
func (c *scriptRun) converged() {
	fail := func(format string, arguments ...any) {
		c.failures = append(c.failures, fmt.Sprintf(format, arguments...))
	}
	reading := c.read()
	if count := c.platform.Replicas("web"); reading.SpecReplicas != count || reading.StatusReplicas != count || count < c.decided {
		fail("final counts: spec %d, status %d, platform %d, decided %d", reading.SpecReplicas, reading.StatusReplicas, count, c.decided)
	}
	for _, op := range c.fleet.Draining(c.ref) {
		if op.State != drain.Ended {
			fail("operation %s of %s has not ended: %s: %s", op.ID, op.Instance.ID, op.State, op.Error)
		}
	}
	seen := map[string]bool{}
	for _, removal := range c.platform.Removals() {
		for _, id := range removal.Taken {
			if seen[id] {
				fail("instance %s was removed twice", id)
			}
			seen[id] = true
		}
	}
	for _, instance := range reading.Instances {
		begun := lastIndex(c.drainer.calls, "begin "+instance.ID)
		if begun > lastIndex(c.drainer.calls, "undo "+instance.ID) {
			fail("instance %s was not returned to service: %s", instance.ID, strings.Join(c.drainer.calls, ", "))
		}
	}
}

func lastIndex(list []string, text string) int {
	for i, each := range slices.Backward(list) {
		if each == text {
			return i
		}
	}
	return -1
}
