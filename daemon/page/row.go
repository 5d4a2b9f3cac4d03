package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
	hpa "github.com/hpad/hpad/policy"
)

// state is what an autoscaler is for who looks at the list.
type state string

// The states, the one that a person should see first, first.
const (
	// attention: it cannot do its work, or something of its target fails.
	attention state = "attention"
	// held: it does its work, and people or the platform keep the count.
	held state = "held"
	// scaling: the count is to be another one.
	scaling state = "scaling"
	// steady: none of it.
	steady state = "steady"
)

// states are all of them.
var states = []state{attention, held, scaling, steady}

// row is an autoscaler in the list. It has no time that passes, so that it is another one
// only when something is.
type row struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
	Fleet     string `json:"fleet"`
	// Replicas is the count in words, Count that of it that sorts; Desired what is wanted.
	Replicas string `json:"replicas"`
	Count    int32  `json:"count"`
	Desired  int32  `json:"desired"`
	Min      int32  `json:"min"`
	Max      int32  `json:"max"`
	Targets  string `json:"targets"`
	State    state  `json:"state"`
	// Problem is what holds or fails it; empty for nothing. Why is the last decision.
	Problem string `json:"problem,omitempty"`
	Why     string `json:"why"`
	// Late counts ticks at which a pass was still running.
	Late uint64 `json:"late,omitempty"`
}

// rowOf shows an autoscaler as of now, whose zone times are in. It has no secrets,
// because clients can search rows for any text.
func rowOf(view *api.Autoscaler, now time.Time) row {
	fleet, _, _ := strings.Cut(view.Reference, "/")
	r := row{
		Name: view.Name, Reference: redact.Text(view.Reference), Fleet: redact.Text(fleet), Replicas: explain.ReplicasText(*view),
		Count: view.Status.CurrentReplicas, Desired: view.Status.DesiredReplicas, Min: least(view.Spec), Max: view.Spec.MaxReplicas,
		Targets: explain.TargetsText(view.Spec.Metrics, view.Status.Metrics),
		Problem: redact.Text(explain.Problem(*view, now)), Why: "No decision yet: the first pass has not ended.", Late: view.Evaluation.Late,
	}
	if d := view.Decision; d == nil || d.Case == hpa.CaseUnreadable || d.Case == hpa.CaseMetricsFailed {
		r.Desired = r.Count // nothing else is known to be wanted
	}
	if view.Decision != nil {
		r.Why = sentence(view.Decision, view.Evaluation, now.Location())
	}
	r.State = stateOf(view, &r, now)
	return r
}

// sentence says what was decided, with times in a zone.
func sentence(d *hpa.Decision, became api.Evaluation, zone *time.Location) string {
	local := *d
	local.Time = d.Time.In(zone)
	return redact.Text(explain.Sentence(local, became))
}

func stateOf(view *api.Autoscaler, r *row, now time.Time) state {
	switch {
	case explain.Fails(*view, now):
		return attention
	case len(view.Pauses) > 0, view.Mode != hpa.ModeOn, view.Evaluation.DryRun, view.Evaluation.Hold != nil, view.Status.Disabled():
		return held
	case r.Count != r.Desired:
		return scaling
	}
	return steady
}

// least is the lower bound, which is 1 where none is set.
func least(spec hpa.Spec) int32 {
	if spec.MinReplicas == nil {
		return 1
	}
	return *spec.MinReplicas
}

// choice is what a list shows of all rows.
type choice struct {
	Text, Fleet, Sort string
	State             state
	Page              int
}

// orders are what a list can be sorted by.
var orders = map[string]func(a, b *row) int{
	"name":     func(_, _ *row) int { return 0 },
	"replicas": func(a, b *row) int { return cmp.Compare(b.Count, a.Count) },
	"state": func(a, b *row) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	},
	"late": func(a, b *row) int { return cmp.Compare(b.Late, a.Late) },
}

// has reports whether the choice has a row.
func (c *choice) has(r *row) bool {
	return (c.State == "" || c.State == r.State) && (c.Fleet == "" || c.Fleet == r.Fleet) &&
		(c.Text == "" || strings.Contains(strings.ToLower(r.Name+" "+r.Reference+" "+r.Problem), strings.ToLower(c.Text)))
}

// of returns the rows that the choice has, sorted.
func (c *choice) of(rows []*row) []*row {
	var chosen []*row
	for _, r := range rows {
		if c.has(r) {
			chosen = append(chosen, r)
		}
	}
	if order := orders[c.Sort]; order != nil {
		slices.SortStableFunc(chosen, order) // rows are by name
	}
	return chosen
}
