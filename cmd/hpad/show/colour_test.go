package show

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func TestPaint(t *testing.T) {
	for text, want := range map[string]string{
		"Name:   web":                 "\x1b[1mName:\x1b[0m   web",
		"2. Compute the metrics (R1)": "\x1b[1m2. Compute the metrics (R1)\x1b[0m",
		"TIME   REPLICAS":             "\x1b[1mTIME   REPLICAS\x1b[0m",
		"    4 → 5":                   "    \x1b[1;33m4 → 5\x1b[0m",
		"    4 → 4":                   "    4 → 4",
		"nomad replicas:   4 current / 5 desired": "\x1b[1mnomad replicas:\x1b[0m   \x1b[1;33m4 current / 5\x1b[0m desired",
		"Error:   gone":                      "\x1b[31mError:   gone\x1b[0m",
		"  Error:       <none>":              "  Error:       <none>",
		"  Warning  FailedGetScale   5s   x": "\x1b[31m  Warning  FailedGetScale   5s   x\x1b[0m",
	} {
		if got := Paint([]byte(text + "\n")); string(got) != want+"\n" {
			t.Errorf("Paint(%q) = %q, want %q", text, got, want)
		}
	}
}

// A table with colours is the one without when they are taken away, and words of others
// bring none.
func TestColouredTable(t *testing.T) {
	var views []api.Autoscaler
	for _, name := range []string{"quiet", "growing", "failing", "unknown"} {
		view := api.Autoscaler{Name: name, Reference: "prod/\x1b[31m" + name}
		view.Status.CurrentReplicas, view.Status.DesiredReplicas = 4, 4
		views = append(views, view)
	}
	views[1].Status.DesiredReplicas = 5
	views[3].Status.DesiredReplicas = 0 // as none was ever computed
	views[3].Status.Conditions = []policy.Condition{{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "FailedGetResourceMetric"}}
	views[2].Evaluation.Error = "read \x1b[2J"
	now := time.Now()
	var bare, painted bytes.Buffer
	if err := new(Pieces).Whole(&bare, slices.Values(views), false, now); err != nil {
		t.Fatal(err)
	}
	if err := (&Pieces{Coloured: true}).Whole(&painted, slices.Values(views), false, now); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]int{string(heading): 8, string(change) + "4": 1, string(trouble) + "read": 1, "\x1b[2J": 0, "\x1b": 22} {
		if got := bytes.Count(painted.Bytes(), []byte(code)); got != want {
			t.Errorf("%q is there %d times, want %d, in %q", code, got, want, &painted)
		}
	}
	stripped := painted.Bytes()
	for _, code := range []string{string(heading), string(change), string(trouble), plain} {
		stripped = bytes.ReplaceAll(stripped, []byte(code), nil)
	}
	if want := bytes.Map(Printable, bare.Bytes()); !bytes.Equal(stripped, want) {
		t.Errorf("without colours it is\n%s\nwant\n%s", stripped, want)
	}
}
