package targettest

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Platform adds a target for each of counts, and returns a platform with these targets and all hooks
// except Open and Sampling.
func (m *Memory) Platform(counts ...int32) *Platform {
	p := &Platform{Missing: m.Ref("nobody"), Survive: true, Compares: true}
	for i, count := range counts {
		p.Refs = append(p.Refs, m.Add("t"+strconv.Itoa(i), MemoryTarget{
			Replicas: count, StartDelay: 20 * time.Millisecond, ReadyDelay: 20 * time.Millisecond,
			Usage: func(time.Time, policy.Instance, int) []policy.TaskUsage {
				return []policy.TaskUsage{{Task: "app", Usage: []policy.Amount{{Resource: "cpu", Milli: 250}}}}
			},
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
				target.Hold = &policy.Hold{Reason: "Deploying", Message: "a deployment is in progress"}
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
}

// toggle returns a hook that injects a fault and removes it.
func toggle(m *Memory, f Fault) func(t *testing.T, on bool) {
	remove := func() {}
	return func(_ *testing.T, on bool) {
		remove()
		if on {
			remove = m.Inject(f)
		}
	}
}
