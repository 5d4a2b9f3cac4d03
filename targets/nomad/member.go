package nomad

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// member is an allocation of a group as it is kept between readings. There is one of each
// allocation all the time, and most stay as they are: what readings have of it is made
// anew, and where it is to be found when somebody asks.
type member struct {
	packed
	node             *nodeName
	started, changed moment
	// tasks is its place among the tasks of the members.
	tasks     int32
	phase     policy.Phase
	readiness policy.Readiness
	deleting  bool
}

// instance returns an allocation as readings have it, with its tasks.
func (m *member) instance(tasks []policy.Task) policy.Instance {
	return policy.Instance{
		ID: m.id(), Phase: m.phase, Readiness: m.readiness, Deleting: m.deleting,
		StartedAt: m.started.time(), ReadinessChanged: m.changed.time(), Tasks: tasks,
	}
}

// instances returns the allocations as readings have them.
func (m *members) instances() []policy.Instance {
	all := make([]policy.Instance, len(m.each))
	for i := range m.each {
		all[i] = m.each[i].instance(m.tasks[m.each[i].tasks])
	}
	return all
}

// At returns where an allocation is to be found.
func (m *members) At(i int) targets.Location {
	l := m.each[i].location()
	l.Node = m.each[i].node.name
	return l
}

// taskList returns the place of tasks among those of the members.
func (m *members) taskList(names *names, tasks []policy.Task) int32 {
	at := slices.IndexFunc(m.tasks, func(known []policy.Task) bool { return sameTasks(known, tasks) })
	if at < 0 {
		at = len(m.tasks)
		m.tasks = append(m.tasks, names.shareTasks(tasks)) // most groups have the same as others
	}
	return int32(at)
}

// sameTasks reports whether tasks are the same.
func sameTasks(a, b []policy.Task) bool {
	return slices.EqualFunc(a, b, func(a, b policy.Task) bool {
		return a.Name == b.Name && slices.Equal(a.Requests, b.Requests) && a.RequestHint == b.RequestHint
	})
}

// sampled returns the allocations whose use can be read.
func (m *members) sampled(at *scope, speeds *speeds) []sampledAlloc {
	var all []sampledAlloc
	for i := range m.each {
		if alloc := &m.each[i]; alloc.phase == policy.PhaseRunning && !alloc.deleting {
			instance := alloc.instance(m.tasks[alloc.tasks])
			all = append(all, sampledAlloc{Instance: &instance, node: alloc.node.id, at: at, mhz: speeds.of(alloc.node.id)})
		}
	}
	return all
}

// moment is a time in few bytes, without pointer.
type moment struct {
	seconds     int64
	nanoseconds int32
}

func momentOf(t time.Time) moment { return moment{t.Unix(), int32(t.Nanosecond())} }

func (m moment) time() time.Time { return time.Unix(m.seconds, int64(m.nanoseconds)).UTC() }

// packed is an allocation's id and its location without the node: each text after its
// length, and each list after the number of its elements.
type packed string

// pack packs allocations.
func (s *slabs) pack(allocs []*allocStub) []packed {
	var all []byte
	ends := make([]int, len(allocs))
	number := func(n int) { all = binary.AppendUvarint(all, uint64(n)) }
	text := func(s string) {
		number(len(s))
		all = append(all, s...)
	}
	for i, alloc := range allocs {
		location := alloc.location()
		text(alloc.ID)
		text(location.Name)
		number(len(location.Addresses))
		for _, address := range location.Addresses {
			text(address)
		}
		number(len(location.Ports))
		for _, port := range location.Ports {
			text(port.Label)
			number(port.Number)
		}
		ends[i] = len(all)
	}
	whole, from := packed(s.text(all)), 0
	each := make([]packed, len(allocs))
	for i, end := range ends {
		each[i], from = whole[from:end], end
	}
	return each
}

func (p packed) id() string { return p.text() }

func (p packed) location() targets.Location {
	p.text() // the id
	l := targets.Location{Name: p.text()}
	for range p.number() {
		l.Addresses = append(l.Addresses, p.text())
	}
	for range p.number() {
		l.Ports = append(l.Ports, targets.Port{Label: p.text(), Number: p.number()})
	}
	return l
}

// number takes a number off the beginning.
func (p *packed) number() int {
	n, shift := 0, 0
	for i := 0; ; i++ {
		digit := (*p)[i]
		n |= int(digit&0x7f) << shift
		if shift += 7; digit < 0x80 {
			*p = (*p)[i+1:]
			return n
		}
	}
}

// text takes a text off the beginning.
func (p *packed) text() string {
	n := p.number()
	text := (*p)[:n]
	*p = (*p)[n:]
	return string(text)
}
