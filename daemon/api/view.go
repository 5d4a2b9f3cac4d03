package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Daemon contains the methods of the daemon that the handlers need. They return copies, which the
// caller may retain. Except for EvaluateNow and ScaleTo, no method waits for a pass.
type Daemon interface {
	// AutoscalersAfter returns the autoscalers whose names sort after a name, sorted by name. The
	// name "" selects all autoscalers. Each view is created when the iteration reaches it.
	AutoscalersAfter(name string) iter.Seq[Autoscaler]
	// Autoscaler returns an autoscaler, or false if it does not exist.
	Autoscaler(name string) (Autoscaler, bool)
	// InstancesOf reads the current instances of an autoscaler's target, with their metrics. It
	// changes nothing.
	InstancesOf(ctx context.Context, name string) (InstanceList, error)
	// WriteLogs writes the output of an instance. The instance is an ID, a name, or empty for the
	// only instance.
	WriteLogs(ctx context.Context, name, instance string, query targets.LogQuery, to io.Writer) error
	// Endpoints returns the ready instances of an autoscaler's target in the format of Prometheus.
	// The error is ErrUnknown if no autoscaler has the target, and ErrUnread if the target has not
	// been read yet.
	Endpoints(ctx context.Context, ref targets.Ref) ([]EndpointGroup, error)
	// Graph returns the graph of an autoscaler in [from, to). The error is ErrUnknown if there is
	// no data.
	Graph(ctx context.Context, name string, from, to time.Time) (Graph, error)
	// Recording returns the recorded passes of an autoscaler in [from, to], which may be none. The
	// error is ErrUnknown if no passes are stored.
	Recording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error)
	// QueriedRecording is like Recording, but queries the sources of the autoscaler's metrics for each
	// of its ticks.
	QueriedRecording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error)
	// Policies returns the active policy of an autoscaler and the policy of each variant. The error is
	// ErrUnknown if the autoscaler does not exist, and a config.Errors if a variant is invalid.
	Policies(name string, variants []config.Variant) ([]simulate.Policy, error)
	// Health returns the state of the scheduler, and the autoscalers that are not evaluated.
	Health() Health
	// Readiness reports whether the daemon is ready, and lists the current problems.
	Readiness() Readiness
	// Discovered returns the targets that were discovered by their labels, sorted.
	Discovered() []Discovered
	// History returns the recorded entries of an autoscaler in [from, to), oldest first. An empty
	// name selects all autoscalers. A zero time means no bound. If there are more than limit
	// entries, it returns the newest ones.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Recorded, error)
	// VerifyHistory recomputes the recorded decisions of an autoscaler in [from, to) and compares
	// the results. An empty name selects all autoscalers.
	VerifyHistory(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// ExportState writes the state for "hpad state import", with the history of decisions if
	// history is set.
	ExportState(ctx context.Context, to io.Writer, history bool) error
	// Reload loads the configuration and returns the changes. If it fails, the previous
	// configuration remains active.
	Reload(ctx context.Context) ([]config.Change, error)
	// ReloadChanges returns the changes that a reload would make, or an error if a reload would
	// be rejected. It changes nothing.
	ReloadChanges(ctx context.Context) ([]config.Change, error)
	// Config returns the active configuration as TOML, without secrets.
	Config() string
	// ConfigFile returns the absolute path of the main configuration file.
	ConfigFile() string
	// Pauses returns the active pauses. Pauses with wider scopes come first.
	Pauses() []policy.Pause
	// Pause pauses a scope and returns the pause. If lasts is 0, the pause lasts until it is
	// resumed. It replaces an earlier pause of the same scope.
	Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error)
	// Resume ends the pause of a scope and returns it.
	Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error)
	// ScaleTo sets the count of an autoscaler's target. If force is set, the count may be outside
	// the bounds.
	ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error
	// EvaluateNow evaluates an autoscaler and returns after the result is recorded.
	EvaluateNow(ctx context.Context, name string) error
	// Restart requests a rolling replacement of an autoscaler's instances. The error is an ErrUnknown
	// if the autoscaler does not exist, and an ErrRefused if nothing was changed.
	Restart(ctx context.Context, name string) error
}

// Autoscaler is the API's view of an autoscaler.
type Autoscaler struct {
	Name string `json:"name"`
	// Reference is "fleet/target". Kind is the kind of the fleet.
	Reference string `json:"reference"`
	Kind      string `json:"kind"`
	// Created is the time when hpad first loaded the autoscaler, or zero if it is unknown.
	Created time.Time   `json:"created,omitzero"`
	Spec    policy.Spec `json:"spec"`
	// Status is zero if it is unknown: before the first pass, and if neither the owner of the fleet nor the
	// cluster store responds.
	Status policy.Status `json:"status,omitzero"`
	// SyncPeriodSeconds is the time between two passes.
	SyncPeriodSeconds float64 `json:"sync_period_seconds"`
	// Mode restricts the autoscaler; empty for "on".
	Mode policy.Mode `json:"mode,omitempty"`
	// Schedules describes the schedules, which change Spec and Mode. It is nil without schedules,
	// and if the owner of the fleet does not respond.
	Schedules *Schedules `json:"schedules,omitempty"`
	// Pauses lists the active pauses that affect the autoscaler: its own pause, the pauses of its
	// fleet, and the pause of all autoscalers.
	Pauses     []policy.Pause `json:"pauses,omitempty"`
	Evaluation Evaluation     `json:"evaluation"`
	// Decision is the last decision, or nil before the first pass.
	Decision *policy.Decision `json:"decision,omitempty"`
	// Next describes the next change to the count as of the last pass. It is nil before the first
	// pass, in lists, and if the next change is unknown.
	Next *policy.Next `json:"next,omitempty"`
	// Restore is the count to restore after a manual change. It may be nil.
	Restore *policy.Restoration `json:"restore,omitempty"`
	// Instances counts the instances in the last reading.
	Instances Instances `json:"instances,omitzero"`
	// Inputs describes where the values of Spec.Metrics come from, in the same order.
	Inputs []Input `json:"inputs,omitempty"`
	// Events lists the newest events, oldest first.
	Events []Event `json:"events,omitempty"`
	// Labels contains the target's labels that define the autoscaler. It is nil if the
	// configuration defines the autoscaler.
	Labels map[string]string `json:"labels,omitempty"`
	// Victims lists the instances that the last decision removes, if hpad chooses them. Drains
	// lists the drains in progress, and those that ended within the last day.
	Victims []drain.Victim    `json:"victims,omitempty"`
	Drains  []drain.Operation `json:"drains,omitempty"`
	// VictimsError is the reason why Victims is unknown. It is empty if Victims is known.
	VictimsError string `json:"victims_error,omitempty"`
	// Discovery is set if the target has labels that are not active.
	Discovery *Discovered `json:"discovery,omitempty"`
}

// Schedules describes the schedules of an autoscaler.
type Schedules struct {
	// Active lists the names of the active schedules.
	Active []string `json:"active,omitempty"`
	// Next is when the bounds, the mode or the active schedules will change, in the zone of the
	// first schedule. It is zero if they do not change within 31 days.
	Next time.Time `json:"next,omitzero"`
	// Ramps lists the active schedules whose ramp has started, but not their window.
	Ramps []string `json:"ramps,omitempty"`
	// Min, Max and Mode are the names of the active schedules that set the minimum, the maximum and
	// the mode. They are empty if no schedule sets the value.
	Min  string `json:"min,omitempty"`
	Max  string `json:"max,omitempty"`
	Mode string `json:"mode,omitempty"`
}

// DiscoveredState is the result of evaluating a target's labels.
type DiscoveredState string

// The states of discovered targets.
const (
	// DiscoveredActive means that the labels define an autoscaler.
	DiscoveredActive DiscoveredState = "active"
	// DiscoveredDisabled means that the labels do not enable an autoscaler.
	DiscoveredDisabled DiscoveredState = "disabled"
	// DiscoveredInvalid means that the labels are invalid; the previous labels remain active.
	DiscoveredInvalid DiscoveredState = "invalid"
	// DiscoveredOverridden means that the configuration, or a different fleet on the same engine,
	// already defines an autoscaler for the target.
	DiscoveredOverridden DiscoveredState = "overridden"
)

// DiscoveredStates lists all states.
var DiscoveredStates = []DiscoveredState{DiscoveredActive, DiscoveredDisabled, DiscoveredInvalid, DiscoveredOverridden}

// Discovered is a target that was discovered by its labels.
type Discovered struct {
	// Reference is "fleet/target".
	Reference string          `json:"reference"`
	State     DiscoveredState `json:"state"`
	// Autoscaler is the name of the autoscaler that scales the target. It may be empty.
	Autoscaler string `json:"autoscaler,omitempty"`
	// Problem is the error in the labels. It may be empty.
	Problem string `json:"problem,omitempty"`
}

// Instances counts the instances of a target by state. Each instance is counted in exactly one
// state.
type Instances struct {
	// Ready counts instances in phase Running that are ready or have no readiness.
	Ready int32 `json:"ready"`
	// Unready counts instances in phase Running that are not ready, and instances in an unknown
	// phase.
	Unready int32 `json:"unready,omitempty"`
	// Pending counts instances that have not started or are waiting for a restart.
	Pending int32 `json:"pending,omitempty"`
	// Failed and Succeeded count instances that have ended.
	Failed    int32 `json:"failed,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	// Deleting counts instances that are being stopped, regardless of their phase and readiness.
	Deleting int32 `json:"deleting,omitempty"`
}

// Add counts an instance with a phase and a readiness as in Kubernetes.
func (n *Instances) Add(phase, readiness string, deleting bool) {
	switch {
	case deleting:
		n.Deleting++
	case phase == policy.PhasePending.String():
		n.Pending++
	case phase == policy.PhaseFailed.String():
		n.Failed++
	case phase == policy.PhaseSucceeded.String():
		n.Succeeded++
	case phase == policy.PhaseRunning.String() && readiness != policy.ReadinessFalse.String() && readiness != policy.ReadinessUnknown.String():
		n.Ready++
	default:
		n.Unready++
	}
}

// Input describes where the value of one metric comes from.
type Input struct {
	// Source is the name of the source, or empty if the fleet itself measures the metric.
	Source string            `json:"source,omitempty"`
	Query  string            `json:"query,omitempty"`
	Select map[string]string `json:"select,omitempty"`
	// SampleAgeSeconds is the age of the oldest sample in the last reading if it exceeds the sync
	// period. It is 0 otherwise, if the age is unknown, and in lists.
	SampleAgeSeconds float64 `json:"sample_age_seconds,omitempty"`
}

// Evaluation describes the evaluations of an autoscaler, which are called passes, and mainly the
// last pass.
type Evaluation struct {
	// Last is the tick of the last complete pass, or zero before the first one.
	Last time.Time `json:"last,omitzero"`
	// Next is the tick of the next pass, or zero if the owner of the fleet does not respond.
	Next time.Time `json:"next,omitzero"`
	// DurationSeconds is the duration of the last pass.
	DurationSeconds float64 `json:"duration_seconds"`
	// Late is the number of ticks that occurred while a pass was still in progress.
	Late uint64 `json:"late,omitempty"`
	// Reason is a code from docs/reasons.md that explains the last pass, or the last tick without a
	// pass. It is empty before the first tick.
	Reason string `json:"reason,omitempty"`
	// Error explains the failure of the last pass. It may be empty.
	Error string `json:"error,omitempty"`
	// QuarantinedUntil is set after repeated panics, and after the state store has rejected the
	// autoscaler's record.
	QuarantinedUntil time.Time `json:"quarantined_until,omitzero"`
	// Unevaluated reports whether the autoscaler is quarantined, three periods have passed without
	// a complete pass, or no member of a cluster evaluates it. If so, Health lists the autoscaler
	// or its fleet.
	Unevaluated bool `json:"unevaluated,omitempty"`
	// DryRun reports whether hpad runs without writing counts.
	DryRun bool `json:"dry_run,omitempty"`
	// StateLost describes the part of the state that was lost or removed, and the time of the
	// loss. It is empty if there was no loss within the longest window.
	StateLost string `json:"state_lost,omitempty"`
	// Written is the count that the last pass wrote, or nil if it wrote none. It differs from the
	// decision if only a part of the change was possible.
	Written *int32 `json:"written,omitempty"`
	// Hold is the reason why the platform did not accept the count. It is nil if the platform
	// accepted the count or was not called.
	Hold *policy.Hold `json:"hold,omitempty"`
	// Since is the time when the current problem, or the platform's extra condition, started. It
	// may be zero.
	Since time.Time `json:"since,omitzero"`
	// Unreported counts the changes to the problem that have no entry in the history. It is nil if
	// there are none.
	Unreported *Unreported `json:"unreported,omitempty"`
	// Shortage is set if the last pass reached the maximum and its metrics require more replicas.
	// It is nil otherwise.
	Shortage *policy.Shortage `json:"shortage,omitempty"`
	// Partial lists the metrics whose partial result counted in the last pass, with the warning of
	// the source and the key that accepts such results. It is empty if there are none.
	Partial string `json:"partial,omitempty"`
}

// IsFromStore reports whether the owner of the fleet does not respond. In that case, the status is
// the last status in the cluster store, and the decision, the events and the next evaluation are
// unknown.
func (e *Evaluation) IsFromStore() bool { return e.Unevaluated && e.Next.IsZero() }

// Unreported counts the changes to the problem that are not in the history because the problem
// alternates.
type Unreported struct {
	Changes int `json:"changes"`
	// From is the time of the first change.
	From time.Time `json:"from"`
}

// Event records a change or a failure, with its number of occurrences.
type Event struct {
	policy.Event
	Count int64     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Explanation is an autoscaler's last decision with its inputs.
type Explanation struct {
	Name              string        `json:"name"`
	Reference         string        `json:"reference"`
	Kind              string        `json:"kind"`
	Spec              policy.Spec   `json:"spec"`
	Status            policy.Status `json:"status,omitzero"`
	SyncPeriodSeconds float64       `json:"sync_period_seconds"`
	Evaluation        Evaluation    `json:"evaluation"`
	Inputs            []Input       `json:"inputs,omitempty"`
	// Schedules is the same as in Autoscaler. It is nil for an earlier decision.
	Schedules *Schedules `json:"schedules,omitempty"`
	// Labels, Discovery, Victims and Drains are the same as in Autoscaler.
	Labels    map[string]string `json:"labels,omitempty"`
	Discovery *Discovered       `json:"discovery,omitempty"`
	Victims   []drain.Victim    `json:"victims,omitempty"`
	Drains    []drain.Operation `json:"drains,omitempty"`
	// VictimsError is the same as in Autoscaler.
	VictimsError string `json:"victims_error,omitempty"`
	// Next is the same as in Autoscaler. It is nil for an earlier decision.
	Next *policy.Next `json:"next,omitempty"`
	// AgreedUntil is set for an earlier decision. A later pass agrees with the decision if it
	// writes nothing and has the same reason. AgreedUntil is the time of the first pass that does
	// not agree, or of the last pass if all passes agree. It is zero if there is no later pass.
	AgreedUntil time.Time `json:"agreed_until,omitzero"`
	// NextRecorded is the time of the next recorded decision after an earlier decision. It may be
	// zero.
	NextRecorded time.Time `json:"next_recorded,omitzero"`
	// Decision is the last decision, or nil before the first pass.
	Decision *policy.Decision `json:"decision"`
}

// DesiredKnown reports whether a pass has computed Status.DesiredReplicas. Status.DesiredReplicas
// is 0 before the first pass, and while no pass has succeeded in computing it.
func (a *Autoscaler) DesiredKnown() bool {
	if a.Status.DesiredReplicas != 0 {
		return true
	}
	if d := a.Decision; d != nil {
		return d.Case != policy.CaseUnreadable && d.Case != policy.CaseMetricsFailed
	}
	return !a.Evaluation.Last.IsZero()
}

// Explanation returns the explanation of the last decision.
func (a Autoscaler) Explanation() Explanation {
	return Explanation{
		Name:              a.Name,
		Reference:         a.Reference,
		Kind:              a.Kind,
		Spec:              a.Spec,
		Status:            a.Status,
		SyncPeriodSeconds: a.SyncPeriodSeconds,
		Evaluation:        a.Evaluation,
		Inputs:            a.Inputs,
		Schedules:         a.Schedules,
		Labels:            a.Labels,
		Discovery:         a.Discovery,
		Victims:           a.Victims,
		Drains:            a.Drains,
		VictimsError:      a.VictimsError,
		Next:              a.Next,
		Decision:          a.Decision,
	}
}

// Health is the body of /-/healthy.
type Health struct {
	// Healthy reports whether the scheduler is ticking.
	Healthy  bool      `json:"healthy"`
	LastTick time.Time `json:"last_tick,omitzero"`
	// Unevaluated lists the autoscalers that are quarantined or have not been evaluated for three
	// periods, with the reason if it is known.
	Unevaluated []Problem `json:"unevaluated,omitempty"`
	// HeldBack lists the active pauses, and the autoscalers with a mode other than "on" or whose
	// platform accepts no change. These autoscalers are still evaluated.
	HeldBack []Problem `json:"held_back,omitempty"`
	// Shortages lists the autoscalers that are at their maximum and require more replicas.
	Shortages []Problem `json:"shortages,omitempty"`
	// FailingInstances lists the conditions which report that instances cannot start or end
	// unexpectedly, or that a replacement of instances fails.
	FailingInstances []Problem `json:"failing_instances,omitempty"`
	// Failing lists the autoscalers whose last pass failed. It does not list those that AllFailing
	// describes.
	Failing []Problem `json:"failing,omitempty"`
	// AllFailing is an error message if the last pass of every autoscaler failed, in a cluster of every
	// autoscaler of one fleet, and empty otherwise. Autoscalers with mode "off" are ignored.
	AllFailing string `json:"all_failing,omitempty"`
	// RefusedReload is the error of the last reload, or empty if it succeeded.
	RefusedReload string `json:"refused_reload,omitempty"`
	// Unwritten is the error of the last write of the state, or the reason why the next one may fail,
	// and empty otherwise. A restart may lose pauses, windows and counts that were not written.
	Unwritten string `json:"unwritten,omitempty"`
	// Cluster lists the problems of a cluster: the member cannot use the cluster store, or a shared
	// fleet has no owner that responds.
	Cluster []Problem `json:"cluster,omitempty"`
}

// Strictly reports whether no intervention is needed: the scheduler is ticking, all autoscalers
// are evaluated, not all passes fail, the last reload succeeded, the state is written, and the cluster
// has no problem.
func (h *Health) Strictly() bool {
	return h.Healthy && len(h.Unevaluated) == 0 && h.AllFailing == "" && h.RefusedReload == "" && h.Unwritten == "" && len(h.Cluster) == 0
}

// Readiness is the body of /-/ready.
type Readiness struct {
	// Ready reports whether the configuration is active, every autoscaler has had its first pass,
	// the state can be written, and a member of a cluster has read the store.
	Ready bool `json:"ready"`
	// Unwritten reports whether the state cannot be written.
	Unwritten bool `json:"-"`
	// Problems lists failing fleets, sources and autoscalers; autoscalers that are off, paused,
	// restricted by their mode or short of replicas; a dry run; and an unwritable state.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem describes a failure of one subject.
type Problem struct {
	// Subject is the object that has the problem, such as "autoscaler checkout", "source prom" or
	// "daemon".
	Subject string `json:"subject"`
	Message string `json:"message"`
}

// shownDecision is the JSON form of a decision in the API. It omits counts that could not be read.
type shownDecision struct {
	policy.Decision
	CurrentReplicas *int32 `json:"current_replicas,omitempty"`
	StatusReplicas  *int32 `json:"status_replicas,omitempty"`
	DesiredReplicas *int32 `json:"desired_replicas,omitempty"`
}

func show(d *policy.Decision) *shownDecision {
	if d == nil {
		return nil
	}
	shown := &shownDecision{Decision: *d}
	if d.Case != policy.CaseUnreadable {
		shown.CurrentReplicas, shown.StatusReplicas, shown.DesiredReplicas = &d.CurrentReplicas, &d.StatusReplicas, &d.DesiredReplicas
	}
	return shown
}

// MarshalJSON omits counts that could not be read.
func (a Autoscaler) MarshalJSON() ([]byte, error) {
	type plain Autoscaler
	return json.Marshal(struct {
		plain
		Decision *shownDecision `json:"decision,omitempty"`
	}{plain(a), show(a.Decision)})
}

// MarshalJSON omits counts that could not be read.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	return json.Marshal(struct {
		plain
		Decision *shownDecision `json:"decision"`
	}{plain(e), show(e.Decision)})
}

// MarshalJSON omits counts that could not be read.
func (r Recorded) MarshalJSON() ([]byte, error) {
	type plain Recorded
	decision := &r.Decision
	if r.Reload != nil {
		decision = nil
	}
	return json.Marshal(struct {
		plain
		Decision *shownDecision `json:"decision,omitempty"`
	}{plain(r), show(decision)})
}

// These problems are not errors. They are states that an operator requested and may have forgotten.
const (
	// Disabled is the problem of an autoscaler for which policy.Status.Disabled is true.
	Disabled = "autoscaling is off: the target was set to 0 replicas; set 1 or more to turn it on"
	// DryRun is the problem of a daemon that writes no counts.
	DryRun = "dry run: no count is written"
	// Off is the problem of an autoscaler with mode "off".
	Off = `autoscaling is off: mode = "off"`
)

// ModeText returns the problem of an autoscaler with a mode other than "on", or "" for "on". The
// argument schedule is the name of the schedule that sets the mode, or empty.
func ModeText(mode policy.Mode, schedule string) string {
	if mode != policy.ModeOn && schedule != "" {
		return ModeText(mode, "") + " (set by schedule " + schedule + ")"
	}
	switch mode {
	case policy.ModeOn:
		return ""
	case policy.ModeOff:
		return Off
	case policy.ModeRecommend:
		return `mode = "recommend": no count is written`
	case policy.ModeUpOnly:
		return `mode = "up-only": metrics do not scale down`
	case policy.ModeDownOnly:
		return `mode = "down-only": metrics do not scale up`
	}
	return "mode = " + string(mode)
}
