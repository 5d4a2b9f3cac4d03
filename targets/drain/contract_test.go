package drain_test

import (
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

// TestContract runs the contract suite over a wrapped fleet: with everything left
// to the platform, with named victims, and with a drainer that drains at once.
func TestContract(t *testing.T) {
	for name, options := range map[string]drain.Options{
		"platform": {},
		"named":    {Victims: drain.Newest},
		"drained":  {Victims: drain.Newest, Drainer: newDrainer(), Interval: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			targettest.Run(t, targettest.Kind{Patience: 30 * time.Second, New: func(_ *testing.T, counts ...int32) *targettest.Platform {
				return newPlatform(options, counts...)
			}})
		})
	}
}

func newPlatform(options drain.Options, counts ...int32) *targettest.Platform {
	m := targettest.Removable{Memory: targettest.NewMemory("memory")}
	p := &targettest.Platform{Missing: m.Ref("nobody"), Survive: true}
	for i, count := range counts {
		p.Refs = append(p.Refs, m.Add("t"+strconv.Itoa(i), targettest.MemoryTarget{Replicas: count}))
	}
	store := &targettest.Store{}
	p.Open = func(*testing.T) targets.Fleet {
		f := drain.Wrap(m, store, clock.New(clock.System{}), zap.NewNop())
		all := map[targets.Ref]drain.Options{}
		for _, ref := range p.Refs {
			all[ref] = options
		}
		f.Configure(all)
		return f
	}
	p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.Replicas = n })
	}
	p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) { m.SetReady(ref.Name, id, ready) }
	p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) {
			target.Hold = nil
			if on {
				target.Hold = &policy.Hold{Reason: "Deploying", Message: "a deployment is under way"}
			}
		})
	}
	p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.Max = &highest })
	}
	p.Reach = func(_ *testing.T, ref targets.Ref, count int32) {
		m.Inject(targettest.Fault{Call: targettest.WriteCall, Target: ref.Name, Times: 1, Reach: &count})
	}
	until := func(make func() targettest.Fault) func(*testing.T, bool) {
		end := func() {}
		return func(_ *testing.T, on bool) {
			end()
			if end = func() {}; on {
				end = m.Inject(make())
			}
		}
	}
	p.Unreachable = until(func() targettest.Fault { return targettest.Fault{Err: targets.ErrTransient} })
	p.Throttle = until(func() targettest.Fault { return targettest.Fault{Err: &targets.ThrottledError{Err: errSpoiled}} })
	p.Hang = until(func() targettest.Fault { return targettest.Fault{Hang: true} })
	if options.Drainer == nil {
		// A drainer's victims are taken back where more are wanted, which is not what
		// the case of slow stops wants to see.
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.StopDelay = 1500 * time.Millisecond })
		}
		p.Writes = func() int {
			changes := len(m.Removals())
			for _, write := range m.Writes() {
				if write.From != write.To {
					changes++
				}
			}
			return changes
		}
	}
	return p
}
