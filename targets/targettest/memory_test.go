package targettest

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func usage(milli int64) []policy.TaskUsage {
	return []policy.TaskUsage{{Task: "app", Usage: []policy.Amount{{Resource: "cpu", Milli: milli}}}}
}

func TestMemoryContract(t *testing.T) {
	wrap := func(m *Memory) targets.Fleet { return m }
	patience := 10 * time.Second
	if spoil, ok := spoiled[os.Getenv("SPOILED")]; ok {
		wrap, patience = func(m *Memory) targets.Fleet { return spoil(m) }, 300*time.Millisecond
	}
	Run(t, Kind{Samples: true, Patience: patience, New: func(_ *testing.T, counts ...int32) *Platform {
		m := NewMemory("memory")
		p := &Platform{Missing: m.Ref("nobody"), Open: func(*testing.T) targets.Fleet { return wrap(m) }, Survive: true, Compares: true}
		for i, count := range counts {
			p.Refs = append(p.Refs, m.Add("t"+strconv.Itoa(i), MemoryTarget{
				Replicas: count, StartDelay: 20 * time.Millisecond, ReadyDelay: 20 * time.Millisecond,
				Usage: func(time.Time, policy.Instance, int) []policy.TaskUsage { return usage(250) },
			}))
		}
		p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
			m.Change(ref.Name, func(target *MemoryTarget) { target.Replicas = n })
		}
		p.Rival = func(_ *testing.T, ref targets.Ref, act func()) {
			m.Inject(Fault{Call: WriteCall, Target: ref.Name, Times: 1, Rival: act})
		}
		p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) { m.SetReady(ref.Name, id, ready) }
		p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
			m.Change(ref.Name, func(target *MemoryTarget) {
				target.Hold = nil
				if on {
					target.Hold = &policy.Hold{Reason: "Deploying", Message: "a deployment is under way"}
				}
			})
		}
		p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
			m.Change(ref.Name, func(target *MemoryTarget) { target.Max = &highest })
		}
		p.Reach = func(_ *testing.T, ref targets.Ref, count int32) {
			m.Inject(Fault{Call: WriteCall, Target: ref.Name, Times: 1, Reach: &count})
		}
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			m.Change(ref.Name, func(target *MemoryTarget) { target.StopDelay = 300 * time.Millisecond })
		}
		p.Writes = func() int {
			changes := 0
			for _, write := range m.Writes() {
				if write.From != write.To {
					changes++
				}
			}
			return changes
		}
		p.Throttle = toggle(m, Fault{Err: &targets.ThrottledError{RetryAfter: time.Second, Err: errors.New("too many requests")}})
		p.Unreachable = toggle(m, Fault{Err: targets.ErrTransient})
		p.Hang = toggle(m, Fault{Hang: true})
		return p
	}})
}

// toggle returns a hook that switches a fault on and off.
func toggle(m *Memory, f Fault) func(t *testing.T, on bool) {
	remove := func() {}
	return func(_ *testing.T, on bool) {
		remove()
		if on {
			remove = m.Inject(f)
		}
	}
}

// spoiledFleet is a Memory with one of the mistakes that a kind could make.
type spoiledFleet struct {
	*Memory
	snapshot func(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error)
	write    func(ctx context.Context, ref targets.Ref, n int32, version string) error
}

func (f *spoiledFleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if f.snapshot != nil {
		return f.snapshot(ctx, refs)
	}
	return f.Memory.Snapshot(ctx, refs)
}

func (f *spoiledFleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	if f.write != nil {
		return f.write(ctx, ref, n, version)
	}
	return f.Memory.SetReplicas(ctx, ref, n, version, reason)
}

// edited returns a fleet whose readings are changed.
func edited(edit func(reading *targets.Reading)) func(m *Memory) *spoiledFleet {
	return func(m *Memory) *spoiledFleet {
		return &spoiledFleet{Memory: m, snapshot: func(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
			readings, err := m.Snapshot(ctx, refs)
			for ref, reading := range readings {
				reading.Instances = slices.Clone(reading.Instances)
				edit(&reading)
				readings[ref] = reading
			}
			return readings, err
		}}
	}
}

// writing returns a fleet whose writes are others than asked for.
func writing(write func(ctx context.Context, m *Memory, ref targets.Ref, n int32, version string) error) func(m *Memory) *spoiledFleet {
	return func(m *Memory) *spoiledFleet {
		return &spoiledFleet{Memory: m, write: func(ctx context.Context, ref targets.Ref, n int32, version string) error {
			return write(ctx, m, ref, n, version)
		}}
	}
}

var reads int

// spoiled are the mistakes that the suite has to find, each by itself.
var spoiled = map[string]func(m *Memory) *spoiledFleet{
	"ignores versions": writing(func(ctx context.Context, m *Memory, ref targets.Ref, n int32, _ string) error {
		return m.SetReplicas(ctx, ref, n, "", "")
	}),
	"compares before it writes": writing(func(ctx context.Context, m *Memory, ref targets.Ref, n int32, version string) error {
		readings, err := m.Snapshot(ctx, []targets.Ref{ref})
		if err == nil && readings[ref].Version == version {
			version = ""
		}
		return m.SetReplicas(ctx, ref, n, version, "")
	}),
	"does nothing": writing(func(context.Context, *Memory, targets.Ref, int32, string) error { return nil }),
	"writes though canceled": writing(func(ctx context.Context, m *Memory, ref targets.Ref, n int32, version string) error {
		return m.SetReplicas(context.WithoutCancel(ctx), ref, n, version, "")
	}),
	"hides error classes": writing(func(ctx context.Context, m *Memory, ref targets.Ref, n int32, version string) error {
		if err := m.SetReplicas(ctx, ref, n, version, ""); err != nil {
			return errors.New(err.Error())
		}
		return nil
	}),
	"makes up ids": edited(func(reading *targets.Reading) {
		reads++
		for i := range reading.Instances {
			reading.Instances[i].ID += strconv.Itoa(reads)
		}
	}),
	"counts victims": edited(func(reading *targets.Reading) { reading.StatusReplicas = int32(len(reading.Instances)) }),
	"hides that victims go": edited(func(reading *targets.Reading) {
		for i := range reading.Instances {
			reading.Instances[i].Deleting = false
		}
	}),
	"has no start times": edited(func(reading *targets.Reading) {
		for i := range reading.Instances {
			reading.Instances[i].StartedAt = time.Time{}
		}
	}),
	"forgets unknown targets": func(m *Memory) *spoiledFleet {
		return &spoiledFleet{Memory: m, snapshot: func(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
			readings, err := m.Snapshot(ctx, refs)
			maps.DeleteFunc(readings, func(_ targets.Ref, reading targets.Reading) bool { return reading.Err != nil })
			return readings, err
		}}
	},
	"leaves work behind": func(m *Memory) *spoiledFleet {
		go func() { <-time.After(time.Hour) }()
		return &spoiledFleet{Memory: m}
	},
}

// TestSuiteFindsMistakes runs the suite over spoiled fleets, in processes of
// their own, and sees it fail.
func TestSuiteFindsMistakes(t *testing.T) {
	for name := range spoiled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite := exec.Command(os.Args[0], "-test.run=^TestMemoryContract$", "-test.failfast")
			suite.Env = append(os.Environ(), "SPOILED="+name)
			output, err := suite.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL: TestMemoryContract/") {
				t.Errorf("the suite over a fleet that %s: %v, want it to fail:\n%s", name, err, output)
			}
		})
	}
}

func TestMemoryFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory("memory")
		ref := m.Add("worker", MemoryTarget{
			Replicas: 1, Age: time.Hour, StartDelay: 10 * time.Second, ReadyDelay: 5 * time.Second, StopDelay: 30 * time.Second,
			Usage: func(_ time.Time, _ policy.Instance, running int) []policy.TaskUsage {
				return usage(int64(900 / running))
			},
		})
		begun := time.Now()
		look := func() (reading targets.Reading, phases string) {
			readings, err := m.Snapshot(t.Context(), []targets.Ref{ref})
			if err != nil {
				t.Fatal(err)
			}
			for _, instance := range readings[ref].Instances {
				phases += " " + instance.ID + "=" + instance.Phase.String() + "/" + instance.Readiness.String()
				if instance.Deleting {
					phases += "/Deleting"
				}
			}
			return readings[ref], phases
		}
		first, _ := look()
		if got := begun.Sub(first.Instances[0].StartedAt); got != time.Hour {
			t.Errorf("the first instance is %v old, want 1h", got)
		}
		if err := m.SetReplicas(t.Context(), ref, 2, first.Version, "test"); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{0, " worker-0=Running/True worker-1=Pending/False"},
			{10 * time.Second, " worker-0=Running/True worker-1=Running/False"},
			{15 * time.Second, " worker-0=Running/True worker-1=Running/True"},
		} {
			<-time.After(time.Until(begun.Add(step.at)))
			if _, got := look(); got != step.want {
				t.Errorf("after %v:%s, want%s", step.at, got, step.want)
			}
		}
		sampled, err := m.Samples(t.Context(), []targets.Ref{ref})
		if err != nil || len(sampled[ref].Instances) != 2 || sampled[ref].Instances[0].Tasks[0].Usage[0].Milli != 450 {
			t.Errorf("Samples() = %+v, %v, want 450 for each of 2", sampled, err)
		}
		if err := m.SetReplicas(t.Context(), ref, 1, "", "test"); err != nil {
			t.Fatal(err)
		}
		if _, got := look(); got != " worker-0=Running/True worker-1=Running/True/Deleting" {
			t.Errorf("right after the scale-down:%s", got)
		}
		<-time.After(30 * time.Second)
		if _, got := look(); got != " worker-0=Running/True" {
			t.Errorf("after the stop delay:%s", got)
		}
		m.Restart("worker", "worker-0")
		if _, got := look(); got != " worker-0=Pending/False" {
			t.Errorf("right after a restart:%s", got)
		}
	})
}

func TestMemoryFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory("memory")
		ref := m.Add("worker", MemoryTarget{Replicas: 1})
		other := m.Add("other", MemoryTarget{Replicas: 1, Bare: true})
		scale := func(ref targets.Ref, n int32) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return m.SetReplicas(ctx, ref, n, "", "test")
		}

		m.Inject(Fault{Call: WriteCall, Target: "worker", Times: 1, Lost: true})
		if err := scale(other, 2); err != nil {
			t.Errorf("a fault of another target: %v", err)
		}
		if err := scale(ref, 2); !errors.Is(err, targets.ErrUnknownOutcome) || m.Replicas("worker") != 2 {
			t.Errorf("a lost answer: %v with %d replicas, want ErrUnknownOutcome with 2", err, m.Replicas("worker"))
		}
		if err := scale(ref, 3); err != nil {
			t.Errorf("after a fault that met its one call: %v", err)
		}

		remove := m.Inject(Fault{Hang: true})
		begun := time.Now()
		if err := scale(ref, 4); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Minute || m.Replicas("worker") != 3 {
			t.Errorf("a hung write: %v after %v with %d replicas", err, time.Since(begun), m.Replicas("worker"))
		}
		remove()
		remove()

		m.Inject(Fault{Call: SnapshotCall, Times: 1, Delay: 3 * time.Second})
		begun = time.Now()
		readings, err := m.Snapshot(t.Context(), []targets.Ref{ref, other})
		if err != nil || time.Since(begun) != 3*time.Second {
			t.Errorf("a slow Snapshot() = %v after %v, want 3s", err, time.Since(begun))
		}
		if got := readings[other]; got.StatusReplicas != 2 || got.Instances != nil {
			t.Errorf("a bare target reads %+v, want 2 replicas without instances", got)
		}

		m.Inject(Fault{Call: SamplesCall, Times: 1, Panic: "boom"})
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recover() = %v, want boom", got)
				}
			}()
			_, err := m.Samples(t.Context(), nil)
			t.Errorf("Samples() returned %v, want a panic", err)
		}()

		release := make(chan struct{})
		m.Inject(Fault{Times: 1, Block: release})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		done := make(chan error)
		go func() { _, err := m.Snapshot(ctx, nil); done <- err }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("a blocked Snapshot() returned %v with its context", err)
		default:
		}
		close(release)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a released Snapshot() = %v, want context.Canceled", err)
		}

		want := MemoryCalls{Snapshots: 2, Writes: 4, Samples: 1, Refs: 2}
		if got := m.Calls(); got != want {
			t.Errorf("Calls() = %+v, want %+v", got, want)
		}
		if writes := m.Writes(); len(writes) != 4 || writes[1].From != 1 || writes[1].To != 2 || writes[1].Err == nil {
			t.Errorf("Writes() = %+v", writes)
		}
	})
}

func TestStore(t *testing.T) {
	var s Store
	ctx := t.Context()
	if got, err := s.Load(ctx, "a"); got != nil || err != nil {
		t.Errorf("Load() of a missing key = %q, %v, want nil", got, err)
	}
	value := []byte("1")
	for _, key := range []string{"a/1", "a/2", "b"} {
		if err := s.Save(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	value[0] = 'x'
	if got, err := s.Load(ctx, "b"); string(got) != "1" || err != nil {
		t.Errorf("Load() = %q, %v, want the value as it was saved", got, err)
	}
	if err := s.Delete(ctx, "a/2"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.List(ctx, "a/"); len(got) != 1 || string(got["a/1"]) != "1" || err != nil {
		t.Errorf("List() = %q, %v, want a/1 alone", got, err)
	}
	full := errors.New("disk full")
	s.Fail(full)
	if err := s.Save(ctx, "c", nil); !errors.Is(err, full) {
		t.Errorf("Save() = %v, want %v", err, full)
	}
}
