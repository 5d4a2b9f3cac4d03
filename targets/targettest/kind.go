package targettest

import (
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// Kind is a kind of fleet under test.
type Kind struct {
	// Of is the kind, which then must have every row of the contract's Table; nil for a
	// run beside that one, as with other options or on a real engine.
	Of *targets.Kind
	// New returns a platform of the test's own with one target per count, at that
	// count. It cleans up through t.Cleanup.
	New func(t *testing.T, counts ...int32) *Platform
	// Samples is set where the kind's fleets are Samplers and a target's
	// instances get samples within the patience.
	Samples bool
	// Patience is how long counts, instances and samples may take to follow; 0
	// means 10 s.
	Patience time.Duration
}

// Platform is one platform with targets, and the hooks by which the suite brings
// about its situations. A nil hook is of a platform that cannot be brought into
// that situation: the Table has the reasons of the kinds, and the suite logs which
// hooks of others were nil.
type Platform struct {
	// Refs are the targets, in the order of the counts.
	Refs []targets.Ref
	// Missing names no target.
	Missing targets.Ref
	// Open builds a fleet as a daemon does that starts: on the same platform and
	// the same store each time. The suite starts and closes it.
	Open func(t *testing.T) targets.Fleet
	// Highest is the bound to try where the platform cannot enforce any; 0 means 3.
	Highest int32
	// HiddenBound means that the platform shows a bound only by rejecting higher counts.
	HiddenBound bool
	// Survive is set where instances outlive the fleet that started them.
	Survive bool
	// Compares is set where the platform itself rejects a write that somebody else's came
	// before.
	Compares bool

	// SetCount changes a target's count as somebody else would.
	SetCount func(t *testing.T, ref targets.Ref, n int32)
	// Rival lets somebody else act once, right before the next write of a target's
	// count reaches the platform.
	Rival func(t *testing.T, ref targets.Ref, act func())
	// SetReady makes a Running instance ready or unready.
	SetReady func(t *testing.T, ref targets.Ref, id string, ready bool)
	// Hold makes the platform refuse writes of a target, or ends that.
	Hold func(t *testing.T, ref targets.Ref, on bool)
	// Bound makes the platform enforce a highest count for a target: Highest, which is
	// more than its count.
	Bound func(t *testing.T, ref targets.Ref, highest int32)
	// Unreachable makes every call fail to reach the platform, or ends that.
	Unreachable func(t *testing.T, on bool)
	// Throttle makes the platform refuse calls as too many, or ends that.
	Throttle func(t *testing.T, on bool)
	// Hang makes the platform accept calls and not answer them, or ends that.
	Hang func(t *testing.T, on bool)
	// Reach lets the next scale-up of a target get no further than a count.
	Reach func(t *testing.T, ref targets.Ref, count int32)
	// SlowStop makes a target's victims take a moment to go, long enough to be
	// seen and shorter than the patience.
	SlowStop func(t *testing.T, ref targets.Ref)
	// Writes returns how many changes of counts the platform was sent so far.
	Writes func() int
	// Sampling reports whether the fleet samples right now.
	Sampling func() bool
}

// absent lists the hooks that are nil, by name.
func (p *Platform) absent() []string {
	var names []string
	for _, hook := range []struct {
		name    string
		present bool
	}{
		{"SetCount", p.SetCount != nil},
		{"Rival", p.Rival != nil},
		{"SetReady", p.SetReady != nil},
		{"Hold", p.Hold != nil},
		{"Bound", p.Bound != nil},
		{"Unreachable", p.Unreachable != nil},
		{"Throttle", p.Throttle != nil},
		{"Hang", p.Hang != nil},
		{"Reach", p.Reach != nil},
		{"SlowStop", p.SlowStop != nil},
		{"Writes", p.Writes != nil},
		{"Sampling", p.Sampling != nil},
	} {
		if !hook.present {
			names = append(names, hook.name)
		}
	}
	return names
}
