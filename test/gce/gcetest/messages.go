package gcetest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// link returns the URL of a resource in the project.
func (s *Server) link(path string) string { return s.Endpoint + "projects/" + s.Project + "/" + path }

func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func stamp(t time.Time) *string { return new(t.Format("2006-01-02T15:04:05.000-07:00")) }

// place sets the zone or the region, depending on the scope.
func (s *Server) place(scope string, zone, region **string) {
	if strings.HasPrefix(scope, "regions/") {
		*region = new(s.link(scope))
		return
	}
	*zone = new(s.link(scope))
}

func (g *group) fingerprint() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", (g.generation+1)%100_000_000))
}

func (g *group) scalerName() string { return g.Name + "-autoscaler" }

// manager converts a group to the API type.
func (s *Server) manager(g *group) *computepb.InstanceGroupManager {
	actions := map[string]int32{}
	for _, i := range g.instances {
		actions[i.action]++
	}
	size, stable := g.size, g.stable()
	if g.lies > 0 {
		size, stable = g.lie, false
	}
	count := func(action string) *int32 { return new(actions[action]) }
	template := s.link("global/instanceTemplates/" + g.Name + "-template")
	message := &computepb.InstanceGroupManager{
		Kind: new("compute#instanceGroupManager"), Id: &g.id, Name: &g.Name, CreationTimestamp: stamp(g.created),
		BaseInstanceName: &g.Name, InstanceTemplate: &template, Fingerprint: new(g.fingerprint()),
		SelfLink:      new(s.link(g.scope() + "/instanceGroupManagers/" + g.Name)),
		InstanceGroup: new(s.link(g.scope() + "/instanceGroups/" + g.Name)),
		TargetSize:    new(int32(size)),
		Versions:      []*computepb.InstanceGroupManagerVersion{{InstanceTemplate: &template, TargetSize: &computepb.FixedOrPercent{Calculated: new(int32(size))}}},
		CurrentActions: &computepb.InstanceGroupManagerActionsSummary{
			None: count(actionNone), Creating: count(actionCreating), Deleting: count(actionDeleting), Abandoning: count("ABANDONING"),
			CreatingWithoutRetries: count("CREATING_WITHOUT_RETRIES"), Recreating: count("RECREATING"), Refreshing: count("REFRESHING"),
			Restarting: count("RESTARTING"), Resuming: count("RESUMING"), Starting: count("STARTING"), Stopping: count("STOPPING"),
			Suspending: count("SUSPENDING"), Verifying: count("VERIFYING"),
		},
		Status: &computepb.InstanceGroupManagerStatus{
			IsStable: new(stable), VersionTarget: &computepb.InstanceGroupManagerStatusVersionTarget{IsReached: new(!g.rolling)},
			Stateful: &computepb.InstanceGroupManagerStatusStateful{HasStatefulConfig: new(false)},
		},
		UpdatePolicy: &computepb.InstanceGroupManagerUpdatePolicy{
			Type: new("PROACTIVE"), MinimalAction: new("REPLACE"), ReplacementMethod: new("SUBSTITUTE"),
			MaxSurge: &computepb.FixedOrPercent{Fixed: proto.Int32(1), Calculated: proto.Int32(1)},
		},
		ListManagedInstancesResults: new("PAGELESS"),
	}
	if g.Paginated {
		message.ListManagedInstancesResults = new("PAGINATED")
	}
	if g.Watched {
		message.AutoHealingPolicies = []*computepb.InstanceGroupManagerAutoHealingPolicy{{HealthCheck: new(s.healthCheck(g)), InitialDelaySec: proto.Int32(300)}}
	}
	if g.autoscaler != "" {
		message.Status.Autoscaler = new(s.link(g.scope() + "/autoscalers/" + g.scalerName()))
	}
	s.place(g.scope(), &message.Zone, &message.Region)
	return message
}

func (s *Server) healthCheck(g *group) string {
	return s.link("global/healthChecks/" + g.Name + "-health")
}

// member converts a group's instance to the API type.
func (s *Server) member(g *group, i *instance) *computepb.ManagedInstance {
	message := &computepb.ManagedInstance{
		Name: &i.name, Instance: new(s.link("zones/" + i.zone + "/instances/" + i.name)), CurrentAction: &i.action,
		TargetStatus: new("RUNNING"),
		Version:      &computepb.ManagedInstanceVersion{InstanceTemplate: new(s.link("global/instanceTemplates/" + g.Name + "-template"))},
	}
	if i.action == actionDeleting {
		message.TargetStatus, message.Version = new("DELETED"), nil
	}
	if i.status != "" {
		message.Id, message.InstanceStatus = &i.id, &i.status
	}
	if health := g.health(i); health != "" {
		message.InstanceHealth = []*computepb.ManagedInstanceInstanceHealth{{HealthCheck: new(s.healthCheck(g)), DetailedHealthState: &health}}
	}
	if i.failed != nil {
		message.LastAttempt = &computepb.ManagedInstanceLastAttempt{Errors: &computepb.ManagedInstanceLastAttemptErrors{
			Errors: []*computepb.Errors{{Code: &i.failed.code, Message: &i.failed.message}},
		}}
	}
	return message
}

// machine converts the VM of an instance to the API type.
func (s *Server) machine(g *group, i *instance) *computepb.Instance {
	message := &computepb.Instance{
		Kind: new("compute#instance"), Id: &i.id, Name: &i.name, Status: &i.status, Zone: new(s.link("zones/" + i.zone)),
		SelfLink: new(s.link("zones/" + i.zone + "/instances/" + i.name)), MachineType: new(s.link("zones/" + i.zone + "/machineTypes/e2-small")),
		CreationTimestamp: stamp(i.created), Labels: map[string]string{"service": g.Name}, DeletionProtection: new(false),
		NetworkInterfaces: []*computepb.NetworkInterface{{
			Name: new("nic0"), NetworkIP: new(fmt.Sprintf("10.%d.%d.%d", i.id>>16&255, i.id>>8&255, i.id&255)),
			AccessConfigs: []*computepb.AccessConfig{{Type: new("ONE_TO_ONE_NAT"), NatIP: new(fmt.Sprintf("203.0.%d.%d", i.id>>8&255, i.id&255))}},
		}},
	}
	if !i.started.IsZero() {
		message.LastStartTimestamp = stamp(i.started)
	}
	return message
}

// scaler converts a group's autoscaler to the API type.
func (s *Server) scaler(g *group) *computepb.Autoscaler {
	message := &computepb.Autoscaler{
		Kind: new("compute#autoscaler"), Name: new(g.scalerName()), Status: new("ACTIVE"), CreationTimestamp: stamp(g.created),
		Target:   new(s.link(g.scope() + "/instanceGroupManagers/" + g.Name)),
		SelfLink: new(s.link(g.scope() + "/autoscalers/" + g.scalerName())),
		AutoscalingPolicy: &computepb.AutoscalingPolicy{
			Mode: &g.autoscaler, MinNumReplicas: proto.Int32(1), MaxNumReplicas: proto.Int32(10), CoolDownPeriodSec: proto.Int32(60),
			CpuUtilization: &computepb.AutoscalingPolicyCpuUtilization{UtilizationTarget: new(0.6)},
		},
	}
	s.place(g.scope(), &message.Zone, &message.Region)
	return message
}
