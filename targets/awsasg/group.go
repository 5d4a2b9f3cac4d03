package awsasg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// ProcessesSuspended is the condition of a group with suspended launches or terminations.
const ProcessesSuspended policy.ConditionType = "ProcessesSuspended"

// The reasons for ProcessesSuspended.
const (
	// LaunchSuspended: the group cannot grow.
	LaunchSuspended = "LaunchSuspended"
	// TerminateSuspended: the group cannot shrink.
	TerminateSuspended = "TerminateSuspended"
	// BothSuspended: the group can neither grow nor shrink.
	BothSuspended = "LaunchAndTerminateSuspended"
)

// The processes of a group that affect scaling.
const (
	processLaunch    = "Launch"
	processTerminate = "Terminate"
	// processAlarms triggers the scaling policies.
	processAlarms = "AlarmNotification"
)

// capacityUnits is the DesiredCapacityType that counts instances.
const capacityUnits = "units"

type group struct{ types.AutoScalingGroup }

func (g *group) name() string { return aws.ToString(g.AutoScalingGroupName) }

func (g *group) desired() int32 { return aws.ToInt32(g.DesiredCapacity) }

// groupOf converts a group for package cloud. Native is nil if the group does not exist or could
// not be read.
func groupOf(name string, g *group, err error) *cloud.Group[*group] {
	switch {
	case err != nil:
		return &cloud.Group[*group]{Err: err}
	case g == nil:
		return &cloud.Group[*group]{Err: cloud.NotFound(cloud.GroupNotFound, "Auto Scaling group", name)}
	}
	return &cloud.Group[*group]{
		Native: g, Err: g.unscalable(), Size: g.desired(), Min: g.min(), Max: g.max(),
		Identity: strconv.FormatInt(aws.ToTime(g.CreatedTime).UnixMilli(), 36),
		Stable:   true, Notices: g.notices(), Listing: &cloud.Listing{Members: g.members()},
	}
}

// The labels of an instance's location in addition to its tags.
const (
	labelZone = "availability_zone"
	labelType = "instance_type"
)

func (g *group) members() []cloud.Member {
	var members []cloud.Member
	for _, i := range g.Instances {
		s := stageOf(i.LifecycleState)
		if s.outside {
			continue
		}
		members = append(members, cloud.Member{
			ID: aws.ToString(i.InstanceId), Phase: s.phase, Deleting: s.deleting, Readiness: s.readiness(aws.ToString(i.HealthStatus)),
			Protected: aws.ToBool(i.ProtectedFromScaleIn), State: fmt.Sprintf("lifecycle state %s, health %s", i.LifecycleState, aws.ToString(i.HealthStatus)),
			Labels: map[string]string{labelZone: aws.ToString(i.AvailabilityZone), labelType: aws.ToString(i.InstanceType)},
		})
	}
	slices.SortFunc(members, func(a, b cloud.Member) int { return strings.Compare(a.ID, b.ID) })
	return members
}

func (g *group) suspended(process string) bool {
	return slices.ContainsFunc(g.SuspendedProcesses, func(p types.SuspendedProcess) bool { return aws.ToString(p.ProcessName) == process })
}

// min returns the minimum count, which is the current count if terminations are suspended.
func (g *group) min() *int32 {
	lowest := aws.ToInt32(g.MinSize)
	if g.suspended(processTerminate) {
		lowest = max(lowest, g.desired())
	}
	return &lowest
}

// max returns the maximum count, which is the current count if launches are suspended.
func (g *group) max() *int32 {
	highest := aws.ToInt32(g.MaxSize)
	if g.suspended(processLaunch) {
		highest = min(highest, g.desired())
	}
	return &highest
}

// unscalable returns an error if the group's capacity is not a number of instances.
func (g *group) unscalable() error {
	if kind := aws.ToString(g.DesiredCapacityType); kind != "" && kind != capacityUnits {
		return cloud.WithReason(CapacityType, fmt.Errorf("%w: the desired capacity of group %q is measured in %s, not in instances", targets.ErrUnscalable, g.name(), kind))
	}
	weighted := func(weight *string) bool { return !slices.Contains([]string{"", "1"}, aws.ToString(weight)) }
	for _, instance := range g.Instances {
		if weighted(instance.WeightedCapacity) {
			return g.weighted("instance "+aws.ToString(instance.InstanceId), aws.ToString(instance.WeightedCapacity))
		}
	}
	if g.MixedInstancesPolicy != nil && g.MixedInstancesPolicy.LaunchTemplate != nil {
		for _, override := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
			if weighted(override.WeightedCapacity) {
				return g.weighted("type "+aws.ToString(override.InstanceType), aws.ToString(override.WeightedCapacity))
			}
		}
	}
	return nil
}

func (g *group) weighted(what, weight string) error {
	return cloud.WithReason(WeightedCapacity, fmt.Errorf("%w: the capacity of group %q is weighted (%s has weight %s), so it is not a number of instances", targets.ErrUnscalable, g.name(), what, weight))
}

// deleting returns the hold of a group that is being deleted, or nil.
func (g *group) deleting() *policy.Hold {
	if g.Status == nil {
		return nil
	}
	return &policy.Hold{Reason: GroupDeleting, Message: fmt.Sprintf("group %q: %s", g.name(), *g.Status)}
}

func (g *group) notices() []policy.Notice {
	var sentences []string
	for _, process := range []struct{ name, effect string }{
		{processLaunch, "it cannot grow"}, {processTerminate, "it cannot shrink"},
	} {
		for _, suspended := range g.SuspendedProcesses {
			if aws.ToString(suspended.ProcessName) == process.name {
				text := fmt.Sprintf("the process %s of group %q is suspended, so %s", process.name, g.name(), process.effect)
				if why := aws.ToString(suspended.SuspensionReason); why != "" {
					text += " (" + why + ")"
				}
				sentences = append(sentences, text)
			}
		}
	}
	if len(sentences) == 0 {
		return nil
	}
	reason := BothSuspended
	switch {
	case !g.suspended(processTerminate):
		reason = LaunchSuspended
	case !g.suspended(processLaunch):
		reason = TerminateSuspended
	}
	return []policy.Notice{{Condition: ProcessesSuspended, Reason: reason, Message: strings.Join(sentences, "; ")}}
}

type lifecycleStage struct {
	phase policy.Phase
	// serving reports whether the instance is in service, so that it is ready if it is healthy.
	serving  bool
	deleting bool
	// outside reports whether the instance is not part of the desired capacity: it is in the warm
	// pool or on standby.
	outside bool
}

// stageOf converts a lifecycle state. An instance in an unknown state is part of the count, but is
// not ready.
func stageOf(state types.LifecycleState) lifecycleStage {
	main, _, _ := strings.Cut(string(state), ":")
	switch main {
	case "Warmed", "Standby", "EnteringStandby":
		return lifecycleStage{outside: true}
	case "Pending":
		return lifecycleStage{phase: policy.PhasePending}
	case "InService":
		return lifecycleStage{phase: policy.PhaseRunning, serving: true}
	case "ReplacingRootVolume", "RootVolumeReplaced":
		return lifecycleStage{phase: policy.PhaseRunning}
	case "Terminating", "Terminated", "Detaching", "Detached":
		return lifecycleStage{phase: policy.PhaseRunning, deleting: true}
	}
	return lifecycleStage{phase: policy.PhaseUnknown}
}

func (s lifecycleStage) readiness(health string) policy.Readiness {
	if s.serving && strings.EqualFold(health, "Healthy") {
		return policy.ReadinessTrue
	}
	return policy.ReadinessFalse
}

const (
	// instancesPerCall is the number of instances in a facts query.
	instancesPerCall = 100
	// awsTags is the prefix of AWS's own tags.
	awsTags = "aws:"
)

// Facts implements cloud.Platform.
func (f *Fleet) Facts(ctx context.Context, s *session, unknown map[string]cloud.Unknown[*group]) (map[string]*cloud.Found, error) {
	if !aws.ToBool(f.config.DescribeInstances) {
		return nil, nil
	}
	var ids []string
	for _, of := range unknown {
		ids = slices.AppendSeq(ids, maps.Keys(of.Members))
	}
	slices.Sort(ids)
	found := map[string]*cloud.Found{}
	for chunk := range slices.Chunk(ids, instancesPerCall) {
		if err := lookUp(ctx, s, chunk, found); err != nil && (ctx.Err() == nil || len(found) == 0) {
			return found, err
		} else if err != nil {
			break // there is no time for more in this round
		}
	}
	return found, nil
}

// lookUp queries instances with a filter, because a query by id fails if one of the instances
// does not exist in EC2 yet.
func lookUp(ctx context.Context, s *session, ids []string, found map[string]*cloud.Found) error {
	pages := ec2.NewDescribeInstancesPaginator(s.instances, &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-id"), Values: ids}},
	}, func(o *ec2.DescribeInstancesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return called(ctx, err)
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				found[aws.ToString(instance.InstanceId)] = foundOf(&instance)
			}
		}
	}
	return nil
}

// foundOf returns the facts of an instance. Its name is the private DNS name, because a whole
// group usually has the same tag "Name".
func foundOf(i *ec2types.Instance) *cloud.Found {
	d := &cloud.Found{Launched: aws.ToTime(i.LaunchTime)}
	d.Facts.Name = aws.ToString(i.PrivateDnsName)
	host, _, _ := strings.Cut(d.Facts.Name, ".")
	for _, address := range []string{
		aws.ToString(i.PrivateIpAddress), d.Facts.Name, host,
		aws.ToString(i.PublicIpAddress), aws.ToString(i.PublicDnsName), aws.ToString(i.Ipv6Address),
	} {
		if address != "" && !slices.Contains(d.Facts.Addresses, address) {
			d.Facts.Addresses = append(d.Facts.Addresses, address)
		}
	}
	for _, tag := range i.Tags {
		if key := aws.ToString(tag.Key); !strings.HasPrefix(key, awsTags) {
			if d.Facts.Labels == nil {
				d.Facts.Labels = map[string]string{}
			}
			d.Facts.Labels[key] = aws.ToString(tag.Value)
		}
	}
	return d
}
