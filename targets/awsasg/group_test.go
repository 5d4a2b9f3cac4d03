package awsasg

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/test/aws/awstest"
)

// TestStages checks every lifecycle state that the SDK defines.
func TestStages(t *testing.T) {
	outside := lifecycleStage{outside: true}
	pending := lifecycleStage{phase: policy.PhasePending}
	serving := lifecycleStage{phase: policy.PhaseRunning, serving: true}
	replacing := lifecycleStage{phase: policy.PhaseRunning}
	going := lifecycleStage{phase: policy.PhaseRunning, deleting: true}
	want := map[types.LifecycleState]lifecycleStage{
		"Pending": pending, "Pending:Wait": pending, "Pending:Proceed": pending,
		"InService":           serving,
		"ReplacingRootVolume": replacing, "ReplacingRootVolume:Wait": replacing, "ReplacingRootVolume:Proceed": replacing, "RootVolumeReplaced": replacing,
		"Standby": outside, "EnteringStandby": outside,
		"Terminating": going, "Terminating:Wait": going, "Terminating:Proceed": going, "Terminating:Retained": going, "Terminated": going,
		"Detaching": going, "Detached": going,
		"Warmed:Pending": outside, "Warmed:Pending:Wait": outside, "Warmed:Pending:Proceed": outside, "Warmed:Pending:Retained": outside,
		"Warmed:Terminating": outside, "Warmed:Terminating:Wait": outside, "Warmed:Terminating:Proceed": outside, "Warmed:Terminating:Retained": outside,
		"Warmed:Terminated": outside, "Warmed:Stopped": outside, "Warmed:Running": outside, "Warmed:Hibernated": outside,
		"Quarantined": {}, "Invented:Tomorrow": {},
	}
	for _, state := range types.LifecycleState("").Values() {
		if _, ok := want[state]; !ok {
			t.Errorf("the table lacks the SDK's state %q", state)
		}
	}
	for state, want := range want {
		if got := stageOf(state); got != want {
			t.Errorf("stageOf(%q) = %+v, want %+v", state, got, want)
		}
	}
}

// made returns a group with the given number of instances in service.
func made(desired int32, change func(g *group)) *group {
	g := &group{types.AutoScalingGroup{
		AutoScalingGroupName: aws.String("web"), MinSize: aws.Int32(1), MaxSize: aws.Int32(9), DesiredCapacity: &desired,
		CreatedTime: aws.Time(time.UnixMilli(1_790_000_000_000)),
	}}
	for n := range desired {
		g.Instances = append(g.Instances, types.Instance{
			InstanceId: aws.String("i-" + string('a'+n)), LifecycleState: types.LifecycleStateInService, HealthStatus: aws.String("Healthy"),
		})
	}
	if change != nil {
		change(g)
	}
	return g
}

func suspend(processes ...string) func(g *group) {
	return func(g *group) {
		for _, process := range processes {
			g.SuspendedProcesses = append(g.SuspendedProcesses, types.SuspendedProcess{ProcessName: aws.String(process), SuspensionReason: aws.String("maintenance")})
		}
	}
}

func TestSuspendedProcesses(t *testing.T) {
	for _, c := range []struct {
		name     string
		group    *group
		min, max int32
		reason   string
		words    string
	}{
		{"none", made(4, nil), 1, 9, "", ""},
		{"others", made(4, suspend("AZRebalance", "ReplaceUnhealthy")), 1, 9, "", ""},
		{"launch", made(4, suspend("Launch")), 1, 4, LaunchSuspended, "cannot grow (maintenance)"},
		{"terminate", made(4, suspend("Terminate")), 4, 9, TerminateSuspended, "cannot shrink (maintenance)"},
		{"both", made(4, suspend("Terminate", "Launch")), 4, 4, BothSuspended, "cannot grow (maintenance); "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := *c.group.min(); got != c.min {
				t.Errorf("minimum = %d, want %d", got, c.min)
			}
			if got := *c.group.max(); got != c.max {
				t.Errorf("maximum = %d, want %d", got, c.max)
			}
			notices := c.group.notices()
			if c.reason == "" {
				if notices != nil {
					t.Errorf("notices = %+v, want none", notices)
				}
				return
			}
			if len(notices) != 1 || notices[0].Condition != ProcessesSuspended || notices[0].Reason != c.reason || !strings.Contains(notices[0].Message, c.words) {
				t.Errorf("notices = %+v, want %s with %q", notices, c.reason, c.words)
			}
		})
	}
}

func TestUnscalable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *group)
		reason string
		words  string
	}{
		{"plain", nil, "", ""},
		{"units", func(g *group) { g.DesiredCapacityType = aws.String("units") }, "", ""},
		{"vcpu", func(g *group) { g.DesiredCapacityType = aws.String("vcpu") }, CapacityType, "measured in vcpu"},
		{"weights of 1", func(g *group) { g.Instances[0].WeightedCapacity = aws.String("1") }, "", ""},
		{"weights", func(g *group) { g.Instances[1].WeightedCapacity = aws.String("4") }, WeightedCapacity, "instance i-b has weight 4"},
		{"weights of overrides", func(g *group) {
			g.MixedInstancesPolicy = &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{Overrides: []types.LaunchTemplateOverrides{
				{InstanceType: aws.String("m5.large")}, {InstanceType: aws.String("m5.xlarge"), WeightedCapacity: aws.String("2")},
			}}}
		}, WeightedCapacity, "type m5.xlarge has weight 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := made(3, c.change).unscalable()
			if c.reason == "" {
				if err != nil {
					t.Errorf("unscalable() = %v", err)
				}
				return
			}
			if !errors.Is(err, targets.ErrUnscalable) || targets.Reason(err) != c.reason || !strings.Contains(err.Error(), c.words) {
				t.Errorf("unscalable() = %v with reason %q, want %s with %q", err, targets.Reason(err), c.reason, c.words)
			}
		})
	}
}

// TestPoliciesOfGroups checks that all pages of groups and of policies are read, that a group is
// held only by its own policies that change its count, and that predictive policies apply even if
// alarms are suspended.
func TestPoliciesOfGroups(t *testing.T) {
	c := awstest.New(t)
	c.Page(1)
	all := map[string]struct {
		group awstest.Group
		want  string
	}{
		"none":     {awstest.Group{}, ""},
		"by-hand":  {awstest.Group{Policies: []awstest.Policy{{Name: "step", Type: typeStep}, {Name: "simple", Type: typeSimple}, {Name: "off", Type: typeTargetTracking, Disabled: true}, {Name: "days", Type: typePredictive, Mode: "ForecastOnly"}}}, ""},
		"tracking": {awstest.Group{Policies: []awstest.Policy{{Name: "step", Type: typeStep}, {Name: "cpu50", Type: typeTargetTracking}}}, `"cpu50"`},
		"deaf":     {awstest.Group{Policies: []awstest.Policy{{Name: "cpu50", Type: typeTargetTracking}}, Suspended: []string{processAlarms}}, ""},
		"forecast": {awstest.Group{Policies: []awstest.Policy{{Name: "days", Type: typePredictive, Mode: "ForecastAndScale"}}, Suspended: []string{processAlarms}}, `"days"`},
		"both":     {awstest.Group{Policies: []awstest.Policy{{Name: "cpu50", Type: typeTargetTracking}, {Name: "days", Type: typePredictive, Mode: "ForecastAndScale"}}}, `"days"`},
	}
	var refs []targets.Ref
	for name, one := range all {
		one.group.Name, one.group.Max, one.group.Desired = name, 10, 1
		c.Add(one.group)
		refs = append(refs, ref(name))
	}
	readings, err := openFleet(t, testConfig(t, c), targets.Env{}).Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range all {
		hold := readings[ref(name)].Hold
		if (hold != nil) != (one.want != "") || hold != nil && (hold.Reason != cloud.NativeAutoscaler || !strings.Contains(hold.Message, one.want)) {
			t.Errorf("group %q: hold = %+v, want %s", name, hold, one.want)
		}
	}
}

func TestFailedLaunch(t *testing.T) {
	now := time.Now()
	launch := func(status types.ScalingActivityStatusCode, message string, age time.Duration) types.Activity {
		a := types.Activity{Description: aws.String("Launching a new EC2 instance"), StatusCode: status, StartTime: aws.Time(now.Add(-age))}
		if message != "" {
			a.StatusMessage = &message
		}
		return a
	}
	end := types.Activity{Description: aws.String("Terminating EC2 instance: i-1"), StatusCode: "Failed", StatusMessage: aws.String("no"), StartTime: &now}
	// The texts are copied from AWS.
	const (
		shortage = "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested (us-east-1a). Our system will be working on provisioning additional capacity. Launching EC2 instance failed."
		spot     = "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration. Launching EC2 instance failed."
		quota    = "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit. Launching EC2 instance failed."
		spots    = "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded. Launching EC2 instance failed."
		key      = "The key pair 'shop' does not exist. Launching EC2 instance failed."
	)
	for _, c := range []struct {
		name       string
		activities []types.Activity
		reason     string
		message    string
	}{
		{"nothing", nil, "", ""},
		{"shortage", []types.Activity{end, launch("Failed", shortage, time.Minute)}, CapacityShortage, shortage},
		{"no spot instances", []types.Activity{launch("Failed", spot, time.Minute)}, CapacityShortage, spot},
		{"quota", []types.Activity{launch("Failed", quota, time.Minute)}, cloud.QuotaExceeded, quota},
		{"quota of spot instances", []types.Activity{launch("Failed", spots, time.Minute)}, cloud.QuotaExceeded, spots},
		{"another reason", []types.Activity{launch("Failed", key, time.Minute)}, cloud.LaunchFailed, key},
		{"no message", []types.Activity{launch("Cancelled", "", time.Minute)}, cloud.LaunchFailed, "Launching a new EC2 instance: Cancelled"},
		{"in progress", []types.Activity{launch("InProgress", "", time.Second), launch("Failed", shortage, time.Minute)}, CapacityShortage, shortage},
		{"waiting, with a reason", []types.Activity{launch("WaitingForSpotInstanceId", "no Spot capacity", time.Second)}, CapacityShortage, "no Spot capacity"},
		{"succeeded later", []types.Activity{launch("Successful", "", time.Second), launch("Failed", shortage, time.Minute)}, "", ""},
		{"long ago", []types.Activity{launch("Failed", shortage, 2*time.Hour)}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failedLaunch(c.activities, now)
			if c.reason == "" {
				if got != nil {
					t.Errorf("failedLaunch() = %+v, want nil", got)
				}
				return
			}
			if got == nil || got.Condition != "InsufficientCapacity" || got.Reason != c.reason || got.Message != c.message {
				t.Errorf("failedLaunch() = %+v, want %s: %s", got, c.reason, c.message)
			}
		})
	}
}
