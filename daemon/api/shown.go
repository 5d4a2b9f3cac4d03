package api

import (
	"encoding/json"

	"github.com/hpad/hpad/policy"
)

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
