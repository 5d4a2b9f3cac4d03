package nomad

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// What was read of jobs is stored, so that after a restart only those are read again
// that changed: as much as hpad needs of a specification, and nothing else of it, as
// its tasks' environment. What is not there, or of another cluster, is read.

// storedSpecification is a specification as it is stored.
type storedSpecification struct {
	Type          string                 `json:"t,omitempty"`
	Region        string                 `json:"r,omitempty"`
	Index         uint64                 `json:"i"`
	Created       uint64                 `json:"c"`
	Submitted     int64                  `json:"s"`
	Version       uint64                 `json:"v,omitempty"`
	Stopped       bool                   `json:"stopped,omitempty"`
	Periodic      bool                   `json:"periodic,omitempty"`
	Parameterized bool                   `json:"parameterized,omitempty"`
	Groups        map[string]storedGroup `json:"g"`
}

// storedGroup is a group of it.
type storedGroup struct {
	Count     int32             `json:"n"`
	Min       *int32            `json:"min,omitempty"`
	Max       *int32            `json:"max,omitempty"`
	Deployed  bool              `json:"deployed,omitempty"`
	Checked   bool              `json:"checked,omitempty"`
	Misplaced string            `json:"misplaced,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Equal reports whether another one is of the same submission.
func (s storedSpecification) Equal(other storedSpecification) bool {
	return s.Index == other.Index && s.Created == other.Created && s.Submitted == other.Submitted && maps.EqualFunc(s.Groups, other.Groups, func(a, b storedGroup) bool {
		return a.Count == b.Count
	})
}

// stored returns a specification as it is stored.
func (s *specification) stored() storedSpecification {
	stored := storedSpecification{
		Type: s.jobType, Region: s.region, Index: s.index, Created: s.createIndex, Submitted: s.submitted, Version: s.version,
		Stopped: s.stopped, Periodic: s.periodic, Parameterized: s.parameterized, Groups: make(map[string]storedGroup, len(s.groups)),
	}
	for name, g := range s.groups {
		stored.Groups[name] = storedGroup{Count: g.count, Min: g.min, Max: g.max, Deployed: g.deployed, Checked: g.checked, Misplaced: g.misplaced, Labels: g.labels}
	}
	return stored
}

// specification is the inverse of stored.
func (s storedSpecification) specification() *specification {
	spec := &specification{
		jobType: s.Type, region: s.Region, index: s.Index, createIndex: s.Created, submitted: s.Submitted, version: s.Version,
		stopped: s.Stopped, periodic: s.Periodic, parameterized: s.Parameterized, groups: make(map[string]*group, len(s.Groups)),
	}
	for name, g := range s.Groups {
		spec.groups[name] = &group{count: g.Count, min: g.Min, max: g.Max, deployed: g.Deployed, checked: g.Checked, misplaced: g.Misplaced, labels: g.Labels}
	}
	return spec
}

const specificationPrefix = "specification/"

// storedSpecifications returns those that a store keeps.
func storedSpecifications(store targets.Store) *memory.Records[storedSpecification] {
	return memory.New[storedSpecification](store, specificationPrefix, func(key string) string {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key))
		return fmt.Sprintf("%02x", hash.Sum32()&0xff)
	})
}

// stored returns what a job is stored by.
func (k jobKey) stored() string { return strings.Join([]string{k.region, k.namespace, k.id}, "\x00") }

// load reads what is stored, once. That it cannot be read is no error: it is then read
// from Nomad.
func (s *specifications) load(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded && s.records != nil {
		_ = s.records.Load(ctx, now)
	}
	s.loaded = true
}

// find returns the specification of a job as it is listed now; nil where it is to be
// read.
func (s *specifications) find(key jobKey, job *jobStub, now time.Time) *specification {
	if known := s.at(key, job.specified, now); known != nil {
		return known
	}
	return s.recall(key, job, now)
}

// recall returns the stored specification of a job that is listed now; nil where it
// is another one.
func (s *specifications) recall(key jobKey, job *jobStub, now time.Time) *specification {
	if s.records == nil {
		return nil
	}
	stored, ok := s.records.Recall(key.stored())
	if !ok || stored.Index != job.specified || stored.Created != job.created || stored.Submitted != job.submitted {
		return nil
	}
	spec := stored.specification()
	s.remember(key, spec, now)
	return spec
}
