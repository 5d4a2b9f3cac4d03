package systemd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// indexes are indexes of instances, in order.
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

// members are the instances that a target is to have, as the store keeps them.
type members struct {
	Format int `json:"format"`
	// Version counts the changes of the count.
	Version uint64 `json:"version"`
	// Run is the manager's run of which the rest is true.
	Run string `json:"run"`
	// Started are the indexes that hpad started and keeps running, Found those that ran
	// already or were started by somebody else, who may stop them.
	Started indexes `json:"started"`
	Found   indexes `json:"found"`
	// Leaving are those that hpad stops.
	Leaving indexes `json:"leaving"`
	// Enable are those still to be enabled and Disable those still to be disabled,
	// where the fleet does that.
	Enable  indexes `json:"enable,omitempty"`
	Disable indexes `json:"disable,omitempty"`
}

const (
	membersFormat = 1
	membersPrefix = "members/"
)

func (m members) count() int32 { return int32(len(m.Started) + len(m.Found)) }

func (m members) has(index int32) bool { return m.Started.has(index) || m.Found.has(index) }

// all returns the wanted indexes in order.
func (m members) all() indexes {
	return slices.Sorted(slices.Values(slices.Concat(m.Started, m.Found)))
}

func (m members) versionText() string { return strconv.FormatUint(m.Version, 10) }

// from returns the members without those below a first index, which a changed
// configuration leaves alone.
func (m members) from(first int32) members {
	for _, index := range m.all() {
		if index < first {
			m.Started, m.Found = m.Started.without(index), m.Found.without(index)
			m.Version++
		}
	}
	below := func(index int32) bool { return index < first }
	m.Leaving = slices.DeleteFunc(slices.Clone(m.Leaving), below)
	m.Disable = slices.DeleteFunc(slices.Clone(m.Disable), below)
	return m.settled()
}

// begin returns the members of a target of which nothing was saved: the instances that
// are there, or where there are none as many as count returns, from an index on.
func begin(units map[int32]unit, run string, from int32, count func() int32) members {
	m := members{Format: membersFormat, Version: 1, Run: run}
	for index, u := range units {
		if u.state.alive() {
			m.Found = m.Found.with(index)
		}
	}
	if len(m.Found) == 0 {
		first := int(count())
		for index := from; len(m.Started) < first; index++ {
			if free(units, index) {
				m.Started = m.Started.with(index)
			}
		}
	}
	return m
}

// free reports whether an index may be taken for a new instance.
func free(units map[int32]unit, index int32) bool {
	u := units[index]
	return u.state == absent && !u.masked()
}

// learn returns the members after the units were listed. An instance that somebody else
// started belongs to the target from then on; one that hpad did not start and that is
// gone does not any more. In a new run of the manager all have yet to be started, which
// is for hpad to do, and it may have started some that were still to be disabled.
func (m members) learn(units map[int32]unit, run string) members {
	if m.Run != run {
		m.Started, m.Found, m.Run = m.all(), nil, run
		m = m.settled()
		m.Leaving = m.Disable
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
