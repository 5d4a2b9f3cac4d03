package daemontest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// View returns the view of an autoscaler.
func (w *World) View(name string) api.Autoscaler {
	w.T.Helper()
	view, ok := w.Daemon.Autoscaler(name)
	if !ok {
		w.T.Fatalf("autoscaler %q not found", name)
	}
	return view
}

// Record returns the record of an autoscaler after its last pass.
func (w *World) Record(name string) state.Record {
	w.T.Helper()
	pass, ok := w.Daemon.LastPass(name)
	if !ok {
		w.T.Fatalf("autoscaler %q not found", name)
	}
	return pass.Record
}

// HistoryOf returns the stored history of an autoscaler.
func (w *World) HistoryOf(name string) []state.Entry {
	w.T.Helper()
	entries, err := w.Store.History(w.T.Context(), name, time.Time{}, time.Time{}, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	return entries
}

// Problems returns the problems of the daemon as "subject: message".
func (w *World) Problems() []string {
	var problems []string
	for _, problem := range w.Daemon.Readiness().Problems {
		problems = append(problems, problem.Subject+": "+problem.Message)
	}
	return problems
}

// Reasons returns the events of an autoscaler as "reason xCount".
func (w *World) Reasons(name string) []string {
	var reasons []string
	for _, event := range w.View(name).Events {
		reasons = append(reasons, fmt.Sprintf("%s x%d", event.Reason, event.Count))
	}
	return reasons
}

// ForeignEvent is the reason of the event for a change by an external writer.
const ForeignEvent = string(policy.ForeignWriter)

// Condition returns a condition of an autoscaler as "status/reason", or "" if it is not set.
func (w *World) Condition(name string, kind policy.ConditionType) string {
	for _, c := range w.View(name).Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

// WantCount checks the count of a target.
func (w *World) WantCount(name string, want int32) {
	w.T.Helper()
	if got := w.Fleet().Replicas(name); got != want {
		w.T.Errorf("replicas of %s = %d, want %d", name, got, want)
	}
}

// Writes returns the successful writes to a target as "offset: from>to".
func (w *World) Writes(name string, since time.Time) []string {
	var all []string
	for _, write := range w.Fleet().Writes() {
		if write.Ref.Name == name && (write.Err == nil || errors.Is(write.Err, targets.ErrUnknownOutcome)) {
			all = append(all, fmt.Sprintf("%s: %d>%d", write.At.Sub(since), write.From, write.To))
		}
	}
	return all
}

// Reload reloads the configuration.
func (w *World) Reload() {
	w.T.Helper()
	if _, err := w.Daemon.Reload(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// Pause pauses the autoscalers of a scope. A pause that lasts 0 has no end.
func (w *World) Pause(scope policy.Scope, direction policy.Direction, lasts time.Duration) {
	w.T.Helper()
	active, err := w.Daemon.Pause(w.T.Context(), policy.Pause{Scope: scope, Direction: direction, Author: "alice", Reason: "deploy"}, lasts)
	if err != nil {
		w.T.Fatalf("pause %s: %v", scope, err)
	}
	if all := w.Daemon.Pauses(); !slices.Contains(all, active) {
		w.T.Errorf("reported active pause = %+v, but the pauses are %+v", active, all)
	}
	w.Advance(time.Millisecond)
}

// Resume ends a pause.
func (w *World) Resume(scope policy.Scope) {
	w.T.Helper()
	if _, err := w.Daemon.Resume(w.T.Context(), scope, "bob"); err != nil {
		w.T.Fatalf("resume %s: %v", scope, err)
	}
	w.Advance(time.Millisecond)
}

// ScaleTo requests a count for an autoscaler.
func (w *World) ScaleTo(name string, replicas int32, force bool) error {
	err := w.Daemon.ScaleTo(w.T.Context(), name, replicas, force, "alice")
	w.Advance(time.Millisecond)
	return err
}

// ChangeReplicas sets the count of the target "web", like an external writer.
func (w *World) ChangeReplicas(replicas int32) {
	w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = replicas })
}

// Resource configures a CPU utilization metric that uses the fleet's samples.
func Resource(utilization int32) func(a *config.Autoscaler) {
	return func(a *config.Autoscaler) {
		a.Spec.Metrics = []policy.MetricSpec{{
			Type: policy.ResourceMetric, Name: "cpu",
			Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &utilization},
		}}
		a.Inputs = []config.Input{{}}
	}
}
