package awsasg

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/test/aws/awstest"
)

// TestDescriptionsLag: AWS describes a group for a while as it was before hpad
// changed it. Its count is the one that hpad wrote, its instances those that hpad
// left, and nothing is written twice.
func TestDescriptionsLag(t *testing.T) {
	c, f := open(t, 2, nil)
	expect := func(what string, spec int32, deleting int) {
		t.Helper()
		r := readOne(t, f, "web")
		going := 0
		for _, instance := range r.Instances {
			if instance.Deleting {
				going++
			}
		}
		if r.SpecReplicas != spec || going != deleting || int(r.StatusReplicas) != len(r.Instances)-going {
			t.Errorf("%s: spec %d, status %d, %d of %d instances are leaving; want spec %d and %d leaving",
				what, r.SpecReplicas, r.StatusReplicas, going, len(r.Instances), spec, deleting)
		}
	}
	scale := func(n int32, writes int) {
		t.Helper()
		before := c.Writes()
		if err := f.SetReplicas(t.Context(), ref("web"), n, readOne(t, f, "web").Version, ""); err != nil {
			t.Fatalf("SetReplicas(%d) = %v", n, err)
		}
		if got := c.Writes() - before; got != writes {
			t.Errorf("SetReplicas(%d) took %d writes, want %d", n, got, writes)
		}
	}
	lag := func(d time.Duration) {
		c.Edit("web", func(g *awstest.Group) { g.ReadLag, g.Stop = d, time.Hour })
	}
	lag(time.Hour)
	scale(4, 1)
	expect("after one write", 4, 0)
	scale(4, 0)
	scale(5, 1)
	expect("after two writes", 5, 0)
	lag(0)
	expect("once AWS shows them", 5, 0)
	c.Edit("web", func(g *awstest.Group) { g.Desired = 2 })
	expect("after somebody else's change", 2, 3)

	lag(time.Hour)
	staying := slices.DeleteFunc(c.Look("web").Instances, func(i *awstest.Instance) bool { return i.State != awstest.StateInService })
	c.Calls()
	for range 2 {
		if err := f.Remove(t.Context(), ref("web"), []string{staying[0].ID}, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	expect("after a removal", 1, 4)
	if calls, g := c.Calls()["TerminateInstanceInAutoScalingGroup"], c.Look("web"); calls != 1 || g.Desired != 1 {
		t.Errorf("%d calls to terminate one instance, desired capacity %d; want 1 and 1", calls, g.Desired)
	}
	lag(0)
	expect("once AWS shows the removal", 1, 4)
}
