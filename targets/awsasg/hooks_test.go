package awsasg

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/aws/awstest"
)

// TestHooks: an instance that a lifecycle hook holds counts as one that boots while
// it comes, and no more once it goes, until somebody completes the action or the
// heartbeat is over.
func TestHooks(t *testing.T) {
	c, f := open(t, 1, nil)
	c.Edit("web", func(g *awstest.Group) {
		g.Hooks = []awstest.Hook{
			{Name: "install", Transition: awstest.Launching, Default: awstest.Continue},
			{Name: "drain", Transition: awstest.Terminating},
		}
	})
	first := c.Look("web").Instances[0].ID
	held := func(state string) string {
		t.Helper()
		for _, instance := range c.Look("web").Instances {
			if instance.State == state {
				return instance.ID
			}
		}
		t.Fatalf("no instance is in state %s", state)
		return ""
	}
	complete := func(hook, id, result string) error {
		t.Helper()
		s, err := f.connection.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.groups.CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: aws.String("web"), LifecycleHookName: &hook, InstanceId: &id, LifecycleActionResult: &result,
		})
		return err
	}
	expect := func(what string, spec, status int32, want map[string]policy.Instance) {
		t.Helper()
		r := readOne(t, f, "web")
		if r.SpecReplicas != spec || r.StatusReplicas != status || len(r.Instances) != len(want) {
			t.Errorf("%s: spec %d, status %d of %d instances, want %d, %d of %d", what, r.SpecReplicas, r.StatusReplicas, len(r.Instances), spec, status, len(want))
		}
		for _, got := range r.Instances {
			if w := want[got.ID]; got.Phase != w.Phase || got.Readiness != w.Readiness || got.Deleting != w.Deleting {
				t.Errorf("%s: %+v, want it as %+v", what, got, w)
			}
		}
	}
	runs := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue}
	boots := policy.Instance{Phase: policy.PhasePending, Readiness: policy.ReadinessFalse}
	leaves := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessFalse, Deleting: true}
	scale := func(n int32) {
		t.Helper()
		if err := f.SetReplicas(t.Context(), ref("web"), n, readOne(t, f, "web").Version, ""); err != nil {
			t.Fatal(err)
		}
	}

	scale(2)
	second := held(awstest.StatePendingWait)
	expect("held while it comes", 2, 2, map[string]policy.Instance{first: runs, second: boots})
	if err := complete("drain", second, awstest.Continue); err == nil {
		t.Error("another hook's action was completed")
	}
	if err := complete("install", second, awstest.Continue); err != nil {
		t.Fatal(err)
	}
	expect("in service", 2, 2, map[string]policy.Instance{first: runs, second: runs})

	if err := f.Remove(t.Context(), ref("web"), []string{first}, "", ""); err != nil {
		t.Fatal(err)
	}
	expect("held while it goes", 1, 1, map[string]policy.Instance{first: leaves, second: runs})
	c.Calls()
	if err := f.Remove(t.Context(), ref("web"), []string{first}, "", ""); err != nil || c.Calls()["TerminateInstanceInAutoScalingGroup"] != 0 {
		t.Errorf("Remove() of what goes already = %v, and ended it again", err)
	}
	if err := complete("drain", first, awstest.Abandon); err != nil {
		t.Fatal(err)
	}
	expect("gone", 1, 1, map[string]policy.Instance{second: runs})

	// Abandoned while it comes, an instance goes, and the group gets another one.
	scale(2)
	abandoned := held(awstest.StatePendingWait)
	if err := complete("install", abandoned, awstest.Abandon); err != nil {
		t.Fatal(err)
	}
	third := held(awstest.StatePendingWait)
	expect("abandoned", 2, 2, map[string]policy.Instance{abandoned: leaves, second: runs, third: boots})

	// Nobody completes what other instances wait for.
	c.Edit("web", func(g *awstest.Group) {
		for _, instance := range g.Instances {
			if !instance.Turns.IsZero() {
				instance.Turns = time.Now()
			}
		}
	})
	expect("after the heartbeat", 2, 2, map[string]policy.Instance{second: runs, third: runs})
}

// TestRemoveOutside: instances on standby, or on their way out, are none to remove,
// and lower nothing.
func TestRemoveOutside(t *testing.T) {
	c, f := open(t, 4, nil)
	c.Edit("web", func(g *awstest.Group) {
		g.Suspended, g.Stop = []string{"Launch"}, time.Hour
		g.Instances[0].State, g.Instances[1].State = "Standby", awstest.StateTerminating
		g.Desired = 2
	})
	all := c.Look("web").Instances
	c.Calls()
	for _, ids := range [][]string{{all[0].ID, all[1].ID}, {all[0].ID, all[1].ID, all[2].ID}} {
		if err := f.Remove(t.Context(), ref("web"), ids, "", ""); err != nil {
			t.Fatalf("Remove(%q) = %v", ids, err)
		}
	}
	if n := c.Calls()["TerminateInstanceInAutoScalingGroup"]; n != 1 {
		t.Errorf("%d calls to terminate one instance", n)
	}
	g := c.Look("web")
	if g.Desired != 1 || g.Instances[0].State != "Standby" || g.Instances[2].State != awstest.StateTerminating || g.Instances[3].State != awstest.StateInService {
		t.Errorf("desired capacity %d of %+v, want 1, and the one on standby left alone", g.Desired, g.Instances)
	}
}

// TestRemoveMeetsRival: what somebody else takes between the read and the removal
// goes all the same, whether it is gone by then or on its way, and what hpad takes
// lowers the count that it finds.
func TestRemoveMeetsRival(t *testing.T) {
	for name, stop := range map[string]time.Duration{"gone": 0, "on its way": time.Hour} {
		t.Run(name, func(t *testing.T) {
			c, f := open(t, 5, nil)
			c.Edit("web", func(g *awstest.Group) { g.Stop = stop })
			all := idsOf(c.Look("web"))
			version := readOne(t, f, "web").Version
			c.Rival.Before(func() {
				c.Edit("web", func(g *awstest.Group) {
					for _, instance := range g.Instances {
						if instance.ID == all[0] {
							instance.State, instance.Turns = awstest.StateTerminating, time.Now().Add(stop)
						}
					}
					g.Desired = 4
				})
			}, "TerminateInstanceInAutoScalingGroup")
			if err := f.Remove(t.Context(), ref("web"), all[:2], version, ""); err != nil {
				t.Fatal(err)
			}
			if r := readOne(t, f, "web"); r.SpecReplicas != 3 || r.StatusReplicas != 3 || r.Version == version {
				t.Errorf("spec %d, status %d at version %q, want the 3 that are left", r.SpecReplicas, r.StatusReplicas, r.Version)
			}
		})
	}
}

// TestRemoveChunks: where AWS takes the first hundred and not the rest, the rest is
// left, and in the error: as part of it where AWS refused, as open where nobody knows.
func TestRemoveChunks(t *testing.T) {
	const count = removalsPerCall + 5
	for name, c := range map[string]struct {
		faults []awstest.Fault
		// desired is the capacity afterwards, reached what a PartialError says; 0 for none.
		desired int
		reached int32
		class   error
		calls   int
	}{
		"all":            {nil, 0, 0, nil, 2},
		"first refused":  {[]awstest.Fault{{Status: 403, Code: "AccessDenied"}}, count, 0, targets.ErrForbidden, 1},
		"second refused": {[]awstest.Fault{{Delay: time.Millisecond}, {Status: 403, Code: "AccessDenied"}}, 5, 5, targets.ErrForbidden, 2},
		"second lost":    {[]awstest.Fault{{Delay: time.Millisecond}, {Lost: true}}, 0, 0, targets.ErrUnknownOutcome, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, f := open(t, 0, nil)
			cloud.Edit("web", func(g *awstest.Group) { g.Min, g.Max, g.Desired = 0, count, count })
			for _, fault := range c.faults {
				fault.Action, fault.Times = "TerminateInstanceInAutoScalingGroup", 1
				cloud.Inject(fault)
			}
			err := f.Remove(t.Context(), ref("web"), idsOf(cloud.Look("web")), "", "")
			partial, partly := errors.AsType[*targets.PartialError](err)
			if !errors.Is(err, c.class) || partly != (c.reached > 0) || partly && partial.Reached != c.reached {
				t.Errorf("Remove() = %v, want %v with %d reached", err, c.class, c.reached)
			}
			if calls := cloud.Calls()["TerminateInstanceInAutoScalingGroup"]; calls != c.calls || cloud.Look("web").Desired != c.desired {
				t.Errorf("desired capacity %d after %d calls, want %d after %d", cloud.Look("web").Desired, calls, c.desired, c.calls)
			}
		})
	}
}
