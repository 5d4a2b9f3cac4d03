package targettest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Run runs the contract suite for a fleet kind, each case on a platform of its own. Cases whose
// hooks the platform lacks are not run: if kind.Of is set, it must state the reason
// (targets.Kind.Without); otherwise Run logs the missing hooks.
func Run(t *testing.T, kind Kind) {
	if kind.Patience == 0 {
		kind.Patience = 10 * time.Second
	}
	if first := kind.New(t, 1); kind.Of != nil {
		kind.check(t, first)
	} else if absent := first.absent(); len(absent) > 0 {
		t.Logf("platform without these hooks: %s", strings.Join(absent, ", "))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, running) })
			platform := kind.New(t, c.counts...)
			if c.needs != nil && !c.needs(kind, platform) {
				return
			}
			c.run(&trial{T: t, kind: kind, Platform: platform})
		})
	}
}

type contractCase struct {
	name string
	// counts are the initial counts of the case's targets.
	counts []int32
	// needs reports whether the case can run; nil means always.
	needs func(kind Kind, platform *Platform) bool
	run   func(t *trial)
}

var cases = []contractCase{
	{"reads all targets", []int32{2, 0, 1}, nil, readsAll},
	{"reads an unknown target", []int32{1}, nil, readsUnknown},
	{"keeps instances between reads", []int32{3}, nil, keepsInstances},
	{"detects an external change", []int32{2}, func(_ Kind, p *Platform) bool { return p.SetCount != nil }, detectsExternalChange},
	{"follows readiness", []int32{2}, func(_ Kind, p *Platform) bool { return p.SetReady != nil }, followsReadiness},
	{"scales up", []int32{1, 1}, nil, scalesUp},
	{"scales down", []int32{3, 1}, nil, scalesDown},
	{"removes unready instances first", []int32{3}, func(k Kind, p *Platform) bool {
		return p.SetReady != nil && k.Of != nil && k.Of.Without[unreadyInstances] == ""
	}, takesUnreadyFirst},
	{"scales to zero and back", []int32{2}, nil, scalesToZero},
	{"treats counts as absolute", []int32{1}, nil, treatsCountsAsAbsolute},
	{"does not write an unchanged count", []int32{2}, nil, skipsEqualCount},
	{"stops victims", []int32{4}, func(_ Kind, p *Platform) bool { return p.SlowStop != nil }, stopsVictims},
	{"rejects an outdated version", []int32{2}, nil, rejectsOutdatedVersion},
	{"detects an external write while scaling up", []int32{2}, func(_ Kind, p *Platform) bool { return p.Rival != nil }, detectsExternalWriteUp},
	{"detects an external write while scaling down", []int32{3}, func(_ Kind, p *Platform) bool { return p.Rival != nil }, detectsExternalWriteDown},
	{"rejects an unknown target", []int32{1}, nil, rejectsUnknown},
	{"rejects writes during a hold", []int32{2}, func(_ Kind, p *Platform) bool { return p.Hold != nil }, rejectsDuringHold},
	{"rejects a count out of range", []int32{2}, func(_ Kind, p *Platform) bool { return p.Bound != nil }, rejectsOutOfRange},
	{"rejects a negative count", []int32{1}, nil, rejectsNegative},
	{"reports a partial write", []int32{1}, func(_ Kind, p *Platform) bool { return p.Reach != nil }, reportsPartialWrite},
	{"reports throttling", []int32{2}, func(_ Kind, p *Platform) bool { return p.Throttle != nil }, reportsThrottling},
	{"reports an unreachable platform", []int32{2}, func(_ Kind, p *Platform) bool { return p.Unreachable != nil }, reportsUnreachable},
	{"respects a canceled context", []int32{2}, nil, respectsCancel},
	{"respects a deadline", []int32{2}, func(_ Kind, p *Platform) bool { return p.Hang != nil }, respectsDeadline},
	{"restarts after scaling up", []int32{1}, nil, restartsAfterUp},
	{"restarts after scaling down", []int32{4}, nil, restartsAfterDown},
	{"keeps readiness across a restart", []int32{2}, func(_ Kind, p *Platform) bool { return p.Survive }, keepsReadiness},
	{"changes nothing after its lease", []int32{3}, func(_ Kind, p *Platform) bool { return p.Leased && p.Writes != nil }, changesNothingAfterLease},
	{"samples", []int32{2, 1}, func(k Kind, _ *Platform) bool { return k.Samples }, samples},
	{"samples only on demand", []int32{1}, func(k Kind, p *Platform) bool { return k.Samples && p.Sampling != nil }, samplesOnDemand},
	{"is safe for concurrent use", []int32{1, 2}, nil, concurrentUse},
}

// trial is one case in progress.
type trial struct {
	*testing.T
	*Platform
	kind Kind
}

// fleet is one open fleet of a trial.
type fleet struct {
	targets.Fleet
	t      *trial
	closed bool
}

// open starts a fleet, which is closed when the test ends.
func (t *trial) open() *fleet {
	t.Helper()
	f := &fleet{Fleet: t.Open(t.T), t: t}
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
func (f *fleet) close() {
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
func (f *fleet) read(ref targets.Ref) targets.Reading {
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
func (f *fleet) scale(ref targets.Ref, n int32) {
	f.t.Helper()
	version := f.read(ref).Version
	if err := f.SetReplicas(f.t.Context(), ref, n, version, "contract suite"); err != nil {
		f.t.Fatalf("SetReplicas(%s, %d) = %v", ref, n, err)
	}
}

// settle waits until a target has exactly n instances, all running and ready, and returns that
// reading.
func (f *fleet) settle(ref targets.Ref, n int32) targets.Reading {
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
		return seen, reading.SpecReplicas == n && reading.StatusReplicas == n && ready == n && len(reading.Instances) == int(n)
	})
	return reading
}

// checkReading checks the properties that every reading must have.
func (t *trial) checkReading(ref targets.Ref, reading targets.Reading) {
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
	if living != reading.StatusReplicas {
		t.Errorf("%s: status = %d, but %d instances are neither terminal nor terminating", ref, reading.StatusReplicas, living)
	}
}

// ready reports whether a running instance is ready, or its kind has no readiness.
func ready(i *policy.Instance) bool {
	return i.Phase == policy.PhaseRunning && (i.Readiness == policy.ReadinessTrue || i.Readiness == policy.ReadinessNotKnown)
}

// poll waits until a condition holds. If it does not hold within the patience, poll fails the test
// with the last observed state.
func (t *trial) poll(what string, condition func() (seen string, ok bool)) {
	t.Helper()
	deadline := time.NewTimer(t.kind.Patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
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
