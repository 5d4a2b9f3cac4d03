package systemd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// indexes is a sorted list of instance indexes.
type indexes []int32

func (i indexes) has(index int32) bool {
	_, found := slices.BinarySearch(i, index)
	return found
}

func (i indexes) with(index int32) indexes {
	at, found := slices.BinarySearch(i, index)
	if found {
		return i
	}
	return slices.Insert(slices.Clone(i), at, index)
}

func (i indexes) without(index int32) indexes {
	at, found := slices.BinarySearch(i, index)
	if !found {
		return i
	}
	return slices.Delete(slices.Clone(i), at, at+1)
}

// members contains the stored instances of a target.
type members struct {
	Format int `json:"format"`
	// Version is the number of changes to the count.
	Version uint64 `json:"version"`
	// Run is the manager's run at the last change.
	Run string `json:"run"`
	// Started contains the indexes that hpad started and keeps running. Found contains the
	// indexes that were already running or were started externally; they may also be stopped
	// externally.
	Started indexes `json:"started"`
	Found   indexes `json:"found"`
	// Leaving contains the indexes that hpad is stopping.
	Leaving indexes `json:"leaving"`
	// Surge is the number of members above the count during a replacement.
	Surge int32 `json:"surge,omitempty"`
	// Restart is the time of the last requested restart. Instances that started before are
	// replaced.
	Restart time.Time `json:"restart,omitzero"`
}

const (
	membersFormat = 1
	membersPrefix = "members/"
)

func (m members) count() int32 { return max(0, int32(len(m.Started)+len(m.Found))-m.Surge) }

func (m members) has(index int32) bool { return m.Started.has(index) || m.Found.has(index) }

func (m members) all() indexes {
	return slices.Sorted(slices.Values(slices.Concat(m.Started, m.Found)))
}

func (m members) versionText() string { return strconv.FormatUint(m.Version, 10) }

// from returns the members without the indexes below first, which a changed configuration
// ignores.
func (m members) from(first int32) members {
	for _, index := range m.all() {
		if index < first {
			m.Started, m.Found = m.Started.without(index), m.Found.without(index)
			m.Version++
		}
	}
	m.Leaving = slices.DeleteFunc(slices.Clone(m.Leaving), func(index int32) bool { return index < first })
	return m
}

// remove moves members from Started and Found to Leaving.
func (m *members) remove(victims indexes) {
	for _, index := range victims {
		m.Started, m.Found, m.Leaving = m.Started.without(index), m.Found.without(index), m.Leaving.with(index)
	}
}

// initialMembers returns the members of a target without stored members: the running instances or,
// if no instance is running, as many new instances as count returns.
func initialMembers(units map[int32]unit, run string, from int32, count func() int32) members {
	m := members{Format: membersFormat, Version: 1, Run: run}
	for index, u := range units {
		if u.state.alive() {
			m.Found = m.Found.with(index)
		}
	}
	if len(m.Found) == 0 {
		first := int(count())
		for index := from; len(m.Started) < first; index++ {
			if units[index].state == absent {
				m.Started = m.Started.with(index)
			}
		}
	}
	return m
}

// observe returns the members after units were listed. An instance that was started externally
// joins the target. An instance that hpad did not start leaves the target when it ends. In a
// new run of the manager, hpad must start all members.
func (m members) observe(units map[int32]unit, run string) members {
	if m.Run != run {
		m.Started, m.Found, m.Leaving, m.Run = m.all(), nil, nil, run
	}
	before := m.count()
	lost, gained := false, false
	for _, index := range m.Found {
		if units[index].state == absent {
			m.Found = m.Found.without(index)
			lost = true
		}
	}
	for _, index := range m.Leaving {
		if units[index].state == absent {
			m.Leaving = m.Leaving.without(index)
		}
	}
	for index, u := range units {
		if u.state.alive() && !m.has(index) && !m.Leaving.has(index) {
			m.Found = m.Found.with(index)
			gained = true
		}
	}
	if lost || gained || m.count() != before {
		m.Version++
	}
	return m
}

func (m *members) UnmarshalJSON(text []byte) error {
	type plain members
	err := json.Unmarshal(text, (*plain)(m))
	if err == nil && m.Format != membersFormat {
		err = fmt.Errorf("want format %d, not %d", membersFormat, m.Format)
	}
	return err
}
