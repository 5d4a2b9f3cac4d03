package awstest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Instance states that the server itself sets.
const (
	StatePending     = "Pending"
	StateInService   = "InService"
	StateTerminating = "Terminating"
)

// Group is an Auto Scaling group with its simulated behavior.
type Group struct {
	Name              string
	Min, Max, Desired int
	// Status is set while the group is being deleted.
	Status string
	// CapacityType is the DesiredCapacityType. Weight is the WeightedCapacity of the instances.
	CapacityType, Weight string
	// Suspended lists the suspended processes.
	Suspended  []string
	Policies   []Policy
	Refreshes  []Refresh
	Activities []Activity
	Instances  []*Instance
	Created    time.Time

	// Boot is the duration of a launch. Stop is the duration of a termination.
	Boot, Stop time.Duration
	// NeverBoots keeps new instances pending.
	NeverBoots bool
	// Launchable is the number of instances that AWS can start; -1 means no limit. Add
	// changes 0 to -1.
	Launchable int
	// Lag is the delay until EC2 returns a new instance.
	Lag time.Duration
	// ReadLag is the time for which Describe calls return the old state of the group after a
	// change.
	ReadLag time.Duration
	// Locked rejects writes as if a scaling activity were in progress.
	Locked bool
	// Lies is the number of further Describe calls whose response Lie modifies.
	Lies int
	// Lie modifies the copy of the group that a Describe call returns. If it clears the name, the
	// response omits the group.
	Lie func(g *Group)

	retry time.Time
	// past lists the earlier states that Describe calls return because of ReadLag, oldest first.
	past []view
}

// view is an earlier state of a group, which Describe calls return until the given time.
type view struct {
	group Group
	until time.Time
}

// Instance describes a machine of a group.
type Instance struct {
	ID, State, Health, Zone, Type, Address string
	Protected                              bool
	Launched                               time.Time
	// Turns is the time of the next state change; zero means never.
	Turns time.Time
	Tags  map[string]string
}

// Policy is a scaling policy.
type Policy struct {
	Name, Type string
	Disabled   bool
	// Alarm triggers the policy.
	Alarm string
	// Mode applies to predictive scaling.
	Mode string
}

// Refresh is an instance refresh.
type Refresh struct {
	ID, Status string
	Percent    int
}

// Activity is a scaling activity.
type Activity struct {
	ID, Description, Cause, Status, Message string
	Started                                 time.Time
}

func (g *Group) clone() Group {
	copied := *g
	copied.Instances, copied.past = nil, nil
	for _, instance := range g.Instances {
		one := *instance
		copied.Instances = append(copied.Instances, &one)
	}
	copied.Activities = slices.Clone(g.Activities)
	return copied
}

// changing must be called before a change. It saves the current state for ReadLag.
func (g *Group) changing(now time.Time) {
	if g.ReadLag > 0 {
		g.past = append(g.past, view{group: g.clone(), until: now.Add(g.ReadLag)})
	}
}

// described returns the state of the group that Describe calls return.
func (g *Group) described(now time.Time) *Group {
	g.past = slices.DeleteFunc(g.past, func(v view) bool { return g.ReadLag == 0 || !now.Before(v.until) })
	if len(g.past) > 0 {
		return &g.past[0].group
	}
	return g
}

func (g *Group) suspended(process string) bool { return slices.Contains(g.Suspended, process) }

// mainState returns a state without its lifecycle hook suffix.
func mainState(state string) string {
	main, _, _ := strings.Cut(state, ":")
	return main
}

// counted reports whether an instance counts toward the desired capacity.
func (i *Instance) counted() bool {
	switch mainState(i.State) {
	case "Warmed", "Standby", "EnteringStandby", StateTerminating, "Terminated", "Detaching", "Detached":
		return false
	}
	return true
}

func (g *Group) living() []*Instance {
	var living []*Instance
	for _, instance := range g.Instances {
		if instance.counted() {
			living = append(living, instance)
		}
	}
	return living
}

// settle applies the state changes up to now, and launches and terminates instances to reach
// the desired capacity.
func (c *Cloud) settle(g *Group, now time.Time) {
	g.Instances = slices.DeleteFunc(g.Instances, func(i *Instance) bool {
		gone := g.turn(i, now)
		if gone {
			delete(c.groupOf, i.ID)
		}
		return gone
	})
	if g.Status != "" {
		return
	}
	living := g.living()
	if !g.suspended("Launch") && !now.Before(g.retry) {
		for n := len(living); n < g.Desired; n++ {
			if g.Launchable >= 0 && n >= g.Launchable {
				g.fail("We currently do not have sufficient m5.large capacity in the Availability Zone you requested (eu-central-1a). Our system will be working on provisioning additional capacity. Launching EC2 instance failed.", now)
				break
			}
			instance := c.launch(g, now)
			g.begin(fmt.Sprintf("Launching a new EC2 instance: %s", instance.ID), now)
		}
	}
	if !g.suspended("Terminate") && len(living) > g.Desired {
		for _, victim := range victims(living)[:len(living)-g.Desired] {
			g.terminate(victim, now)
		}
	}
}

// turn changes an instance's state if the change is due, and reports whether the instance is gone.
func (g *Group) turn(i *Instance, now time.Time) bool {
	if i.Turns.IsZero() || now.Before(i.Turns) {
		return false
	}
	if i.State == StatePending {
		i.State, i.Turns = StateInService, time.Time{}
		g.ended(i.ID)
	}
	return i.State == StateTerminating
}

// victims returns the instances in the order of their termination: unhealthy instances first, then
// the oldest. Protected instances come last and are replaced by nil.
func victims(living []*Instance) []*Instance {
	ordered := slices.SortedStableFunc(slices.Values(living), func(a, b *Instance) int {
		rank := func(i *Instance) int {
			switch {
			case i.Protected:
				return 2
			case i.Health != "Healthy":
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Launched.Compare(b.Launched), cmp.Compare(a.ID, b.ID))
	})
	protected := 0
	for _, instance := range ordered {
		if instance.Protected {
			protected++
		}
	}
	// If only protected instances remain, none of them is terminated.
	kept := ordered[:len(ordered)-protected]
	return append(kept, make([]*Instance, protected)...)
}

func (c *Cloud) launch(g *Group, now time.Time) *Instance {
	c.launched++
	n := c.launched
	instance := &Instance{
		ID: fmt.Sprintf("i-%017x", uint64(n)*0x9E3779B97F4A7C15), State: StatePending, Health: "Healthy",
		Zone: Region + string(rune('a'+n%3)), Type: "m5.large", Address: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255),
		Launched: now.Truncate(time.Second), Turns: now.Add(g.Boot), Tags: map[string]string{"Name": g.Name, "aws:autoscaling:groupName": g.Name, "role": "worker"},
	}
	if g.NeverBoots {
		instance.Turns = time.Time{}
	}
	if g.Boot == 0 {
		g.turn(instance, now)
	}
	g.Instances = append(g.Instances, instance)
	c.groupOf[instance.ID] = g
	return instance
}

func (g *Group) terminate(i *Instance, now time.Time) {
	if i == nil {
		return
	}
	i.State, i.Turns = StateTerminating, now.Add(g.Stop)
	g.begin("Terminating EC2 instance: "+i.ID, now)
}

// begin records an activity that is in progress.
func (g *Group) begin(description string, now time.Time) {
	g.record(Activity{Description: description, Status: "InProgress", Started: now})
}

// fail records a failed launch and delays the next launch.
func (g *Group) fail(why string, now time.Time) {
	g.retry = now.Add(launchRetry)
	g.record(Activity{Description: "Launching a new EC2 instance.  Status Reason: " + why, Status: "Failed", Message: why, Started: now})
}

// longestRecord is the maximum number of stored activities.
const longestRecord = 200

func (g *Group) record(a Activity) {
	a.ID = fmt.Sprintf("%08x-imitated-%d", len(g.Activities), a.Started.UnixNano())
	a.Cause = fmt.Sprintf("At %s an instance was started or terminated in response to a difference between desired and actual capacity.", a.Started.UTC().Format(time.RFC3339))
	g.Activities = slices.Insert(g.Activities, 0, a)
	g.Activities = g.Activities[:min(len(g.Activities), longestRecord)]
}

// ended marks the launch of an instance as successful.
func (g *Group) ended(id string) {
	for n := range g.Activities {
		if g.Activities[n].Description == "Launching a new EC2 instance: "+id {
			g.Activities[n].Status = "Successful"
		}
	}
}
