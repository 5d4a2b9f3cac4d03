package contract

import (
	"time"

	"github.com/hpad/hpad/targets"
)

// Kind is a fleet kind under test.
type Kind[T TB] struct {
	// Of is the kind, which must then cover every row of Table. It is nil for an additional run of
	// a kind, for example with other options or on a real engine.
	Of *targets.Kind
	// New returns a new platform with one target for each element of counts, which is the
	// target's initial count. It cleans up through t.Cleanup.
	New func(t T, counts ...int32) *Platform[T]
	// Samples is true if the kind's fleets are Samplers and the instances of a target get samples
	// within Patience.
	Samples bool
	// Removes is true if the kind's fleets are Removers.
	Removes bool
	// Bare is true if readings contain counts without instances.
	Bare bool
	// Interval is the time between two polls; 0 means 10 ms.
	Interval time.Duration
	// Patience is the time that the suite waits until counts, instances and samples follow a
	// change; 0 means 10 s.
	Patience time.Duration
}

// Platform contains targets, and hooks that create the situations of the suite. A
// hook is nil if the platform cannot create its situation. Kind.Of must then state the reason
// (targets.Kind.Without); if Of is nil, the suite logs the nil hooks.
type Platform[T TB] struct {
	// Refs are the targets in the order of their counts.
	Refs []targets.Ref
	// Counts are the counts of Refs, if they differ from those of the case. Only cases that change
	// nothing can run with them.
	Counts []int32
	// Missing refers to a target that does not exist.
	Missing targets.Ref
	// Open builds a fleet, as a daemon does at startup. All fleets use the same platform and the
	// same store. The suite starts and closes the fleet.
	Open func(t T) targets.Fleet
	// Leased is true if Open passes Lease to the fleet. A case sets Lease before it calls Open.
	Leased bool
	Lease  targets.Lease
	// Highest is the bound that the suite tries if it is greater than the default of 3.
	Highest int32
	// HiddenBound means that the platform shows a bound only by rejecting higher counts.
	HiddenBound bool
	// Survive is true if instances outlive the fleet that started them.
	Survive bool
	// Compares is true if the platform itself rejects a write that conflicts with an earlier
	// external write.
	Compares bool

	// SetCount changes a target's count like an external writer.
	SetCount func(t T, ref targets.Ref, n int32)
	// Rival calls act once, directly before the next write of a target's count reaches the
	// platform.
	Rival func(t T, ref targets.Ref, act func())
	// SetReady makes a Running instance ready or unready.
	SetReady func(t T, ref targets.Ref, id string, ready bool)
	// Hold makes the platform reject writes to a target, or accept them again.
	Hold func(t T, ref targets.Ref, on bool)
	// Bound makes the platform enforce a maximum count for a target. highest is greater than the
	// target's count.
	Bound func(t T, ref targets.Ref, highest int32)
	// Unreachable makes the platform unreachable for all calls, or reachable again.
	Unreachable func(t T, on bool)
	// Throttle makes the platform reject calls because of a rate limit, or accept them again.
	Throttle func(t T, on bool)
	// Hang makes the platform accept calls without responding, or respond again.
	Hang func(t T, on bool)
	// Reach makes the next scale-up of a target stop at a count.
	Reach func(t T, ref targets.Ref, count int32)
	// SlowStop makes a target's victims take a moment to stop: long enough to be observed and
	// shorter than Patience.
	SlowStop func(t T, ref targets.Ref)
	// Writes returns the number of changes sent to the platform so far.
	Writes func() int
	// Sampling reports whether the fleet is currently sampling.
	Sampling func() bool
}

// Absent returns the names of the hooks that are nil.
func (p *Platform[T]) Absent() []string {
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
