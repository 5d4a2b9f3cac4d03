package cloud

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// Record is the stored state of an instance.
type Record struct {
	FirstSeen time.Time `json:"f"`
	// Launched is the platform's start time; zero if unknown.
	Launched time.Time `json:"l,omitzero"`
	// Readiness is the health, and Changed the time of its last change.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	Facts     *Facts           `json:"i,omitempty"`
}

// Facts contains the immutable properties of a running instance. It is shared and must not be
// modified.
type Facts struct {
	// Name is empty if it equals the id.
	Name string `json:"n,omitempty"`
	// Addresses are host names and IP addresses.
	Addresses []string `json:"a,omitempty"`
	// Labels are the platform's labels of the instance.
	Labels map[string]string `json:"t,omitempty"`
}

// Started returns the platform's start time, or the time of the first observation.
func (r Record) Started() time.Time {
	if r.Launched.IsZero() {
		return r.FirstSeen
	}
	return r.Launched
}

// Equal reports whether two records are equal.
func (r Record) Equal(other Record) bool {
	return r.FirstSeen.Equal(other.FirstSeen) && r.Launched.Equal(other.Launched) &&
		r.Readiness == other.Readiness && r.Changed.Equal(other.Changed) && r.Facts == other.Facts
}

const (
	shardPrefix = "instances/"
	shards      = 256
)

// Memory stores the records of all instances of a fleet. It is safe for concurrent use.
type Memory struct{ *memory.Records[Record] }

// NewMemory returns a Memory that saves its records in the given store. If the store is nil, the
// records are not saved.
func NewMemory(store targets.Store) *Memory {
	return &Memory{memory.New[Record](store, shardPrefix, shardOf)}
}

func shardOf(id string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id)) // never fails
	return fmt.Sprintf("%02x", hash.Sum32()%shards)
}

// learn sets the facts of a known instance, and its start time unless the argument is zero.
func (m *Memory) learn(id string, launched time.Time, facts *Facts) {
	m.Change(id, func(record *Record) {
		if !launched.IsZero() {
			record.Launched = launched
		}
		record.Facts = facts
	})
}

// Update records an observation of an instance, and returns its record.
func (m *Memory) Update(s *Member, now time.Time) Record {
	return m.Observe(s.key(), now, func(before Record, known bool) Record {
		next := before
		if !known {
			next.FirstSeen = now
		}
		if !s.Launched.IsZero() {
			next.Launched = s.Launched
		}
		restarted := !before.Launched.IsZero() && next.Launched.After(before.Launched)
		next.Readiness = s.Readiness
		if s.Readiness == policy.ReadinessNotKnown && before.Readiness == policy.ReadinessTrue && !restarted {
			next.Readiness = policy.ReadinessTrue
		}
		next.Changed = memory.ReadinessChange(restarted || next.Readiness != before.Readiness, before.Changed, s.Since, now)
		return next
	})
}
