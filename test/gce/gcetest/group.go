package gcetest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Group is the configuration of a managed instance group.
type Group struct {
	// Exactly one of Zone and Region is set.
	Zone, Region, Name string
	// Size is the initial number of running instances.
	Size int
	// Watched adds a health check to the group.
	Watched bool
	// Paginated makes the server return lists of the group's instances in pages.
	Paginated bool
	// Boot is the duration of a start. Stop is the duration of a deletion.
	Boot, Stop time.Duration
}

func (g Group) scope() string {
	if g.Region != "" {
		return "regions/" + g.Region
	}
	return "zones/" + g.Zone
}

// Target returns the name of hpad's target.
func (g Group) Target() string { return g.scope() + "/" + g.Name }

// group is the state of a group.
type group struct {
	Group
	id         uint64
	created    time.Time
	size       int
	made       int
	generation int
	instances  []*instance
	// autoscaler is the mode of the group's autoscaler, or "".
	autoscaler string
	rolling    bool
	// stuck is the error that all creations return.
	stuck    *attemptError
	resizing *attemptError
	largest  int
	lies     int
	lie      int
	// healths maps instance names to health values that override the real ones.
	healths map[string]string
}

type attemptError struct{ code, message string }

type instance struct {
	name    string
	zone    string
	id      uint64
	action  string
	status  string
	created time.Time
	started time.Time
	stopped time.Time
	number  int
	failed  *attemptError
}

const (
	actionNone     = "NONE"
	actionCreating = "CREATING"
	actionDeleting = "DELETING"

	statusProvisioning = "PROVISIONING"
	statusStaging      = "STAGING"
	statusRunning      = "RUNNING"
	statusStopping     = "STOPPING"
)

// advance applies the state changes of a group up to now.
func (s *Server) advance(g *group, now time.Time) {
	g.instances = slices.DeleteFunc(g.instances, func(i *instance) bool {
		return i.action == actionDeleting && now.Sub(i.stopped) >= g.Stop
	})
	for _, i := range g.instances {
		if i.action == actionCreating {
			s.boot(g, i, now)
		}
	}
}

// boot advances the creation of an instance's machine.
func (s *Server) boot(g *group, i *instance, now time.Time) {
	if i.status == "" {
		if why := s.creationError(g); why != nil {
			if i.failed == nil || *i.failed != *why {
				i.failed = why
			}
			i.created = now // retry
			return
		}
		i.failed = nil
		s.machines++
		i.id = s.nextID()
		i.status = statusProvisioning
	}
	switch age := now.Sub(i.created); {
	case age >= g.Boot:
		i.status, i.action, i.started = statusRunning, actionNone, i.created.Add(g.Boot)
	case age >= g.Boot/2:
		i.status = statusStaging
	}
}

// creationError returns the reason why a group cannot create a machine, or nil.
func (s *Server) creationError(g *group) *attemptError {
	if g.stuck != nil {
		return g.stuck
	}
	running := 0
	for _, other := range s.groups {
		for _, i := range other.instances {
			if i.status != "" {
				running++
			}
		}
	}
	if s.quota > 0 && running >= s.quota {
		return &attemptError{code: "QUOTA_EXCEEDED", message: fmt.Sprintf("Instance '%s' creation failed: Quota 'INSTANCES' exceeded.  Limit: %.1f in region %s.", g.Name, float64(s.quota), region(g))}
	}
	return nil
}

func region(g *group) string {
	if g.Region != "" {
		return g.Region
	}
	return g.Zone[:max(0, strings.LastIndex(g.Zone, "-"))]
}

func (s *Server) nextID() uint64 {
	s.ids++
	return 5_000_000_000_000_000_000 + s.ids
}

// setSize changes the size of a group. Like Compute Engine, it first deletes instances that are not
// running, then the newest instances.
func (s *Server) setSize(g *group, size int, now time.Time) {
	s.advance(g, now)
	g.size = size
	var living []*instance
	for _, i := range g.instances {
		if i.action != actionDeleting {
			living = append(living, i)
		}
	}
	slices.SortStableFunc(living, func(a, b *instance) int {
		if running := func(i *instance) bool { return i.status == statusRunning }; running(a) != running(b) {
			if running(a) {
				return -1
			}
			return 1
		}
		return a.number - b.number
	})
	for len(living) > size {
		s.stop(g, living[len(living)-1], now)
		living = living[:len(living)-1]
	}
	for range size - len(living) {
		g.make(now)
	}
	s.advance(g, now)
}

func (s *Server) stop(g *group, i *instance, now time.Time) {
	i.action, i.stopped = actionDeleting, now
	if i.status == "" { // no machine exists yet
		g.instances = slices.DeleteFunc(g.instances, func(other *instance) bool { return other == i })
		return
	}
	if i.status == statusRunning {
		i.status = statusStopping
	}
}

// make adds an instance to a group.
func (g *group) make(now time.Time) {
	g.made++
	zone := g.Zone
	if g.Region != "" {
		zone = g.Region + "-" + string(rune('a'+g.made%3))
	}
	g.instances = append(g.instances, &instance{
		name: fmt.Sprintf("%s-%04d", g.Name, g.made), zone: zone, number: g.made, action: actionCreating, created: now,
	})
}

// stable reports whether a group has no pending actions.
func (g *group) stable() bool {
	return !slices.ContainsFunc(g.instances, func(i *instance) bool { return i.action != actionNone })
}

// health returns the result of the group's health check for an instance, or "".
func (g *group) health(i *instance) string {
	switch {
	case !g.Watched || i.status != statusRunning:
		return ""
	case g.healths[i.name] != "":
		return g.healths[i.name]
	}
	return "HEALTHY"
}
