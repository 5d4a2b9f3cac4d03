package awstest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Page sizes of list calls.
const (
	defaultPage = 50
	longestPage = 100
	// longestName is the maximum length of a group's name.
	longestName = 255
)

// page is the requested part of a list.
type page struct {
	most  int
	token string
}

func readPage(r *request) page {
	return page{most: r.number("MaxRecords", defaultPage), token: r.text("NextToken")}
}

// cut returns a page of a list and the token of the next page, if any.
func cut[T any](c *Cloud, p page, all []T) ([]T, string, *apiError) {
	from, _ := strconv.Atoi(p.token)
	if p.most < 1 || p.most > longestPage || from < 0 || from > len(all) {
		return nil, "", invalid("MaxRecords %d, NextToken %q", p.most, p.token)
	}
	if c.page > 0 {
		p.most = min(p.most, c.page)
	}
	rest := all[from:]
	if len(rest) <= p.most {
		return rest, "", nil
	}
	return rest[:p.most], strconv.Itoa(from + p.most), nil
}

func next(token string) []element {
	if token == "" {
		return nil
	}
	return []element{text("NextToken", token)}
}

type describeGroups struct {
	page
	names     []string
	filters   []filter
	instances bool
}

func readDescribeGroups(r *request) action {
	return &describeGroups{
		page: readPage(r), names: r.list("AutoScalingGroupNames.member."), filters: r.filters("Filters.member.", ".Values.member."),
		instances: r.truth("IncludeInstances", true),
	}
}

func (a *describeGroups) scope() (string, bool) { return "", false }

func (a *describeGroups) run(c *Cloud) (element, *apiError) {
	if len(a.filters) > 0 {
		return element{}, invalid("filters of groups are not implemented")
	}
	if len(a.names) > max(a.most, defaultPage) || len(a.names) > longestPage {
		return element{}, invalid("The number of Auto Scaling group names is more than the maximum")
	}
	for _, name := range a.names {
		if len(name) < 1 || len(name) > longestName {
			return element{}, invalid("1 validation error detected: Value '%s' at 'autoScalingGroupNames' failed to satisfy constraint: Member must have length between 1 and %d", name, longestName)
		}
	}
	names := c.names
	if len(a.names) > 0 {
		names = slices.Compact(slices.Sorted(slices.Values(a.names)))
		names = slices.DeleteFunc(names, func(name string) bool { return c.groups[name] == nil })
	}
	names, token, refused := cut(c, a.page, names)
	if refused != nil {
		return element{}, refused
	}
	now := time.Now()
	var shown []*Group
	for _, name := range names {
		g := c.groups[name]
		c.settle(g, now)
		if g.Lies > 0 {
			g.Lies--
			lie := g.clone()
			g.Lie(&lie)
			g = &lie
		}
		g = g.described(now)
		if g.Name != "" {
			shown = append(shown, g)
		}
	}
	result := node("", list("AutoScalingGroups", "member", shown, func(g *Group) []element { return a.describe(g) }))
	result.children = append(result.children, next(token)...)
	return result, nil
}

func (a *describeGroups) describe(g *Group) []element {
	described := []element{
		text("AutoScalingGroupName", g.Name), text("AutoScalingGroupARN", arn(g.Name)),
		number("MinSize", g.Min), number("MaxSize", g.Max), number("DesiredCapacity", g.Desired),
		number("DefaultCooldown", 300), moment("CreatedTime", g.Created), text("HealthCheckType", "EC2"), number("HealthCheckGracePeriod", 0),
		node("AvailabilityZones", text("member", Region+"a"), text("member", Region+"b"), text("member", Region+"c")),
		list("SuspendedProcesses", "member", g.Suspended, func(process string) []element {
			return []element{text("ProcessName", process), text("SuspensionReason", "User suspended at 2026-11-21T08:00:00Z")}
		}),
		node("TerminationPolicies", text("member", "Default")),
		truth("NewInstancesProtectedFromScaleIn", false),
	}
	if g.Status != "" {
		described = append(described, text("Status", g.Status))
	}
	if g.CapacityType != "" {
		described = append(described, text("DesiredCapacityType", g.CapacityType))
	}
	if !a.instances {
		return described
	}
	return append(described, list("Instances", "member", g.Instances, func(i *Instance) []element {
		instance := []element{
			text("InstanceId", i.ID), text("InstanceType", i.Type), text("AvailabilityZone", i.Zone), text("LifecycleState", i.State),
			text("HealthStatus", i.Health), truth("ProtectedFromScaleIn", i.Protected),
		}
		if g.Weight != "" {
			instance = append(instance, text("WeightedCapacity", g.Weight))
		}
		return instance
	}))
}

// unknownGroup returns the error for a missing group.
func unknownGroup(name string) *apiError {
	return invalid("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", name)
}

// busy returns the error for a change while a scaling activity is in progress.
func busy() *apiError {
	return &apiError{status: http.StatusBadRequest, code: "ScalingActivityInProgress", message: "Scaling activity 6d5d3d3c-imitated is in progress and blocks this action"}
}

type setDesired struct {
	name    string
	desired int
	honor   bool
}

func readSetDesired(r *request) action {
	return &setDesired{name: r.text("AutoScalingGroupName"), desired: r.number("DesiredCapacity", -1), honor: r.truth("HonorCooldown", false)}
}

func (a *setDesired) scope() (string, bool) { return a.name, true }

func (a *setDesired) run(c *Cloud) (element, *apiError) {
	g := c.groups[a.name]
	switch {
	case g == nil:
		return element{}, unknownGroup(a.name)
	case a.desired < 0:
		return element{}, invalid("1 validation error detected: Value '%d' at 'desiredCapacity' failed to satisfy constraint: Member must have value greater than or equal to 0", a.desired)
	case a.desired > g.Max:
		return element{}, invalid("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", a.desired, g.Max)
	case a.desired < g.Min:
		return element{}, invalid("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", a.desired, g.Min)
	case g.Status != "":
		return element{}, invalid("AutoScalingGroup '%s' is pending delete", g.Name)
	case g.Locked, a.honor && len(g.Activities) > 0 && time.Since(g.Activities[0].Started) < 5*time.Minute:
		return element{}, busy()
	}
	g.changing(time.Now())
	g.Desired = a.desired
	c.settle(g, time.Now())
	return element{}, nil
}

type terminate struct {
	group, id string
	ids       []string
	decrement bool
}

func readTerminate(r *request) action {
	return &terminate{
		group: r.text("AutoScalingGroupName"), id: r.text("InstanceId"), ids: r.list("InstanceIds.member."),
		decrement: r.truth("ShouldDecrementDesiredCapacity", false),
	}
}

func (a *terminate) scope() (string, bool) { return a.group, true }

func (a *terminate) run(c *Cloud) (element, *apiError) {
	ids := a.ids
	if len(ids) == 0 {
		ids = []string{a.id}
	} else if a.group == "" || len(ids) > longestPage {
		return element{}, invalid("InstanceIds takes AutoScalingGroupName and at most %d instances", longestPage)
	}
	victims := map[*Group][]*Instance{}
	for _, id := range ids {
		home := c.groupOf[id]
		if home == nil || a.group != "" && home.Name != a.group {
			return element{}, invalid("Instance Id not found - No managed instance found for instance ID: %s", id)
		}
		for _, instance := range home.Instances {
			if instance.ID == id && mainState(instance.State) == StateTerminating {
				return element{}, invalid("Instance %s is already terminating", id)
			}
			if instance.ID == id {
				victims[home] = append(victims[home], instance)
			}
		}
	}
	for g, instances := range victims {
		if g.Locked {
			return element{}, busy()
		}
		if a.decrement && g.Desired-len(instances) < g.Min {
			return element{}, invalid("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
		}
	}
	now := time.Now()
	var ended []string
	for g, instances := range victims {
		g.changing(now)
		for _, instance := range instances {
			g.terminate(instance, now)
			ended = append(ended, g.Activities[0].ID)
		}
		if a.decrement {
			g.Desired -= len(instances)
		}
		c.settle(g, now)
	}
	describe := func(id string) []element {
		return []element{
			text("ActivityId", id), text("AutoScalingGroupName", a.group), text("Cause", "a user request"), moment("StartTime", now), text("StatusCode", "InProgress"),
		}
	}
	if len(a.ids) == 0 {
		return node("", node("Activity", describe(ended[0])...)), nil
	}
	return node("", list("Activities", "member", ended, describe)), nil
}

type describeActivities struct {
	page
	group string
}

func readDescribeActivities(r *request) action {
	r.list("ActivityIds.member.")
	r.filters("Filters.member.", ".Values.member.")
	r.truth("IncludeDeletedGroups", false)
	return &describeActivities{page: readPage(r), group: r.text("AutoScalingGroupName")}
}

func (a *describeActivities) scope() (string, bool) { return a.group, false }

func (a *describeActivities) run(c *Cloud) (element, *apiError) {
	var all []element
	for _, name := range c.names {
		if a.group != "" && name != a.group {
			continue
		}
		g := c.groups[name]
		c.settle(g, time.Now())
		for _, activity := range g.Activities {
			one := node("member", text("ActivityId", activity.ID), text("AutoScalingGroupName", name), text("Description", activity.Description),
				text("Cause", activity.Cause), moment("StartTime", activity.Started), text("StatusCode", activity.Status), number("Progress", 0))
			if activity.Message != "" {
				one.children = append(one.children, text("StatusMessage", activity.Message))
			}
			all = append(all, one)
		}
	}
	if a.group != "" && c.groups[a.group] == nil {
		return element{}, unknownGroup(a.group)
	}
	shown, token, refused := cut(c, a.page, all)
	if refused != nil {
		return element{}, refused
	}
	return element{children: append([]element{{name: "Activities", children: shown}}, next(token)...)}, nil
}

type describePolicies struct {
	page
	group string
	types []string
}

func readDescribePolicies(r *request) action {
	r.list("PolicyNames.member.")
	return &describePolicies{page: readPage(r), group: r.text("AutoScalingGroupName"), types: r.list("PolicyTypes.member.")}
}

func (a *describePolicies) scope() (string, bool) { return a.group, false }

func (a *describePolicies) run(c *Cloud) (element, *apiError) {
	var all []element
	for _, name := range c.names {
		if a.group != "" && name != a.group {
			continue
		}
		for _, p := range c.groups[name].Policies {
			if len(a.types) > 0 && !slices.Contains(a.types, p.Type) {
				continue
			}
			one := node("member", text("AutoScalingGroupName", name), text("PolicyName", p.Name), text("PolicyType", p.Type), truth("Enabled", !p.Disabled))
			if p.Alarm != "" {
				one.children = append(one.children, node("Alarms", node("member", text("AlarmName", p.Alarm))))
			}
			if p.Mode != "" {
				one.children = append(one.children, node("PredictiveScalingConfiguration", text("Mode", p.Mode)))
			}
			all = append(all, one)
		}
	}
	shown, token, refused := cut(c, a.page, all)
	if refused != nil {
		return element{}, refused
	}
	return element{children: append([]element{{name: "ScalingPolicies", children: shown}}, next(token)...)}, nil
}

type describeRefreshes struct {
	page
	group string
}

func readDescribeRefreshes(r *request) action {
	r.list("InstanceRefreshIds.member.")
	return &describeRefreshes{page: readPage(r), group: r.text("AutoScalingGroupName")}
}

func (a *describeRefreshes) scope() (string, bool) { return a.group, false }

func (a *describeRefreshes) run(c *Cloud) (element, *apiError) {
	g := c.groups[a.group]
	if g == nil {
		return element{}, unknownGroup(a.group)
	}
	shown, token, refused := cut(c, a.page, g.Refreshes)
	if refused != nil {
		return element{}, refused
	}
	result := node("", list("InstanceRefreshes", "member", shown, func(r Refresh) []element {
		return []element{
			text("AutoScalingGroupName", g.Name), text("InstanceRefreshId", r.ID), text("Status", r.Status), number("PercentageComplete", r.Percent),
		}
	}))
	result.children = append(result.children, next(token)...)
	return result, nil
}
