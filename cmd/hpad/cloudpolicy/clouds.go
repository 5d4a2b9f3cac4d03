package cloudpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
)

// awsPolicies is the output of "aws autoscaling describe-policies". If it also contains the output of
// describe-auto-scaling-groups, the bounds are known.
type awsPolicies struct {
	ScalingPolicies   []awsPolicy
	AutoScalingGroups []struct {
		AutoScalingGroupName string
		MinSize, MaxSize     int32
	}
}

type awsPolicy struct {
	AutoScalingGroupName, PolicyName, PolicyType string
	Enabled                                      *bool
	AdjustmentType                               string
	ScalingAdjustment                            *int32
	StepAdjustments                              []struct{ ScalingAdjustment int32 }
	TargetTrackingConfiguration                  *struct {
		TargetValue                   float64
		DisableScaleIn                bool
		PredefinedMetricSpecification *struct{ PredefinedMetricType, ResourceLabel string }
		CustomizedMetricSpecification *struct{ MetricName, Namespace string }
	}
}

// awsMetrics maps predefined metrics to the query of cloudwatch_exporter.
var awsMetrics = map[string]string{
	"ASGAverageNetworkIn":      `sum(aws_ec2_network_in_average{auto_scaling_group_name="%s"})`,
	"ASGAverageNetworkOut":     `sum(aws_ec2_network_out_average{auto_scaling_group_name="%s"})`,
	"ALBRequestCountPerTarget": `sum(aws_applicationelb_request_count_sum)`,
}

func (p *awsPolicies) groups(file string) (policies []origin.Policy) {
	groups := map[string]*group{}
	for i := range p.ScalingPolicies {
		policy := &p.ScalingPolicies[i]
		name := policy.AutoScalingGroupName
		g := groups[name]
		if g == nil {
			g = &group{file: file, kind: "awsasg", name: name, keys: []draft.Key{{Name: "group", Value: name}}}
			groups[name] = g
			p.bounds(g)
			policies = append(policies, g)
		}
		policy.add(g)
	}
	return policies
}

func (p *awsPolicies) bounds(g *group) {
	for _, found := range p.AutoScalingGroups {
		if found.AutoScalingGroupName == g.name {
			g.draft.MinReplicas, g.draft.MaxReplicas = &found.MinSize, found.MaxSize
			return
		}
	}
	g.decide("min_replicas and max_replicas: \"aws autoscaling describe-auto-scaling-groups\" prints MinSize and MaxSize of the group.")
}

func (p *awsPolicy) add(g *group) {
	tracking := p.TargetTrackingConfiguration
	switch {
	case p.Enabled != nil && !*p.Enabled:
		g.omit("policy %q, which is disabled", p.PolicyName)
		return
	case tracking == nil:
		changes := make([]string, len(p.StepAdjustments))
		for i, step := range p.StepAdjustments {
			changes[i] = strconv.Itoa(int(step.ScalingAdjustment))
		}
		if p.ScalingAdjustment != nil {
			changes = append(changes, strconv.Itoa(int(*p.ScalingAdjustment)))
		}
		g.steps(p.PolicyName, "("+cmp.Or(p.AdjustmentType, p.PolicyType)+") when its alarm is active", cmp.Or(strings.Join(changes, ", "), "a forecast"))
		return
	case tracking.DisableScaleIn:
		g.draft.Mode, g.draft.ModeNote = "up-only", fmt.Sprintf("Policy %q never removes instances.", p.PolicyName)
	}
	predefined, custom := tracking.PredefinedMetricSpecification, tracking.CustomizedMetricSpecification
	switch {
	case predefined != nil && predefined.PredefinedMetricType == "ASGAverageCPUUtilization":
		g.cpu(tracking.TargetValue)
	case predefined != nil:
		query := awsMetrics[predefined.PredefinedMetricType]
		if strings.Contains(query, "%s") {
			query = fmt.Sprintf(query, g.name)
		}
		g.external(predefined.PredefinedMetricType, tracking.TargetValue, "cloudwatch_exporter", query)
	case custom != nil:
		g.external(custom.MetricName, tracking.TargetValue, fmt.Sprintf("cloudwatch_exporter with the metric %s of %s", custom.MetricName, custom.Namespace), "")
	default:
		g.decide("policy %q: its metric is an expression of CloudWatch; write a query for the same value with average_value = %q.", p.PolicyName, number(tracking.TargetValue))
	}
}

// gceAutoscaler is an element of "gcloud compute autoscalers list --format json".
type gceAutoscaler struct {
	Target            string     `json:"target"`
	AutoscalingPolicy *gcePolicy `json:"autoscalingPolicy"`
}

type gcePolicy struct {
	MinNumReplicas, MaxNumReplicas int32
	Mode                           string
	CPUUtilization                 *struct{ UtilizationTarget float64 }
	LoadBalancingUtilization       *struct{ UtilizationTarget float64 }
	CustomMetricUtilizations       []struct {
		Metric, UtilizationTargetType string
		UtilizationTarget             float64
	}
	ScaleInControl *struct {
		TimeWindowSec       int
		MaxScaledInReplicas struct{ Fixed, Percent int32 }
	}
	ScalingSchedules map[string]struct {
		Schedule, TimeZone  string
		DurationSec         int
		MinRequiredReplicas int32
		Disabled            bool
	}
}

// maxPeriod is the largest period of a scaling policy.
const maxPeriod = 30 * time.Minute

func (s *gceAutoscaler) group(file string) origin.Policy {
	p, name := s.AutoscalingPolicy, path.Base(s.Target)
	g := &group{file: file, kind: "gcemig", name: name, keys: []draft.Key{{Name: "group", Value: name}}}
	a := &g.draft
	a.MinReplicas, a.MaxReplicas = &p.MinNumReplicas, p.MaxNumReplicas
	switch p.Mode {
	case "OFF":
		a.Mode, a.ModeNote = "off", "The autoscaler is off in Google Cloud. To activate it, remove mode."
	case "ONLY_UP", "ONLY_SCALE_OUT":
		a.Mode, a.ModeNote = "up-only", "The autoscaler only adds instances in Google Cloud."
	}
	if p.CPUUtilization != nil {
		g.cpu(100 * p.CPUUtilization.UtilizationTarget)
	}
	if p.LoadBalancingUtilization != nil {
		g.decide("the load balancer: its target is %v of the capacity of its backend. Write a query for the requests, with average_value as the requests per instance.", p.LoadBalancingUtilization.UtilizationTarget)
	}
	for _, custom := range p.CustomMetricUtilizations {
		if custom.UtilizationTargetType != "" && custom.UtilizationTargetType != "GAUGE" {
			g.decide("the metric %s: its target is a rate (%s); the query must return the rate in the same unit.", custom.Metric, custom.UtilizationTargetType)
		}
		g.external(path.Base(custom.Metric), custom.UtilizationTarget, "stackdriver_exporter with the metric "+custom.Metric, "")
	}
	if control := p.ScaleInControl; control != nil {
		window := time.Duration(control.TimeWindowSec) * time.Second
		limit := draft.Policy{Type: "Instances", Value: control.MaxScaledInReplicas.Fixed, Period: min(window, maxPeriod)}
		if limit.Value == 0 {
			limit.Type, limit.Value = "Percent", control.MaxScaledInReplicas.Percent
		}
		a.Behavior = &draft.Behavior{ScaleDown: &draft.Rules{Policies: []draft.Policy{limit}}}
	}
	for _, key := range slices.Sorted(maps.Keys(p.ScalingSchedules)) {
		given := p.ScalingSchedules[key]
		if given.Disabled {
			g.omit("schedule %q, which is disabled", key)
			continue
		}
		a.Schedules = append(a.Schedules, draft.Schedule{
			Name: key, Zone: cmp.Or(given.TimeZone, "UTC"), Cron: given.Schedule,
			Duration: time.Duration(given.DurationSec) * time.Second, MinReplicas: &given.MinRequiredReplicas,
		})
	}
	return g
}

// azureSetting is an element of "az monitor autoscale list".
type azureSetting struct {
	TargetResourceURI string `json:"targetResourceUri"`
	Enabled           *bool  `json:"enabled"`
	Profiles          []struct {
		Name     string
		Capacity struct{ Minimum, Maximum string }
		Rules    []struct {
			MetricTrigger struct {
				MetricName, Operator string
				Threshold            float64
			}
			ScaleAction struct{ Direction, Type, Value string }
		}
		Recurrence, FixedDate any
	}
}

func (s *azureSetting) group(file string) origin.Policy {
	parts := strings.Split(s.TargetResourceURI, "/")
	resourceGroup := ""
	for i := range parts[:len(parts)-1] {
		if strings.EqualFold(parts[i], "resourceGroups") {
			resourceGroup = parts[i+1]
		}
	}
	name := parts[len(parts)-1]
	g := &group{file: file, kind: "azurevmss", name: name, keys: []draft.Key{{Name: "resource_group", Value: resourceGroup}, {Name: "scale_set", Value: name}}}
	if s.Enabled != nil && !*s.Enabled {
		g.draft.Mode, g.draft.ModeNote = "off", "Disabled in Azure. To activate the autoscaler, remove mode."
	}
	for i, profile := range s.Profiles {
		minimum, _ := strconv.ParseInt(profile.Capacity.Minimum, 10, 32) // 0 is not valid in hpad check
		maximum, _ := strconv.ParseInt(profile.Capacity.Maximum, 10, 32)
		if i > 0 || profile.Recurrence != nil || profile.FixedDate != nil {
			g.decide("profile %q, from %d to %d: write it as a schedule with min_replicas and max_replicas.", profile.Name, minimum, maximum)
			continue
		}
		g.draft.MinReplicas, g.draft.MaxReplicas = new(int32(minimum)), int32(maximum)
		for _, rule := range profile.Rules {
			trigger, action := rule.MetricTrigger, rule.ScaleAction
			g.steps(trigger.MetricName, fmt.Sprintf("while the value is %s %v", trigger.Operator, trigger.Threshold), fmt.Sprintf("%s (%s, %s)", action.Value, action.Type, strings.ToLower(action.Direction)))
			if trigger.MetricName == "Percentage CPU" && action.Direction == "Increase" && len(g.draft.Metrics) == 0 {
				g.cpu(trigger.Threshold)
			}
		}
	}
	return g
}
