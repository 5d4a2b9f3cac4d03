package azuretest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Set is a virtual machine scale set with its simulated behavior. Use Server.Change to modify it.
type Set struct {
	Group, Name string
	// Flexible selects Flexible orchestration mode instead of Uniform.
	Flexible bool
	// Capacity is the desired count.
	Capacity int
	// BootDelay is the duration of a creation. HealthDelay is the time after that until a machine
	// is healthy. DeleteDelay is the duration of a deletion.
	BootDelay, HealthDelay, DeleteDelay time.Duration
	// Monitored gives the set a health extension.
	Monitored bool
	// SinglePlacement limits the set to one placement group of 100 machines.
	SinglePlacement bool
	// Unsized omits the size of machines, like a Flexible set that has no profile.
	Unsized bool
	// Rolling selects the rolling upgrade policy. Upgrading is true during an upgrade.
	Rolling, Upgrading bool
	// Busy keeps the provisioning state at Updating.
	Busy bool
	// RefusesWhileBusy rejects changes with 409 during another change.
	RefusesWhileBusy bool
	// Deleting marks the set for deletion.
	Deleting bool
	// Autoscaled adds an enabled autoscale setting of Azure Monitor.
	Autoscaled bool
	// FailAllocation makes new machines fail with this error code; "" disables the failure.
	FailAllocation string
	// Unlisted omits the ETag in lists. Silent omits it in all responses.
	Unlisted, Silent bool

	// Machines includes machines that are being deleted.
	Machines []*Machine

	etag    int
	made    int
	failure string
}

// Machine is a virtual machine in a scale set.
type Machine struct {
	// Number is the machine's instance ID in a Uniform set.
	Number  int
	Created time.Time
	// Gone is the time when the machine's deletion ends, or zero if it is not being deleted.
	Gone time.Time
	// Power and Health override the machine's power state and health.
	Power, Health string
	// Failure is the error code of the failed provisioning, or "".
	Failure   string
	Protected bool
	// Standby puts the machine into the standby pool. Outdated gives it an older model.
	Standby, Outdated bool

	boot, health time.Time
}

// ID returns the name of a machine.
func (s *Set) ID(m *Machine) string {
	if s.Flexible {
		return fmt.Sprintf("%s_%08x", s.Name, 0xa1b2c300+m.Number)
	}
	return s.Name + "_" + strconv.Itoa(m.Number)
}

// handle returns the ID of a machine as used in a deletion request.
func (s *Set) handle(m *Machine) string {
	if s.Flexible {
		return s.ID(m)
	}
	return strconv.Itoa(m.Number)
}

// Address returns the machine's private address.
func (m *Machine) Address() string { return fmt.Sprintf("10.1.%d.%d", m.Number/250, m.Number%250+1) }

// Host returns the machine's host name.
func (s *Set) Host(m *Machine) string {
	return s.Name + strings.ToUpper(fmt.Sprintf("%06s", strconv.FormatInt(int64(m.Number), 36)))
}

// Living returns the machines that are neither being deleted nor in the standby pool.
func (s *Set) Living() []*Machine {
	var living []*Machine
	for _, m := range s.Machines {
		if m.Gone.IsZero() && !m.Standby {
			living = append(living, m)
		}
	}
	return living
}

// state returns a machine's provisioning state.
func (m *Machine) state(now time.Time) string {
	switch {
	case !m.Gone.IsZero():
		return "Deleting"
	case m.Failure != "":
		return "Failed"
	case now.Before(m.boot):
		return "Creating"
	}
	return "Succeeded"
}

// power returns a machine's power state, or "".
func (m *Machine) power(now time.Time) string {
	switch {
	case m.Power != "":
		return m.Power
	case m.state(now) == "Creating", m.state(now) == "Failed":
		return ""
	}
	return "running"
}

// settle applies the state changes up to now, and creates and deletes machines to reach the
// capacity.
func (s *Set) settle(now time.Time) {
	kept := s.Machines[:0:0]
	for _, m := range s.Machines {
		if m.Gone.IsZero() || now.Before(m.Gone) {
			kept = append(kept, m)
		}
	}
	s.Machines = kept
	living := s.Living()
	for count := len(living); count < s.Capacity; count++ {
		m := &Machine{Number: s.made, Created: now, boot: now.Add(s.BootDelay), Failure: s.FailAllocation}
		m.health = m.boot.Add(s.HealthDelay)
		s.made++
		s.Machines = append(s.Machines, m)
	}
	if s.FailAllocation != "" && len(living) < s.Capacity {
		s.failure = s.FailAllocation
	}
	// Failed machines are deleted first, then the newest. Protected machines are never deleted.
	for count := len(living); count > s.Capacity; count-- {
		victim := s.victim()
		if victim == nil {
			break
		}
		victim.Gone = now.Add(s.DeleteDelay)
	}
	if s.DeleteDelay == 0 {
		kept = s.Machines[:0:0]
		for _, m := range s.Machines {
			if m.Gone.IsZero() {
				kept = append(kept, m)
			}
		}
		s.Machines = kept
	}
}

func (s *Set) victim() *Machine {
	var chosen *Machine
	for _, m := range s.Living() {
		if m.Protected {
			continue
		}
		if chosen == nil || m.Failure != "" || chosen.Failure == "" {
			chosen = m
		}
	}
	return chosen
}

// state returns the set's provisioning state.
func (s *Set) state(now time.Time) string {
	switch {
	case s.Deleting:
		return "Deleting"
	case s.Busy || s.Upgrading:
		return "Updating"
	}
	for _, m := range s.Machines {
		if state := m.state(now); state == "Creating" || state == "Deleting" {
			return "Updating"
		}
	}
	if s.failure != "" {
		return "Failed"
	}
	return "Succeeded"
}
