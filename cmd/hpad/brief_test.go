package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestBriefList checks that abridged autoscalers from the API produce the same tables and sort
// orders as complete autoscalers.
func TestBriefList(t *testing.T) {
	d := scenarios()
	types := []policy.ConditionType{policy.AbleToScale, policy.ScalingActive, policy.ScalingLimited, policy.ScaledToZero, policy.ForeignWriter, policy.Paused, "Deploying"}
	for _, kind := range types {
		for _, is := range []policy.ConditionStatus{policy.ConditionTrue, policy.ConditionFalse, policy.ConditionUnknown} {
			for _, reason := range []string{"ScaleDownStabilized", "ScaleUpStabilized", "ScalingDisabled", "Other"} {
				view := d.List[0]
				view.Name, view.Created = fmt.Sprintf("a-%03d", len(d.List)), now
				view.Status.Conditions = []policy.Condition{{Type: kind, Status: is, Reason: reason, Message: "so it is", Since: now}}
				view.Instances.Ready = int32(len(d.List) % 2)
				d.List = append(d.List, view)
			}
		}
	}
	slices.SortFunc(d.List, func(a, b api.Autoscaler) int { return strings.Compare(a.Name, b.Name) })
	var brief []api.Autoscaler
	for view, err := range api.NewClient(serveDaemon(t, d)).EachBriefly(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		brief = append(brief, view)
	}
	if len(brief) != len(d.List) || brief[0].Inputs != nil || brief[0].Spec.Behavior != nil {
		t.Fatalf("got %d autoscalers, first %+v; want %d without inputs", len(brief), brief[0], len(d.List))
	}
	table := func(views []api.Autoscaler) string {
		var text strings.Builder
		if err := new(show.Table).Whole(&text, slices.Values(views), true, now); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	for _, order := range show.Orders {
		show.Sort(d.List, order, now)
		show.Sort(brief, order, now)
		if diff := cmp.Diff(table(d.List), table(brief)); diff != "" {
			t.Errorf("sorted by %s (-complete +brief):\n%s", order, diff)
		}
	}
}
