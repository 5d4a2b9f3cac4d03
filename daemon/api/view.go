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

// Daemon is what the handlers ask of the daemon. What it returns are copies
// that the caller may hold; nothing waits for a pass.
type Daemon interface {
	// AutoscalersAfter returns the autoscalers whose names come after a name, by name,
	// each made when it is its turn. With "" it is all of them.
	AutoscalersAfter(name string) iter.Seq[Autoscaler]
	// Autoscaler returns one; false when there is none of that name.
	Autoscaler(name string) (Autoscaler, bool)
	// InstancesOf reads the instances of an autoscaler's target now, and what its metrics
	// measure of each. It changes nothing.
	InstancesOf(ctx context.Context, name string) (InstanceList, error)
	// Graph returns what drawings show of an autoscaler, from one time up to another; an
	// ErrUnknown where nothing is kept for them.
	Graph(ctx context.Context, name string, from, to time.Time) (Graph, error)
	// Health reports whether the daemon is alive and who is not being evaluated.
	Health() Health
	// Readiness reports whether the configuration is live and what is failing.
	Readiness() Readiness
	// Discovered returns the targets that fleets found by their labels, in order.
	Discovered() []Discovered
	// History returns what was recorded of an autoscaler, or with an empty name of
	// all, from one time up to, and not with, another, oldest first; a zero time is no
	// bound. Of more than limit entries it is the newest ones.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Recorded, error)
	// VerifyHistory makes the decisions again that were recorded of an autoscaler, or with
	// an empty name of all, from one time up to, and not with, another.
	VerifyHistory(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// ExportState writes the state as "hpad state import" reads it, with that of decisions
	// if history says so.
	ExportState(ctx context.Context, to io.Writer, history bool) error
	// Reload reads the configuration again and swaps it in, and returns what is different;
	// an error leaves the old one running.
	Reload(ctx context.Context) ([]config.Change, error)
	// ReloadChanges returns what a reload would change now, and changes nothing; an error
	// is what would refuse it.
	ReloadChanges(ctx context.Context) ([]config.Change, error)
	// Config returns the configuration in force as TOML, without secrets.
	Config() string
	// ConfigFile returns the absolute path of its main file.
	ConfigFile() string
	// Pauses returns the pauses in force, the widest first.
	Pauses() []policy.Pause
	// Pause puts a pause in force, in the place of an earlier one of its scope, for so
	// long, or with 0 until somebody resumes, and returns it.
	Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error)
	// Resume ends the pause of a scope and returns it.
	Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error)
	// ScaleTo sets the count of an autoscaler's target, with force also outside of the
	// bounds.
	ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error
	// EvaluateNow evaluates an autoscaler and returns once that is recorded.
	EvaluateNow(ctx context.Context, name string) error
}

// Autoscaler is what the API shows of one autoscaler.
type Autoscaler struct {
	Name string `json:"name"`
	// Reference is "fleet/target", Kind the fleet's kind.
	Reference string `json:"reference"`
	Kind      string `json:"kind"`
	// Created is when hpad first saw it.
	Created time.Time     `json:"created"`
	Spec    policy.Spec   `json:"spec"`
	Status  policy.Status `json:"status"`
	// SyncPeriodSeconds is how often it is evaluated.
	SyncPeriodSeconds float64 `json:"sync_period_seconds"`
	// Mode is how much it does by itself; empty for "on".
	Mode policy.Mode `json:"mode,omitempty"`
	// Pauses are those in force, of the autoscaler, its fleet and of all; empty when there
	// is none.
	Pauses []policy.Pause `json:"pauses,omitempty"`
	// Evaluation is how the passes went.
	Evaluation Evaluation `json:"evaluation"`
	// Decision is the last one; nil before the first pass.
	Decision *policy.Decision `json:"decision,omitempty"`
	// Next is what would have to happen for the count to change, as of the last pass; nil
	// where that is not known, as before the first, and in lists.
	Next *policy.Next `json:"next,omitempty"`
	// Restore is the count that is still to be put back after somebody else changed
	// it; nil when there is none.
	Restore *policy.Restoration `json:"restore,omitempty"`
	// Instances counts the target's instances as the last pass read them.
	Instances Instances `json:"instances,omitzero"`
	// Inputs are where the readings of Spec.Metrics come from.
	Inputs []Input `json:"inputs,omitempty"`
	// Events are the newest ones, oldest first.
	Events []Event `json:"events,omitempty"`
	// Labels are those by which the target itself asked for the autoscaler; nil for
	// one of the configuration.
	Labels map[string]string `json:"labels,omitempty"`
	// Victims are whom the last decision takes, where hpad chooses; Drains what is
	// under way with those of earlier ones, and what ended within a day.
	Victims []drain.Victim    `json:"victims,omitempty"`
	Drains  []drain.Operation `json:"drains,omitempty"`
	// VictimsError is why Victims are not known; empty when they are.
	VictimsError string `json:"victims_error,omitempty"`
	// Discovery is set when the target has labels that are not in force.
	Discovery *Discovered `json:"discovery,omitempty"`
}

// DiscoveredState is what became of a target's labels.
type DiscoveredState string

// The states of discovered targets.
const (
	// DiscoveredActive: the labels make an autoscaler.
	DiscoveredActive DiscoveredState = "active"
	// DiscoveredDisabled: the labels ask for no autoscaler.
	DiscoveredDisabled DiscoveredState = "disabled"
	// DiscoveredMistaken: the labels cannot be used; those before stay in force.
	DiscoveredMistaken DiscoveredState = "mistaken"
	// DiscoveredOverridden: the configuration has an autoscaler of the target, or
	// another fleet, which is the same engine, has found it too.
	DiscoveredOverridden DiscoveredState = "overridden"
)

// DiscoveredStates are all of them.
var DiscoveredStates = []DiscoveredState{DiscoveredActive, DiscoveredDisabled, DiscoveredMistaken, DiscoveredOverridden}

// Discovered is a target that a fleet found by its labels.
type Discovered struct {
	// Reference is "fleet/target".
	Reference string          `json:"reference"`
	State     DiscoveredState `json:"state"`
	// Autoscaler scales the target; empty when none does.
	Autoscaler string `json:"autoscaler,omitempty"`
	// Problem says what is wrong with the labels; empty when nothing is.
	Problem string `json:"problem,omitempty"`
}

// Instances counts the instances of a target by their state; each is in one.
type Instances struct {
	// Ready are Running and not said to be otherwise than ready.
	Ready int `json:"ready"`
	// Unready are Running and not ready, or in a phase that is not known.
	Unready int `json:"unready,omitempty"`
	// Pending have not started, or wait to be started again.
	Pending int `json:"pending,omitempty"`
	// Failed and Succeeded have ended.
	Failed    int `json:"failed,omitempty"`
	Succeeded int `json:"succeeded,omitempty"`
	// Deleting are being stopped, whatever else they are.
	Deleting int `json:"deleting,omitempty"`
}

// Add counts an instance of a phase and readiness, in upstream's words.
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

// Input is where one metric's readings come from.
type Input struct {
	// Source is empty where the fleet itself measures.
	Source string            `json:"source,omitempty"`
	Query  string            `json:"query,omitempty"`
	Select map[string]string `json:"select,omitempty"`
	// SampleAgeSeconds is the age of the oldest sample of the last reading if it exceeds the
	// sync period; 0 if it does not, if it is unknown, and in lists.
	SampleAgeSeconds float64 `json:"sample_age_seconds,omitempty"`
}

// Evaluation is how an autoscaler's passes went.
type Evaluation struct {
	// Last is the tick of the last pass that ended; zero before the first.
	Last time.Time `json:"last,omitzero"`
	// Next is the tick of the next one.
	Next time.Time `json:"next,omitzero"`
	// DurationSeconds is how long the last pass took.
	DurationSeconds float64 `json:"duration_seconds"`
	// Late counts ticks at which a pass was still running.
	Late uint64 `json:"late,omitempty"`
	// Reason is the one word that the last pass ended with, or why there was none at the
	// last tick, of docs/reasons.md; empty before the first.
	Reason string `json:"reason,omitempty"`
	// Error is the last pass's; empty when it had none.
	Error string `json:"error,omitempty"`
	// QuarantinedUntil is set after repeated panics, and after the state store rejected the
	// record.
	QuarantinedUntil time.Time `json:"quarantined_until,omitzero"`
	// Unevaluated reports whether three periods went by without a pass that ended, or the
	// autoscaler is quarantined, as of when the view was asked for. Health names the autoscaler then.
	Unevaluated bool `json:"unevaluated,omitempty"`
	// DryRun reports whether hpad writes no counts.
	DryRun bool `json:"dry_run,omitempty"`
	// StateLost says what of hpad's state was lost, or removed while hpad ran, and
	// when; empty when nothing was for the longest window of any autoscaler.
	StateLost string `json:"state_lost,omitempty"`
	// Written is the count that the last pass wrote; nil when it wrote none. It is
	// another one than the decision's where only a part could be done.
	Written *int32 `json:"written,omitempty"`
	// Hold is why the platform did not take the count; nil when it was not asked, or
	// took it.
	Hold *policy.Hold `json:"hold,omitempty"`
	// Since is when what keeps the autoscaler from its work, or what its platform says
	// besides, began; zero when there is nothing.
	Since time.Time `json:"since,omitzero"`
	// Untold are changes of that which the history has no entry for; nil when there
	// are none.
	Untold *Untold `json:"untold,omitempty"`
	// Shortage is set if the last pass wanted the maximum and its metrics want more replicas;
	// else nil.
	Shortage *policy.Shortage `json:"shortage,omitempty"`
}

// Untold counts changes from one cause to another that have no entry in the history
// because the causes take turns.
type Untold struct {
	Changes int `json:"changes"`
	// From is the first of them.
	From time.Time `json:"from"`
}

// Event is an event and how often it occurred.
type Event struct {
	policy.Event
	Count int64     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Explanation is the record of an autoscaler's last decision and of what led to
// it, without what does not bear on it.
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
	// Next is as in Autoscaler; nil with a time that was asked for.
	Next *policy.Next `json:"next,omitempty"`
	// AgreedUntil is how long later passes agreed with a decision of the past: they
	// wrote nothing and gave no other reason. It is when one first did, or the last
	// pass where none has; zero where there was no later pass, and without a time that
	// was asked for.
	AgreedUntil time.Time `json:"agreed_until,omitzero"`
	// NextRecorded is when the next decision was recorded; zero when none was, and
	// without a time that was asked for.
	NextRecorded time.Time `json:"next_recorded,omitzero"`
	// Decision is the last one; nil before the first pass.
	Decision *policy.Decision `json:"decision"`
}

// DesiredKnown reports whether a pass has computed Status.DesiredReplicas: before the first,
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

// Explanation returns what explains the autoscaler's last decision.
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
	Healthy bool `json:"healthy"`
	// LastTick is the last tick of the scheduler.
	LastTick time.Time `json:"last_tick,omitzero"`
	// Unevaluated names the autoscalers that were not evaluated for three periods or are
	// quarantined,
	// and why where that is known.
	Unevaluated []Problem `json:"unevaluated,omitempty"`
	// HeldBack are the pauses in force, and the autoscalers whose mode is not "on". They are
	// evaluated all the same.
	HeldBack []Problem `json:"held_back,omitempty"`
	// Shortages are the autoscalers at their maximum that want more replicas.
	Shortages []Problem `json:"shortages,omitempty"`
	// AllFailing is an error if the last pass of every autoscaler failed; else empty.
	// Autoscalers with mode "off" are not counted.
	AllFailing string `json:"all_failing,omitempty"`
	// RefusedReload is why the last reload was refused; empty when it was not.
	RefusedReload string `json:"refused_reload,omitempty"`
}

// Strictly reports whether nothing needs a person: the scheduler ticks, all autoscalers
// are evaluated, at least one pass succeeds, and the last reload was not refused.
func (h *Health) Strictly() bool {
	return h.Healthy && len(h.Unevaluated) == 0 && h.AllFailing == "" && h.RefusedReload == ""
}

// Readiness is the body of /-/ready.
type Readiness struct {
	// Ready reports whether the configuration is live, every autoscaler had its first
	// pass, and the state can be written.
	Ready bool `json:"ready"`
	// Unwritten reports whether the state cannot be written.
	Unwritten bool `json:"-"`
	// Problems names fleets, sources and autoscalers that fail now, autoscalers that
	// are off or held back by a pause or their mode or that want more replicas than the maximum,
	// a dry run, and why the state cannot be written.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is one thing that is wrong.
type Problem struct {
	// Subject is what it is about: "autoscaler checkout", "source prom", "daemon".
	Subject string `json:"subject"`
	Message string `json:"message"`
}

// shownDecision is a decision as the API shows it: counts that could not be read
// are absent instead of 0.
type shownDecision struct {
	policy.Decision
	CurrentReplicas *int32 `json:"current_replicas,omitempty"`
	StatusReplicas  *int32 `json:"status_replicas,omitempty"`
	DesiredReplicas *int32 `json:"desired_replicas,omitempty"`
}

// show returns what is shown of a decision; nil of none.
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

// What keeps hpad from scaling although nothing fails: somebody wanted it so, and
// may have forgotten.
const (
	// Disabled is the problem of an autoscaler that is off (policy.Status.Disabled).
	Disabled = "autoscaling is off: the target has 0 replicas, which its metrics did not ask for; set 1 or more to switch it on"
	// DryRun is the problem of a daemon that writes no counts.
	DryRun = "dry run: no count is written"
	// Off is the problem of an autoscaler whose mode is off.
	Off = `autoscaling is off: mode = "off"`
)

// ModeText is the problem of an autoscaler whose mode is not "on"; empty where it is.
func ModeText(mode policy.Mode) string {
	switch mode {
	case policy.ModeOn:
		return ""
	case policy.ModeOff:
		return Off
	case policy.ModeRecommend:
		return `mode = "recommend": no count is written`
	case policy.ModeUpOnly:
		return `mode = "up-only": metrics scale nothing down`
	case policy.ModeDownOnly:
		return `mode = "down-only": metrics scale nothing up`
	}
	return "mode = " + string(mode)
}
