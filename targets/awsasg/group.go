package awsasg

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// ProcessesSuspended is the condition of a group that may not launch or terminate
// instances because somebody suspended that.
const ProcessesSuspended policy.ConditionType = "ProcessesSuspended"

// The reasons of ProcessesSuspended.
const (
	// LaunchSuspended: the group cannot grow.
	LaunchSuspended = "LaunchSuspended"
	// TerminateSuspended: the group cannot shrink.
	TerminateSuspended = "TerminateSuspended"
	// BothSuspended: it can do neither.
	BothSuspended = "LaunchAndTerminateSuspended"
)

// The processes of a group that matter here.
const (
	processLaunch    = "Launch"
	processTerminate = "Terminate"
	// processAlarms is how alarms reach the scaling policies.
	processAlarms = "AlarmNotification"
)

// capacityUnits is the one DesiredCapacityType that counts instances.
const capacityUnits = "units"

// group is a group as AWS describes it.
type group struct{ types.AutoScalingGroup }

func (g *group) name() string { return aws.ToString(g.AutoScalingGroupName) }

func (g *group) desired() int32 { return aws.ToInt32(g.DesiredCapacity) }

// version returns the version of a reading: the desired capacity, and when the group
// was created, which another one of its name was not.
func (g *group) version() string {
	return strconv.Itoa(int(g.desired())) + "@" + strconv.FormatInt(aws.ToTime(g.CreatedTime).UnixMilli(), 36)
}

func (g *group) suspended(process string) bool {
	return slices.ContainsFunc(g.SuspendedProcesses, func(p types.SuspendedProcess) bool { return aws.ToString(p.ProcessName) == process })
}

// min returns the lowest count that the group can get: the present one where nothing
// may be terminated.
func (g *group) min() *int32 {
	lowest := aws.ToInt32(g.MinSize)
	if g.suspended(processTerminate) {
		lowest = max(lowest, g.desired())
	}
	return &lowest
}

// max returns the highest count that the group can get: the present one where nothing
// may be launched.
func (g *group) max() *int32 {
	highest := aws.ToInt32(g.MaxSize)
	if g.suspended(processLaunch) {
		highest = min(highest, g.desired())
	}
	return &highest
}

// unscalable returns why the group's capacity is no count of instances; nil when it is.
func (g *group) unscalable() error {
	if kind := aws.ToString(g.DesiredCapacityType); kind != "" && kind != capacityUnits {
		return reasoned(CapacityType, fmt.Errorf("%w: the desired capacity of group %q is counted in %s, not in instances", targets.ErrUnscalable, g.name(), kind))
	}
	weighted := func(weight *string) bool { return !slices.Contains([]string{"", "1"}, aws.ToString(weight)) }
	for _, instance := range g.Instances {
		if weighted(instance.WeightedCapacity) {
			return g.weighs("instance "+aws.ToString(instance.InstanceId), aws.ToString(instance.WeightedCapacity))
		}
	}
	if g.MixedInstancesPolicy != nil && g.MixedInstancesPolicy.LaunchTemplate != nil {
		for _, override := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
			if weighted(override.WeightedCapacity) {
				return g.weighs("type "+aws.ToString(override.InstanceType), aws.ToString(override.WeightedCapacity))
			}
		}
	}
	return nil
}

func (g *group) weighs(what, weight string) error {
	return reasoned(WeightedCapacity, fmt.Errorf("%w: the capacity of group %q is weighted (%s counts %s), so it is no count of instances", targets.ErrUnscalable, g.name(), what, weight))
}

// deleting returns the hold of a group that is being deleted; nil when it is not.
func (g *group) deleting() *policy.Hold {
	if g.Status == nil {
		return nil
	}
	return &policy.Hold{Reason: GroupDeleting, Message: fmt.Sprintf("group %q: %s", g.name(), *g.Status)}
}

// notices returns which of the group's processes are suspended.
func (g *group) notices() []policy.Notice {
	var said []string
	for _, process := range []struct{ name, effect string }{
		{processLaunch, "it cannot grow"}, {processTerminate, "it cannot shrink"},
	} {
		for _, suspended := range g.SuspendedProcesses {
			if aws.ToString(suspended.ProcessName) == process.name {
				text := fmt.Sprintf("the process %s of group %q is suspended, so %s", process.name, g.name(), process.effect)
				if why := aws.ToString(suspended.SuspensionReason); why != "" {
					text += " (" + why + ")"
				}
				said = append(said, text)
			}
		}
	}
	if len(said) == 0 {
		return nil
	}
	reason := BothSuspended
	switch {
	case !g.suspended(processTerminate):
		reason = LaunchSuspended
	case !g.suspended(processLaunch):
		reason = TerminateSuspended
	}
	return []policy.Notice{{Condition: ProcessesSuspended, Reason: reason, Message: strings.Join(said, "; ")}}
}

// stage is what a lifecycle state means.
type stage struct {
	phase policy.Phase
	// serving instances are ready where they are healthy.
	serving  bool
	deleting bool
	// outside instances are none of the desired capacity: in the warm pool or on standby.
	outside bool
}

// stageOf returns what a lifecycle state means. One that is not known counts, and is not
// ready.
func stageOf(state types.LifecycleState) stage {
	main, _, _ := strings.Cut(string(state), ":")
	switch main {
	case "Warmed", "Standby", "EnteringStandby":
		return stage{outside: true}
	case "Pending":
		return stage{phase: policy.PhasePending}
	case "InService":
		return stage{phase: policy.PhaseRunning, serving: true}
	case "ReplacingRootVolume", "RootVolumeReplaced":
		return stage{phase: policy.PhaseRunning}
	case "Terminating", "Terminated", "Detaching", "Detached":
		return stage{phase: policy.PhaseRunning, deleting: true}
	}
	return stage{phase: policy.PhaseUnknown}
}

// readiness returns what the health of an instance means.
func (s stage) readiness(health string) policy.Readiness {
	if s.serving && strings.EqualFold(health, "Healthy") {
		return policy.ReadinessTrue
	}
	return policy.ReadinessFalse
}

// ordered returns the group's instances in the order of their ids.
func (g *group) ordered() []types.Instance {
	return slices.SortedFunc(slices.Values(g.Instances), func(a, b types.Instance) int {
		return cmp.Compare(aws.ToString(a.InstanceId), aws.ToString(b.InstanceId))
	})
}

// change is an accepted change of a group.
type change struct {
	desired int32
	// terminated are the ids of the instances that were taken by name.
	terminated []string
}

// apply makes changes that AWS does not show yet.
func (g *group) apply(changes []change) {
	for _, c := range changes {
		g.DesiredCapacity = &c.desired
		for n := range g.Instances {
			i := &g.Instances[n]
			if slices.Contains(c.terminated, aws.ToString(i.InstanceId)) && !stageOf(i.LifecycleState).deleting {
				i.LifecycleState = types.LifecycleStateTerminating
			}
		}
	}
}

// observed returns how many instances the group has.
func (g *group) observed() int32 {
	count := int32(0)
	for _, instance := range g.Instances {
		if s := stageOf(instance.LifecycleState); !s.outside && !s.deleting {
			count++
		}
	}
	return count
}
