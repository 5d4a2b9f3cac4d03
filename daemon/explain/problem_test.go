package explain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestProblem holds which conditions of a target keep its autoscaler from doing
// its work: what the platform says does, and somebody's zero; an autoscaler's own zero
// does not.
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
		{policy.Condition{Type: "InsufficientCapacity", Status: policy.ConditionTrue, Message: "no room"}, "InsufficientCapacity: no room"},
		{policy.Condition{Type: "InsufficientCapacity", Status: policy.ConditionFalse, Message: "all have room"}, ""},
	} {
		view := api.Autoscaler{Status: policy.Status{Conditions: []policy.Condition{test.condition}}}
		if got := Problem(view, now); got != test.want {
			t.Errorf("Problem() with %s %s = %q, want %q", test.condition.Type, test.condition.Status, got, test.want)
		}
	}
	short := api.Autoscaler{
		Pauses: []policy.Pause{{Message: "paused by alice"}}, Evaluation: api.Evaluation{Shortage: &policy.Shortage{Wanted: 61, Max: 2, Reason: "TooManyReplicas"}},
	}
	if got, want := Problem(short, now), "paused by alice; wants 61, max 2"; got != want || !Fails(short, now) {
		t.Errorf("Problem() with a shortage = %q, want %q", got, want)
	}
	short.Evaluation.Unevaluated = true
	if got, want := Problem(short, now), "paused by alice; not evaluated"; got != want {
		t.Errorf("Problem() with an outdated shortage = %q, want %q", got, want)
	}
	view := api.Autoscaler{Evaluation: api.Evaluation{StateLost: "at noon: it was lost"}}
	if got, want := Problem(view, now), "state at noon: it was lost"; got != want {
		t.Errorf("Problem() with a state that was lost = %q, want %q", got, want)
	}
}

// What is too long is cut between the links of the chain that an error is, or
// between words.
func TestShort(t *testing.T) {
	long := strings.Repeat("long words ", 10)
	for _, test := range []struct{ name, text, want string }{
		{"whole", "read job:\n  no answer", "read job: no answer"},
		{
			"links in between", `1 of 1 metrics failed: source "prom": query "sum(` + long + `)" at "http://127.0.0.1:9090": server answered 400 Bad Request: bad_data: parse error`,
			`1 of 1 metrics failed: …: server answered 400 Bad Request: bad_data: parse error`,
		},
		{"the end of the last", "scale group: " + long + long, "scale group: " + strings.TrimSpace(strings.Repeat("long words ", 11)) + " long…"},
		{
			"a quoted answer", `1 of 1 metrics failed: source "prom": query "sum(x)" at "http://127.0.0.1:9090": server answered 201 Created: "{\"status\": \"success\", \"data\": {\"` + long + `\": []}}"`,
			`1 of 1 metrics failed: …: server answered 201 Created: "{\"status\": \"success\", \"data\": {\"long words long words long words long words…`,
		},
		{
			"the end of a long last", `1 of 1 metrics failed: source "prom": query "sum(x)" at "http://127.0.0.1:9090": result is of another time, ` + long,
			`1 of 1 metrics failed: …: result is of another time, ` + strings.Repeat("long words ", 7) + "long…",
		},
		{"one word", strings.Repeat("ä", 200), strings.Repeat("ä", 139) + "…"},
		{"two links", long + ": " + long, strings.TrimSpace(long) + " : " + strings.TrimSpace(strings.Repeat("long words ", 2)) + " long…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Short(test.text)
			if got != test.want || utf8.RuneCountInString(got) > maxProblem {
				t.Errorf("short:\n got %q\nwant %q", got, test.want)
			}
		})
	}
}
