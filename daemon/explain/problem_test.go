package explain

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// tick is the time of the decisions, and now is the time when they are displayed.
var (
	tick = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now  = tick.Add(20 * time.Second)
)

// TestProblem checks which conditions are problems: those of the platform and a manual count of 0,
// but not a count of 0 that the metrics proposed.
func TestProblem(t *testing.T) {
	for _, test := range []struct {
		condition policy.Condition
		want      string
	}{
		{policy.Condition{Type: policy.ScaledToZero, Status: policy.ConditionTrue, Message: "metrics will scale it up again"}, ""},
		{policy.Condition{Type: policy.ForeignWriter, Status: policy.ConditionTrue}, ""},
		{policy.Condition{Type: policy.ScalingLimited, Status: policy.ConditionTrue, Reason: "TooManyReplicas"}, ""},
		{policy.Condition{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "ScalingDisabled"}, api.Disabled},
		{policy.Condition{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "FailedGetExternalMetric", Message: "no value"}, "FailedGetExternalMetric: no value"},
		{policy.Condition{Type: policy.AbleToScale, Status: policy.ConditionFalse, Reason: "FailedGetScale"}, "FailedGetScale"},
		{policy.Condition{Type: "InsufficientCapacity", Status: policy.ConditionTrue, Message: "no capacity"}, "InsufficientCapacity: no capacity"},
		{policy.Condition{Type: "InsufficientCapacity", Status: policy.ConditionFalse, Message: "all instances have capacity"}, ""},
	} {
		view := api.Autoscaler{Status: policy.Status{Conditions: []policy.Condition{test.condition}}}
		if got := Problem(view, now); got != test.want {
			t.Errorf("Problem with %s %s = %q, want %q", test.condition.Type, test.condition.Status, got, test.want)
		}
	}
	held := api.Autoscaler{Evaluation: api.Evaluation{Reason: "NoReadyInstance"}, Status: policy.Status{Conditions: []policy.Condition{
		{Type: "ProcessesFailing", Status: policy.ConditionTrue, Message: "2 of 2 processes fail"},
	}}}
	if got, want := Problem(held, now), "ProcessesFailing: 2 of 2 processes fail; NoReadyInstance: the metrics do not lower the count"; got != want {
		t.Errorf("Problem of an outage = %q, want %q", got, want)
	}
	both := api.Autoscaler{Status: policy.Status{Conditions: []policy.Condition{
		{Type: "ProcessesFailing", Status: policy.ConditionTrue, Message: "exits"}, {Type: "ReplacementFailing", Status: policy.ConditionTrue},
	}}}
	if got := Problem(both, now); got != "ProcessesFailing: exits; ReplacementFailing" {
		t.Errorf("Problem with two conditions = %q", got)
	}
	for _, cause := range []policy.Condition{
		{Type: policy.AbleToScale, Status: policy.ConditionFalse, Reason: "DeploymentActive", Message: "deployment 5f3c is running"},
		{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "FailedGetExternalMetric", Message: "no value"},
	} {
		hidden := api.Autoscaler{Instances: api.Instances{Ready: 1}, Status: policy.Status{Conditions: []policy.Condition{
			cause, {Type: "AllocationsFailing", Status: policy.ConditionTrue, Message: "exit status 3"},
		}}}
		if got, want := Problem(hidden, now), cause.Reason+": "+cause.Message+"; AllocationsFailing: exit status 3"; got != want {
			t.Errorf("Problem with failing instances = %q, want %q", got, want)
		}
	}
	short := api.Autoscaler{
		Pauses: []policy.Pause{{Message: "paused by alice"}}, Evaluation: api.Evaluation{Shortage: &policy.Shortage{Wanted: 61, Max: 2, Reason: "TooManyReplicas"}},
	}
	if got, want := Problem(short, now), "paused by alice; wants 61, max 2"; got != want || !Fails(short, now) {
		t.Errorf("Problem with a shortage = %q, want %q", got, want)
	}
	short.Evaluation.Unevaluated = true
	if got, want := Problem(short, now), "paused by alice; not evaluated"; got != want {
		t.Errorf("Problem with an outdated shortage = %q, want %q", got, want)
	}
	view := api.Autoscaler{Evaluation: api.Evaluation{StateLost: "at noon: it was lost"}}
	if got, want := Problem(view, now), "state at noon: it was lost"; got != want {
		t.Errorf("Problem with lost state = %q, want %q", got, want)
	}
}

// TestShort checks that errors of any length keep the operation and the cause.
func TestShort(t *testing.T) {
	const failed, cause = `1 of 1 metrics failed, first external metric queue: source "prom": query "sum(`, "server returned 400 Bad Request: bad_data: parse error"
	for _, test := range []struct{ name, text string }{
		{"whole", failed + "x)\": " + cause},
		{"a long query", failed + strings.Repeat("long words ", 100) + ")\" at \"http://127.0.0.1:9090\": " + cause},
		{"many links", failed + strings.Repeat("x)\": retried: ", 100) + cause},
		{"lines", strings.ReplaceAll(failed, " ", "\n  ") + strings.Repeat("ä", 1000) + "\n" + cause},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Short(test.text)
			if !strings.HasPrefix(got, failed) || !strings.HasSuffix(got, cause) || utf8.RuneCountInString(got) > 2*maxEnd+3 {
				t.Errorf("Short = %q, want at most %d characters with\n%q and\n%q", got, 2*maxEnd+3, failed, cause)
			}
		})
	}
}

// TestSinceText checks that only the member that evaluates an autoscaler reports it as not evaluated.
func TestSinceText(t *testing.T) {
	stored := api.Autoscaler{Evaluation: api.Evaluation{Unevaluated: true, Last: tick, Error: "member a does not respond"}}
	if got, want := Problem(stored, now), "status as of 12:00:00 (20s ago), from the cluster store: member a does not respond"; got != want {
		t.Errorf("Problem of a stored status = %q, want %q", got, want)
	}
	overdue := stored
	overdue.Evaluation.Next, overdue.Evaluation.Error = now, ""
	if got, want := Problem(overdue, now), "status as of 12:00:00 (20s ago), not evaluated since"; got != want {
		t.Errorf("Problem of an overdue autoscaler = %q, want %q", got, want)
	}
}
