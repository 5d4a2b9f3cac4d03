package drain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drainer is a Drainer in memory that records its calls.
type drainer struct {
	mu sync.Mutex
	// working is the set of instances with work. Other instances are drained as soon as the drain
	// begins.
	working map[string]bool
	// broken maps the names of calls to the errors that they return. hang makes calls block.
	broken map[string]error
	hang   chan struct{}
	// calls lists all calls, such as "begin web-1". deadlines contains the last deadline of each
	// instance.
	calls     []string
	deadlines map[string]time.Time
	// allocations is the result of Allocations.
	allocations map[string]int
}

func newDrainer(working ...string) *drainer {
	d := &drainer{working: map[string]bool{}, broken: map[string]error{}, deadlines: map[string]time.Time{}}
	for _, id := range working {
		d.working[id] = true
	}
	return d
}

func (d *drainer) call(name string, instance drain.Instance) error {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, name+" "+instance.ID)
	d.deadlines[instance.ID] = instance.Deadline
	return d.broken[name]
}

func (d *drainer) Begin(_ context.Context, instance drain.Instance) error {
	return d.call("begin", instance)
}

func (d *drainer) Drained(_ context.Context, instance drain.Instance) (bool, error) {
	err := d.call("drained", instance)
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.working[instance.ID], err
}

func (d *drainer) Undo(_ context.Context, instance drain.Instance) error {
	return d.call("undo", instance)
}

func (d *drainer) Finish(_ context.Context, instance drain.Instance) error {
	return d.call("finish", instance)
}

func (d *drainer) Allocations(_ context.Context, _ []drain.Instance) (map[string]int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.allocations), d.broken["allocations"]
}

func (d *drainer) done(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.working, id)
	}
}

func (d *drainer) fail(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[call] = err
}

// deadline returns the last deadline that the drainer received for an instance.
func (d *drainer) deadline(id string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deadlines[id]
}

// callCount returns the number of times the drainer received a call.
func (d *drainer) callCount(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := 0
	for _, c := range d.calls {
		if c == call {
			count++
		}
	}
	return count
}

// world is one target in a synctest bubble: a platform, a store, and a fleet that can be
// restarted.
type world struct {
	*testing.T
	platform targettest.Removable
	store    *targettest.Store
	drainer  *drainer
	options  drain.Options
	ref      targets.Ref
	fleet    *drain.Fleet
	// lease returns the end of the lease; nil means that no other process shares the fleet.
	lease func() time.Time
	// clock is the fleet's clock, kept is the state of the previous clock, and step is the step of
	// the wall clock. The host booted when the test started.
	clock *clock.Clock
	kept  clock.State
	begun time.Time
	step  atomic.Int64
}

// newWorld starts a fleet with a target "web", whose instances start one second apart.
func newWorld(t *testing.T, replicas int32, d *drainer) *world {
	t.Helper()
	w := &world{T: t, platform: targettest.Removable{Memory: targettest.NewMemory("memory")}, store: &targettest.Store{}, drainer: d, begun: time.Now()}
	w.ref = w.platform.Add("web", targettest.MemoryTarget{})
	for n := range replicas {
		w.platform.Change("web", func(target *targettest.MemoryTarget) { target.Replicas = n + 1 })
		time.Sleep(time.Second)
	}
	w.options = drain.Options{Victims: drain.Oldest, Deadline: 10 * time.Minute}
	if d != nil {
		w.options.Drainer = d
	}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.Helper()
	w.clock = clock.New(clock.System{
		Wall: func() time.Time { return time.Now().Add(time.Duration(w.step.Load())) },
		Boot: func() (string, time.Duration) { return "boot", time.Since(w.begun) },
	})
	w.clock.Resume(w.kept)
	w.fleet = drain.Wrap(w.platform, w.store, w.clock, zaptest.NewLogger(w.T))
	w.fleet.Lease(w.lease)
	w.fleet.Configure(map[targets.Ref]drain.Options{w.ref: w.options})
	if err := w.fleet.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// changes returns the number of calls to the platform and the drainer that change anything.
func (w *world) changes() int {
	n := len(w.platform.Writes()) + len(w.platform.Removals())
	if w.drainer == nil {
		return n
	}
	w.drainer.mu.Lock()
	defer w.drainer.mu.Unlock()
	for _, call := range w.drainer.calls {
		if !strings.HasPrefix(call, "drained ") {
			n++
		}
	}
	return n
}

func (w *world) close() {
	w.Helper()
	if err := w.fleet.Close(); err != nil {
		w.Errorf("Close() = %v", err)
	}
}

// restart closes the fleet and starts a new fleet with the same platform and store.
func (w *world) restart() {
	w.Helper()
	w.close()
	w.kept = w.clock.State()
	w.open()
}

func (w *world) configure(change func(options *drain.Options)) {
	change(&w.options)
	w.fleet.Configure(map[targets.Ref]drain.Options{w.ref: w.options})
}

// wait sleeps, and then waits until all goroutines are idle.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) read() targets.Reading {
	w.Helper()
	readings, err := w.fleet.Snapshot(w.Context(), []targets.Ref{w.ref})
	if err != nil {
		w.Fatal(err)
	}
	if err := readings[w.ref].Err; err != nil {
		w.Fatal(err)
	}
	return readings[w.ref]
}

// scale sets a count at the current version, which must succeed.
func (w *world) scale(n int32) {
	w.Helper()
	if err := w.fleet.SetReplicas(w.Context(), w.ref, n, w.read().Version, "test decision"); err != nil {
		w.Fatalf("SetReplicas(%d) = %v", n, err)
	}
	synctest.Wait()
}

// expect compares the decided count, the observed count and the platform's count.
func (w *world) expect(what string, spec, status, platform int32) {
	w.Helper()
	reading := w.read()
	if reading.SpecReplicas != spec || reading.StatusReplicas != status || w.platform.Replicas("web") != platform {
		w.Errorf("%s: spec %d and status %d replicas with %d on the platform, want %d and %d with %d", what,
			reading.SpecReplicas, reading.StatusReplicas, w.platform.Replicas("web"), spec, status, platform)
	}
}

// deleting returns the IDs of Deleting instances.
func deleting(reading targets.Reading) []string {
	ids := []string{}
	for _, instance := range reading.Instances {
		if instance.Deleting {
			ids = append(ids, instance.ID)
		}
	}
	return ids
}

// removed returns the IDs of the instances that the platform removed, in order. It fails the test
// if an instance was removed twice.
func (w *world) removed() []string {
	w.Helper()
	ids := []string{}
	for _, removal := range w.platform.Removals() {
		for _, id := range removal.Taken {
			if slices.Contains(ids, id) {
				w.Errorf("instance %s was removed twice", id)
			}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) expectRemoved(want ...string) {
	w.Helper()
	if got := w.removed(); !slices.Equal(got, want) {
		w.Errorf("removed instances = %v, want %v", got, want)
	}
}

// operation returns the newest operation for an instance.
func (w *world) operation(id string) drain.Operation {
	w.Helper()
	for _, op := range slices.Backward(w.fleet.Draining(w.ref)) {
		if op.Instance.ID == id {
			return op
		}
	}
	w.Fatalf("no operation for %s: %s", id, describe(w.fleet.Draining(w.ref)))
	return drain.Operation{}
}

func describe(operations []drain.Operation) string {
	var text strings.Builder
	for _, op := range operations {
		fmt.Fprintf(&text, "[%s %s %s %s %s]", op.Instance.ID, op.State, op.Outcome, op.Why, op.Error)
	}
	return text.String()
}
