package gcetest

import (
	"testing"
	"time"
)

// Add adds a group. Its instances have been running for an hour.
func (s *Server) Add(wanted Group) { s.locked(func() { s.add(wanted) }) }

func (s *Server) add(wanted Group) *group {
	created := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	g := &group{Group: wanted, id: s.nextID(), created: created, size: wanted.Size, healths: map[string]string{}}
	for range wanted.Size {
		g.make(created)
	}
	for _, i := range g.instances {
		s.machines++
		i.id = s.nextID()
		i.status, i.action, i.started = statusRunning, actionNone, created
	}
	s.groups[wanted.Target()] = g
	return g
}

func (s *Server) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// with locks the server and changes a group.
func (s *Server) with(t testing.TB, target string, change func(g *group)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[target]
	if g == nil {
		t.Fatalf("no group %q", target)
	}
	s.advance(g, time.Now())
	change(g)
}

// Resize changes a group's size as an external writer would.
func (s *Server) Resize(t testing.TB, target string, size int) {
	t.Helper()
	s.with(t, target, func(g *group) { s.setSize(g, size, time.Now()) })
}

// Delete removes a group and its instances.
func (s *Server) Delete(target string) { s.locked(func() { delete(s.groups, target) }) }

// Size returns a group's size.
func (s *Server) Size(t testing.TB, target string) int {
	t.Helper()
	size := 0
	s.with(t, target, func(g *group) { size = g.size })
	return size
}

// Running returns the names of a group's running instances.
func (s *Server) Running(t testing.TB, target string) []string {
	t.Helper()
	var names []string
	s.with(t, target, func(g *group) {
		for _, i := range g.instances {
			if i.status == statusRunning && i.action == actionNone {
				names = append(names, i.name)
			}
		}
	})
	return names
}

// Machines returns the number of machines created so far.
func (s *Server) Machines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines
}

// SetHealth overrides the health of the instance with the given ID, for example with "UNHEALTHY";
// "" restores the real health.
func (s *Server) SetHealth(t testing.TB, target, id, state string) {
	t.Helper()
	s.with(t, target, func(g *group) {
		for _, i := range g.instances {
			if decimal(i.id) == id {
				g.healths[i.name] = state
			}
		}
	})
}

// SetHealthOf is like SetHealth, but takes the instance's name.
func (s *Server) SetHealthOf(t testing.TB, target, name, state string) {
	t.Helper()
	s.with(t, target, func(g *group) { g.healths[name] = state })
}

// Age sets the time since the start of the instance with the given name.
func (s *Server) Age(t testing.TB, target, name string, age time.Duration) {
	t.Helper()
	s.with(t, target, func(g *group) {
		for _, i := range g.instances {
			if i.name == name {
				i.created = time.Now().Add(-age).Truncate(time.Millisecond)
				i.started = i.created
			}
		}
	})
}

// SetTimes sets the durations of starts and deletions.
func (s *Server) SetTimes(t testing.TB, target string, boot, stop time.Duration) {
	t.Helper()
	s.with(t, target, func(g *group) { g.Boot, g.Stop = boot, stop })
}

// SetAutoscaler adds an autoscaler with a mode such as "ON"; "" removes the autoscaler.
func (s *Server) SetAutoscaler(t testing.TB, target, mode string) {
	t.Helper()
	s.with(t, target, func(g *group) { g.autoscaler = mode })
}

// SetRolling starts or ends a proactive update of a group.
func (s *Server) SetRolling(t testing.TB, target string, on bool) {
	t.Helper()
	s.with(t, target, func(g *group) { g.rolling = on; g.generation++ })
}

// SetStockout makes the creation of machines fail because of a lack of capacity.
func (s *Server) SetStockout(t testing.TB, target string, on bool) {
	t.Helper()
	s.with(t, target, func(g *group) {
		g.stuck = nil
		if on {
			g.stuck = &attemptError{code: "ZONE_RESOURCE_POOL_EXHAUSTED", message: "The zone '" + g.Zone + "' does not have enough resources available to fulfill the request.  Try a different zone, or try again later."}
		}
	})
}

// SetLargest limits the size of a group; 0 means no limit.
func (s *Server) SetLargest(t testing.TB, target string, largest int) {
	t.Helper()
	s.with(t, target, func(g *group) { g.largest = largest })
}

// FailResizes makes changes of a group's size fail after they have been accepted. An empty code
// stops this.
func (s *Server) FailResizes(t testing.TB, target, code, message string) {
	t.Helper()
	s.with(t, target, func(g *group) {
		g.resizing = nil
		if code != "" {
			g.resizing = &attemptError{code: code, message: message}
		}
	})
}

// Force sets the action and the status of the instance with the given name.
func (s *Server) Force(t testing.TB, target, name, action, status string) {
	t.Helper()
	s.with(t, target, func(g *group) {
		for _, i := range g.instances {
			if i.name == name {
				i.action, i.status = action, status
			}
		}
	})
}

// Lie makes the given number of reads of a group return a false size, and at most size instances.
func (s *Server) Lie(t testing.TB, target string, size, reads int) {
	t.Helper()
	s.with(t, target, func(g *group) { g.lie, g.lies = size, reads })
}

// SetQuota limits the number of machines in the project; 0 means no limit.
func (s *Server) SetQuota(machines int) { s.locked(func() { s.quota = machines }) }

// SetUnreachable makes a zone or region such as "zones/z" unreachable for list calls.
func (s *Server) SetUnreachable(scope string, on bool) {
	s.locked(func() { s.unreachable[scope] = on })
}
