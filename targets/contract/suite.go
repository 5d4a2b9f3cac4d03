package contract

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// TB is the part of *testing.T that the cases use. Fatal and Fatalf end the goroutine of the case.
type TB interface {
	Context() context.Context
	Cleanup(do func())
	Helper()
	Logf(format string, arguments ...any)
	Error(arguments ...any)
	Errorf(format string, arguments ...any)
	Fatal(arguments ...any)
	Fatalf(format string, arguments ...any)
}

// Case is one case of the suite.
type Case[T TB] struct {
	Name string
	// Counts are the initial counts of the case's targets.
	Counts []int32
	// ReadOnly is true if the case changes nothing.
	ReadOnly bool
	// needs reports whether the case can run; nil means always.
	needs func(kind Kind[T], platform *Platform[T]) bool
	run   func(t *trial[T])
}

// Possible reports whether a platform of a kind has the hooks that the case needs.
func (c *Case[T]) Possible(kind Kind[T], platform *Platform[T]) bool {
	return c.needs == nil || c.needs(kind, platform)
}

// Run runs the case on a platform, which must have a target for each of Counts.
func (c *Case[T]) Run(t T, kind Kind[T], platform *Platform[T]) {
	kind.Patience = cmp.Or(kind.Patience, 10*time.Second)
	kind.Interval = cmp.Or(kind.Interval, 10*time.Millisecond)
	counts := platform.Counts
	if counts == nil {
		counts = c.Counts
	}
	c.run(&trial[T]{TB: t, T: t, kind: kind, Platform: platform, counts: counts})
}

// Cases returns all cases.
func Cases[T TB]() []Case[T] {
	return []Case[T]{
		{"reads all targets", []int32{2, 0, 1}, true, nil, readsAll[T]},
		{"reads an unknown target", []int32{1}, true, nil, readsUnknown[T]},
		{"keeps instances between reads", []int32{3}, true, nil, keepsInstances[T]},
		{"detects an external change", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.SetCount != nil }, detectsExternalChange[T]},
		{"follows readiness", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.SetReady != nil }, followsReadiness[T]},
		{"scales up", []int32{1, 1}, false, nil, scalesUp[T]},
		{"scales down", []int32{3, 1}, false, nil, scalesDown[T]},
		{"removes unready instances first", []int32{3}, false, func(k Kind[T], p *Platform[T]) bool {
			return p.SetReady != nil && k.Of != nil && k.Of.Without[unreadyInstances] == ""
		}, takesUnreadyFirst[T]},
		{"scales to zero and back", []int32{2}, false, nil, scalesToZero[T]},
		{"treats counts as absolute", []int32{1}, false, nil, treatsCountsAsAbsolute[T]},
		{"removes instances by name", []int32{3}, false, func(k Kind[T], _ *Platform[T]) bool { return k.Removes }, removesByName[T]},
		{"does not write an unchanged count", []int32{2}, false, nil, skipsEqualCount[T]},
		{"stops victims", []int32{4}, false, func(_ Kind[T], p *Platform[T]) bool { return p.SlowStop != nil }, stopsVictims[T]},
		{"rejects an outdated version", []int32{2}, false, nil, rejectsOutdatedVersion[T]},
		{"detects an external write while scaling up", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Rival != nil }, detectsExternalWriteUp[T]},
		{"detects an external write while scaling down", []int32{3}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Rival != nil }, detectsExternalWriteDown[T]},
		{"rejects an unknown target", []int32{1}, false, nil, rejectsUnknown[T]},
		{"rejects writes during a hold", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Hold != nil }, rejectsDuringHold[T]},
		{"rejects a count out of range", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Bound != nil }, rejectsOutOfRange[T]},
		{"rejects a negative count", []int32{1}, false, nil, rejectsNegative[T]},
		{"reports a partial write", []int32{1}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Reach != nil }, reportsPartialWrite[T]},
		{"reports throttling", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Throttle != nil }, reportsThrottling[T]},
		{"reports an unreachable platform", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Unreachable != nil }, reportsUnreachable[T]},
		{"respects a canceled context", []int32{2}, false, nil, respectsCancel[T]},
		{"respects a deadline", []int32{2}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Hang != nil }, respectsDeadline[T]},
		{"restarts after scaling up", []int32{1}, false, nil, restartsAfterUp[T]},
		{"restarts after scaling down", []int32{4}, false, nil, restartsAfterDown[T]},
		{"keeps readiness across a restart", []int32{2}, true, func(_ Kind[T], p *Platform[T]) bool { return p.Survive }, keepsReadiness[T]},
		{"changes nothing after its lease", []int32{3}, false, func(_ Kind[T], p *Platform[T]) bool { return p.Leased && p.Writes != nil }, changesNothingAfterLease[T]},
		{"samples", []int32{2, 1}, false, func(k Kind[T], _ *Platform[T]) bool { return k.Samples }, samples[T]},
		{"samples only on demand", []int32{1}, false, func(k Kind[T], p *Platform[T]) bool { return k.Samples && p.Sampling != nil }, samplesOnDemand[T]},
		{"is safe for concurrent use", []int32{1, 2}, false, nil, concurrentUse[T]},
	}
}

// trial is one case in progress.
type trial[T TB] struct {
	TB
	*Platform[T]
	// T is TB, for the hooks.
	T    T
	kind Kind[T]
	// counts are the initial counts of Refs.
	counts []int32
}

// fleet is one open fleet of a trial.
type fleet[T TB] struct {
	targets.Fleet
	t      *trial[T]
	closed bool
}

// open starts a fleet, which is closed when the test ends.
func (t *trial[T]) open() *fleet[T] {
	t.Helper()
	f := &fleet[T]{Fleet: t.Open(t.T), t: t}
	t.Cleanup(f.close)
	if starter, ok := f.Fleet.(targets.Starter); ok {
		// The fleet's work must end with Close, not with the context of Start.
		ctx, cancel := context.WithCancel(t.Context())
		err := starter.Start(ctx)
		cancel()
		if err != nil {
			t.Fatalf("Start() = %v", err)
		}
	}
	return f
}

// close closes a fleet, as a daemon does at shutdown. A second call has no effect.
func (f *fleet[T]) close() {
	if f.closed {
		return
	}
	f.closed = true
	if closer, ok := f.Fleet.(interface{ Close() error }); ok {
		if err := closer.Close(); err != nil {
			f.t.Errorf("Close() = %v", err)
		}
	}
}

// read reads one target and fails the test on an error.
func (f *fleet[T]) read(ref targets.Ref) targets.Reading {
	f.t.Helper()
	readings, err := f.Snapshot(f.t.Context(), []targets.Ref{ref})
	if err != nil {
		f.t.Fatalf("Snapshot(%s) = %v", ref, err)
	}
	reading, ok := readings[ref]
	if !ok {
		f.t.Fatalf("Snapshot(%s) = %d other targets without the requested one", ref, len(readings))
	}
	if reading.Err != nil {
		f.t.Fatalf("Snapshot(%s): reading.Err = %v", ref, reading.Err)
	}
	f.t.checkReading(ref, reading)
	return reading
}

// scale sets a count at the version of the last reading and fails the test on an error.
func (f *fleet[T]) scale(ref targets.Ref, n int32) {
	f.t.Helper()
	version := f.read(ref).Version
	if err := f.SetReplicas(f.t.Context(), ref, n, version, "contract suite"); err != nil {
		f.t.Fatalf("SetReplicas(%s, %d) = %v", ref, n, err)
	}
}

// settle waits until a target has exactly n instances, all running and ready, and returns that
// reading.
func (f *fleet[T]) settle(ref targets.Ref, n int32) targets.Reading {
	f.t.Helper()
	var reading targets.Reading
	f.t.poll(fmt.Sprintf("%d ready instances of %s", n, ref), func() (string, bool) {
		reading = f.read(ref)
		ready := int32(0)
		for _, instance := range reading.Instances {
			if instance.Phase == policy.PhaseRunning && instance.Readiness == policy.ReadinessTrue && !instance.Deleting {
				ready++
			}
		}
		seen := fmt.Sprintf("spec %d, status %d, %d ready of %d listed", reading.SpecReplicas, reading.StatusReplicas, ready, len(reading.Instances))
		if t := f.t; t.kind.Bare {
			return seen, reading.SpecReplicas == n
		}
		return seen, reading.SpecReplicas == n && reading.StatusReplicas == n && ready == n && len(reading.Instances) == int(n)
	})
	return reading
}

// checkReading checks the properties that every reading must have.
func (t *trial[T]) checkReading(ref targets.Ref, reading targets.Reading) {
	t.Helper()
	if reading.SpecReplicas < 0 || reading.StatusReplicas < 0 {
		t.Errorf("%s: spec = %d and status = %d, want no negative value", ref, reading.SpecReplicas, reading.StatusReplicas)
	}
	if reading.Observed.IsZero() {
		t.Errorf("%s: Observed is zero", ref)
	}
	if list, ok := reading.Locations.(targets.LocationList); ok && len(list) != len(reading.Instances) {
		t.Errorf("%s: %d locations for %d instances, want one for each or none", ref, len(list), len(reading.Instances))
	}
	for i := range reading.Instances {
		why := ""
		if reading.Locations != nil {
			why = reading.Locations.At(i).UnreadyReason // panics if there is no location
		}
		if class := targets.RemovalClassOf(&reading.Instances[i]); class > targets.RemoveTerminating && (why == "") != ready(&reading.Instances[i]) {
			t.Errorf("%s: instance %+v with the reason %q, want a reason if it is not ready", ref, reading.Instances[i], why)
		}
	}
	seen := map[string]bool{}
	living := int32(0)
	for _, instance := range reading.Instances {
		if instance.ID == "" || seen[instance.ID] {
			t.Errorf("%s: instance id %q is empty or occurs twice", ref, instance.ID)
		}
		seen[instance.ID] = true
		if instance.Phase == policy.PhaseRunning && instance.StartedAt.IsZero() {
			t.Errorf("%s: instance %q is Running without a start time", ref, instance.ID)
		}
		if !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			living++
		}
	}
	if living != reading.StatusReplicas && !t.kind.Bare {
		t.Errorf("%s: status = %d, but %d instances are neither terminal nor terminating", ref, reading.StatusReplicas, living)
	}
}

// ready reports whether a running instance is ready, or its kind has no readiness.
func ready(i *policy.Instance) bool {
	return i.Phase == policy.PhaseRunning && (i.Readiness == policy.ReadinessTrue || i.Readiness == policy.ReadinessNotKnown)
}

// poll waits until a condition holds. If it does not hold within the patience, poll fails the test
// with the last observed state.
func (t *trial[T]) poll(what string, condition func() (seen string, ok bool)) {
	t.Helper()
	deadline := time.NewTimer(t.kind.Patience)
	defer deadline.Stop()
	tick := time.NewTicker(t.kind.Interval)
	defer tick.Stop()
	for {
		seen, ok := condition()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no %s within %v; last state: %s", what, t.kind.Patience, seen)
		}
	}
}

// ids returns the ids of the instances that are not being stopped.
func ids(reading targets.Reading) map[string]bool {
	found := map[string]bool{}
	for _, instance := range reading.Instances {
		if !instance.Deleting {
			found[instance.ID] = true
		}
	}
	return found
}
