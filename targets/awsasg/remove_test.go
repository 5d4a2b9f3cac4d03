package awsasg

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/test/aws/awstest"
)

// idsOf returns the ids of a group's instances that are not on their way out.
func idsOf(g awstest.Group) []string {
	var ids []string
	for _, instance := range g.Instances {
		if instance.State != awstest.StateTerminating {
			ids = append(ids, instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestRemove(t *testing.T) {
	c, f := open(t, 6, nil)
	all := idsOf(c.Look("web"))
	version := readOne(t, f, "web").Version
	c.Calls()
	if err := f.Remove(t.Context(), ref("web"), []string{all[4], all[1], all[4], "i-gone"}, version, "the test asks"); err != nil {
		t.Fatal(err)
	}
	g := c.Look("web")
	want := []string{all[0], all[2], all[3], all[5]}
	if got := idsOf(g); g.Desired != 4 || !slices.Equal(got, want) {
		t.Errorf("desired %d of %v, want 4 of %v", g.Desired, got, want)
	}
	if n := c.Calls()["TerminateInstanceInAutoScalingGroup"]; n != 1 {
		t.Errorf("%d calls for two instances, want 1", n)
	}
	// The same again, as after a lost response: it lowers nothing.
	if err := f.Remove(t.Context(), ref("web"), []string{all[4], all[1]}, "", ""); err != nil {
		t.Errorf("Remove() of what is gone = %v", err)
	}
	if got := c.Look("web").Desired; got != 4 {
		t.Errorf("desired %d, want still 4", got)
	}
	if n := c.Calls()["TerminateInstanceInAutoScalingGroup"]; n != 0 {
		t.Errorf("%d calls for instances that are gone, want none", n)
	}
	if err := f.Remove(t.Context(), ref("web"), []string{all[0]}, version, ""); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("Remove() at a version that was lost = %v, want ErrConflict", err)
	}
}

func TestRemoveRefused(t *testing.T) {
	c, f := open(t, 3, nil)
	all := idsOf(c.Look("web"))
	c.Edit("web", func(g *awstest.Group) {
		for _, instance := range g.Instances {
			instance.Protected = instance.ID == all[1]
		}
	})
	err := f.Remove(t.Context(), ref("web"), all[:2], "", "")
	var held *targets.HeldError
	if !errors.As(err, &held) || held.Hold.Reason != cloud.InstanceProtected || !strings.Contains(held.Hold.Message, all[1]) || strings.Contains(held.Hold.Message, all[0]) {
		t.Errorf("Remove() of a protected instance = %v, want %s and its id", err, cloud.InstanceProtected)
	}
	c.Edit("web", func(g *awstest.Group) {
		g.Min = 2
		for _, instance := range g.Instances {
			instance.Protected = false
		}
	})
	var outside *targets.OutOfRangeError
	if err := f.Remove(t.Context(), ref("web"), all[:2], "", ""); !errors.As(err, &outside) || *outside.Min != 2 {
		t.Errorf("Remove() below the minimum = %v, want OutOfRangeError with 2", err)
	}
	c.Edit("web", func(g *awstest.Group) { g.Suspended = []string{"Terminate"} })
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); !errors.As(err, &outside) || *outside.Min != 3 {
		t.Errorf("Remove() while nothing may be terminated = %v, want OutOfRangeError with 3", err)
	}
	if got := idsOf(c.Look("web")); !slices.Equal(got, all) || c.Writes() != 0 {
		t.Errorf("instances %v after refusals, want %v", got, all)
	}
	c.Edit("web", func(g *awstest.Group) { g.Suspended = nil })
	c.Deny("TerminateInstanceInAutoScalingGroup", "")
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "autoscaling:TerminateInstanceInAutoScalingGroup") {
		t.Errorf("Remove() without the permission = %v", err)
	}
	if err := f.Remove(t.Context(), ref("nobody"), all[:1], "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("Remove() from no group = %v", err)
	}
}

// TestRemoveLostAnswer leaves open what became of it.
func TestRemoveLostAnswer(t *testing.T) {
	c, f := open(t, 3, nil)
	all := idsOf(c.Look("web"))
	c.Inject(awstest.Fault{Action: "TerminateInstanceInAutoScalingGroup", Times: 1, Lost: true})
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); !errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("Remove() whose answer is lost = %v, want ErrUnknownOutcome", err)
	}
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); err != nil {
		t.Errorf("the same again = %v", err)
	}
	if g := c.Look("web"); g.Desired != 2 || !slices.Equal(idsOf(g), all[1:]) {
		t.Errorf("desired %d of %v, want 2 of %v: nothing is terminated twice", g.Desired, idsOf(g), all[1:])
	}
}
