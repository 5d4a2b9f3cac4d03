package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Daemon is the daemon as the handlers need it. It returns copies, which the caller may keep, and
// no method waits for a pass.
type Daemon interface {
	// AutoscalersAfter returns the autoscalers with names after a name, in order; all for "". Each
	// view is created when the iteration reaches it.
	AutoscalersAfter(name string) iter.Seq[Autoscaler]
	// Autoscaler returns one autoscaler; false if it does not exist.
	Autoscaler(name string) (Autoscaler, bool)
	// InstancesOf reads the instances of an autoscaler's target now, with their metrics. It changes
	// nothing.
	InstancesOf(ctx context.Context, name string) (InstanceList, error)
	// Graph returns the graph of an autoscaler in [from, to); an ErrUnknown if there are no data.
	Graph(ctx context.Context, name string, from, to time.Time) (Graph, error)
	// Health returns the state of the scheduler and the autoscalers that are not evaluated.
	Health() Health
	// Readiness reports whether the configuration is live, and lists the current problems.
	Readiness() Readiness
	// Discovered returns the targets that were discovered by their labels, in order.
	Discovered() []Discovered
	// History returns the recorded entries of an autoscaler, or of all with an empty name, in
	// [from, to), oldest first. A zero time is no bound. If there are more than limit entries, it
	// returns the newest.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Recorded, error)
	// VerifyHistory evaluates the recorded decisions of an autoscaler in [from, to) again, or of
	// all with an empty name.
	VerifyHistory(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// ExportState writes the state for "hpad state import", with the history of decisions if
	// history is set.
	ExportState(ctx context.Context, to io.Writer, history bool) error
	// Reload loads the configuration and returns the changes. After an error the previous
	// configuration stays active.
	Reload(ctx context.Context) ([]config.Change, error)
	// ReloadChanges returns the changes that a reload would make now; an error if it would be
	// rejected. It changes nothing.
	ReloadChanges(ctx context.Context) ([]config.Change, error)
	// Config returns the active configuration as TOML, without secrets.
	Config() string
	// ConfigFile returns the absolute path of its main file.
	ConfigFile() string
	// Pauses returns the active pauses, those with the widest scope first.
	Pauses() []policy.Pause
	// Pause pauses a scope for a time, or with 0 until it is resumed, and replaces an earlier pause
	// of the scope. It returns the pause.
	Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error)
	// Resume ends the pause of a scope and returns it.
	Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error)
	// ScaleTo sets the count of an autoscaler's target; force allows a count outside the bounds.
	ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error
	// EvaluateNow evaluates an autoscaler and returns after the result is recorded.
	EvaluateNow(ctx context.Context, name string) error
}

// Autoscaler is one autoscaler in the API.
type Autoscaler struct {
	Name string `json:"name"`
	// Reference is "fleet/target", Kind the kind of the fleet.
	Reference string `json:"reference"`
	Kind      string `json:"kind"`
	// Created is when hpad first loaded it.
	Created           time.Time     `json:"created"`
	Spec              policy.Spec   `json:"spec"`
	Status            policy.Status `json:"status"`
	SyncPeriodSeconds float64       `json:"sync_period_seconds"`
	// Mode is empty for "on".
	Mode policy.Mode `json:"mode,omitempty"`
	// Pauses are the active pauses of the autoscaler, its fleet and all autoscalers.
	Pauses     []policy.Pause `json:"pauses,omitempty"`
	Evaluation Evaluation     `json:"evaluation"`
	// Decision is the last one; nil before the first pass.
	Decision *policy.Decision `json:"decision,omitempty"`
	// Next is the condition for the next change of the count, as of the last pass; nil if it is
	// unknown, before the first pass, and in lists.
	Next *policy.Next `json:"next,omitempty"`
	// Restore is the count to restore after a foreign change; may be nil.
	Restore *policy.Restoration `json:"restore,omitempty"`
	// Instances counts the instances of the last reading.
	Instances Instances `json:"instances,omitzero"`
	// Inputs are the inputs of Spec.Metrics.
	Inputs []Input `json:"inputs,omitempty"`
	// Events are the newest ones, oldest first.
	Events []Event `json:"events,omitempty"`
	// Labels are the labels of the target that define the autoscaler; nil if the configuration
	// does.
	Labels map[string]string `json:"labels,omitempty"`
	// Victims are the instances that the last decision removes, if hpad chooses them. Drains are
	// the drains in progress, and those that ended within a day.
	Victims []drain.Victim    `json:"victims,omitempty"`
	Drains  []drain.Operation `json:"drains,omitempty"`
	// VictimsError is the reason why Victims are unknown; empty if they are known.
	VictimsError string `json:"victims_error,omitempty"`
	// Discovery is set if the target has labels that are not active.
	Discovery *Discovered `json:"discovery,omitempty"`
}

// DiscoveredState is the result of evaluating a target's labels.
type DiscoveredState string

// The states of discovered targets.
const (
	// DiscoveredActive means that the labels define an autoscaler.
	DiscoveredActive DiscoveredState = "active"
	// DiscoveredDisabled means that the labels do not enable an autoscaler.
	DiscoveredDisabled DiscoveredState = "disabled"
	// DiscoveredInvalid means that the labels are invalid; the previous labels stay active.
	DiscoveredInvalid DiscoveredState = "invalid"
	// DiscoveredOverridden means that the target has an autoscaler in the configuration, or through
	// another fleet on the same engine.
	DiscoveredOverridden DiscoveredState = "overridden"
)

// DiscoveredStates are all states.
var DiscoveredStates = []DiscoveredState{DiscoveredActive, DiscoveredDisabled, DiscoveredInvalid, DiscoveredOverridden}

// Discovered is a target that was discovered by its labels.
type Discovered struct {
	// Reference is "fleet/target".
	Reference string          `json:"reference"`
	State     DiscoveredState `json:"state"`
	// Autoscaler scales the target; may be empty.
	Autoscaler string `json:"autoscaler,omitempty"`
	// Problem is the error in the labels; may be empty.
	Problem string `json:"problem,omitempty"`
}

// Instances counts the instances of a target by state; each has one state.
type Instances struct {
	// Ready are Running, with a readiness of true or without any.
	Ready int `json:"ready"`
	// Unready are Running and not ready, or in an unknown phase.
	Unready int `json:"unready,omitempty"`
	// Pending have not started, or wait for a restart.
	Pending int `json:"pending,omitempty"`
	// Failed and Succeeded have ended.
	Failed    int `json:"failed,omitempty"`
	Succeeded int `json:"succeeded,omitempty"`
	// Deleting are being stopped, whatever their other state.
	Deleting int `json:"deleting,omitempty"`
}

// Add counts an instance by the phase and readiness of upstream.
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

// Input is the input of one metric.
type Input struct {
	// Source is empty if the fleet itself measures.
	Source string            `json:"source,omitempty"`
	Query  string            `json:"query,omitempty"`
	Select map[string]string `json:"select,omitempty"`
	// SampleAgeSeconds is the age of the oldest sample of the last reading if it exceeds the sync
	// period; 0 otherwise, if it is unknown, and in lists.
	SampleAgeSeconds float64 `json:"sample_age_seconds,omitempty"`
}

// Evaluation is the result of an autoscaler's passes.
type Evaluation struct {
	// Last is the tick of the last complete pass; zero before the first.
	Last            time.Time `json:"last,omitzero"`
	Next            time.Time `json:"next,omitzero"`
	DurationSeconds float64   `json:"duration_seconds"`
	// Late counts ticks during a pass.
	Late uint64 `json:"late,omitempty"`
	// Reason is the reason code of the last pass or of the last tick without a pass, see
	// docs/reasons.md; empty before the first.
	Reason string `json:"reason,omitempty"`
	// Error is the error of the last pass; may be empty.
	Error string `json:"error,omitempty"`
	// QuarantinedUntil is set after repeated panics, and after the state store rejected the record.
	QuarantinedUntil time.Time `json:"quarantined_until,omitzero"`
	// Unevaluated reports whether the autoscaler is quarantined or three periods have passed
	// without a complete pass. Health lists the autoscaler then.
	Unevaluated bool `json:"unevaluated,omitempty"`
	// DryRun reports whether hpad writes no counts.
	DryRun bool `json:"dry_run,omitempty"`
	// StateLost describes the lost or removed part of the state with its time; empty if there was
	// no loss within the longest window.
	StateLost string `json:"state_lost,omitempty"`
	// Written is the count that the last pass wrote; nil if it wrote none. It differs from the
	// decision if only a part of the change was possible.
	Written *int32 `json:"written,omitempty"`
	// Hold is the reason why the platform did not accept the count; nil if it did, or was not
	// called.
	Hold *policy.Hold `json:"hold,omitempty"`
	// Since is the start of the current problem or extra condition of the platform; may be zero.
	Since time.Time `json:"since,omitzero"`
	// Unreported are changes of the problem without an entry in the history; may be nil.
	Unreported *Unreported `json:"unreported,omitempty"`
	// Shortage is set if the last pass wanted the maximum and its metrics want more replicas; else
	// nil.
	Shortage *policy.Shortage `json:"shortage,omitempty"`
}

// Unreported counts changes of the problem that are not in the history because they alternate.
type Unreported struct {
	Changes int `json:"changes"`
	// From is the time of the first.
	From time.Time `json:"from"`
}

// Event is an event with its number of occurrences.
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
	Status            policy.Status `json:"status"`
	SyncPeriodSeconds float64       `json:"sync_period_seconds"`
	Evaluation        Evaluation    `json:"evaluation"`
	Inputs            []Input       `json:"inputs,omitempty"`
	// Labels, Discovery, Victims and Drains are as in Autoscaler.
	Labels    map[string]string `json:"labels,omitempty"`
	Discovery *Discovered       `json:"discovery,omitempty"`
	Victims   []drain.Victim    `json:"victims,omitempty"`
	Drains    []drain.Operation `json:"drains,omitempty"`
	// VictimsError is as in Autoscaler.
	VictimsError string `json:"victims_error,omitempty"`
	// Next is as in Autoscaler; nil for a decision of the past.
	Next *policy.Next `json:"next,omitempty"`
	// AgreedUntil is when later passes stopped to agree with a decision of the past (no write and
	// the same reason), or the last pass if all agree; zero if there is no later pass, and for the last
	// decision.
	AgreedUntil time.Time `json:"agreed_until,omitzero"`
	// NextRecorded is when the decision after one of the past was recorded; may be zero.
	NextRecorded time.Time `json:"next_recorded,omitzero"`
	// Decision is the last one; nil before the first pass.
	Decision *policy.Decision `json:"decision"`
}

// DesiredKnown reports whether a pass has computed Status.DesiredReplicas. Before the first pass,
// and while the metrics fail from the start, it is 0.
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
	// Healthy reports whether the scheduler ticks.
	Healthy  bool      `json:"healthy"`
	LastTick time.Time `json:"last_tick,omitzero"`
	// Unevaluated are the autoscalers that are quarantined or were not evaluated for three periods,
	// with the reason if it is known.
	Unevaluated []Problem `json:"unevaluated,omitempty"`
	// HeldBack are the active pauses, and the autoscalers with a mode other than "on". They are
	// evaluated.
	HeldBack []Problem `json:"held_back,omitempty"`
	// Shortages are the autoscalers at their maximum that want more replicas.
	Shortages []Problem `json:"shortages,omitempty"`
	// AllFailing is an error if the last pass of every autoscaler failed; else empty. Autoscalers
	// with mode "off" are not counted.
	AllFailing string `json:"all_failing,omitempty"`
	// RefusedReload is the error of the last reload; empty if it succeeded.
	RefusedReload string `json:"refused_reload,omitempty"`
}

// Strictly reports whether no intervention is needed: the scheduler ticks, all autoscalers are
// evaluated, at least one pass succeeds, and the last reload succeeded.
func (h *Health) Strictly() bool {
	return h.Healthy && len(h.Unevaluated) == 0 && h.AllFailing == "" && h.RefusedReload == ""
}

// Readiness is the body of /-/ready.
type Readiness struct {
	// Ready reports whether the configuration is live, every autoscaler had its first pass, and the
	// state can be written.
	Ready bool `json:"ready"`
	// Unwritten reports whether the state cannot be written.
	Unwritten bool `json:"-"`
	// Problems are failing fleets, sources and autoscalers; autoscalers that are off, paused,
	// restricted by their mode or short of replicas; a dry run; and an unwritable state.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is the problem of one subject.
type Problem struct {
	// Subject is, for example, "autoscaler checkout", "source prom" or "daemon".
	Subject string `json:"subject"`
	Message string `json:"message"`
}

// shownDecision is a decision in the API: counts that could not be read are absent instead of 0.
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

// MarshalJSON leaves out counts that could not be read.
func (a Autoscaler) MarshalJSON() ([]byte, error) {
	type plain Autoscaler
	return json.Marshal(struct {
		plain
		Decision *shownDecision `json:"decision,omitempty"`
	}{plain(a), show(a.Decision)})
}

// MarshalJSON leaves out counts that could not be read.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	return json.Marshal(struct {
		plain
		Decision *shownDecision `json:"decision"`
	}{plain(e), show(e.Decision)})
}

// MarshalJSON leaves out counts that could not be read.
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

// Problems without an error: an operator requested this state and may have forgotten it.
const (
	// Disabled is the problem of an autoscaler that is off (policy.Status.Disabled).
	Disabled = "autoscaling is off: the target was set to 0 replicas; set 1 or more to turn it on"
	// DryRun is the problem of a daemon that writes no counts.
	DryRun = "dry run: no count is written"
	// Off is the problem of an autoscaler with mode "off".
	Off = `autoscaling is off: mode = "off"`
)

// ModeText is the problem of an autoscaler with another mode than "on"; empty for "on".
func ModeText(mode policy.Mode) string {
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
