package nomad

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// What was read of jobs is stored, so that after a restart only those are read again
// that changed: as much as hpad needs of a specification, and nothing else of it, as
// its tasks' environment. What is not there, or of another cluster, is read.

// storedSpecification is a specification as it is kept in the store.
type storedSpecification struct{ *specification }

// Equal reports whether another one is of the same submission.
func (s storedSpecification) Equal(other storedSpecification) bool {
	return other.specification != nil && s.index == other.index && s.createIndex == other.createIndex && s.submitted == other.submitted && s.version == other.version
}

// MarshalJSON writes it.
func (s storedSpecification) MarshalJSON() ([]byte, error) { return json.Marshal(s.text()) }

// UnmarshalJSON reads it.
func (s *storedSpecification) UnmarshalJSON(text []byte) error {
	var read specificationText
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	s.specification = read.specification()
	return nil
}

// specificationText is what is written of it.
type specificationText struct {
	Type          string               `json:"t,omitempty"`
	Region        string               `json:"r,omitempty"`
	Index         uint64               `json:"i"`
	Created       uint64               `json:"c"`
	Submitted     int64                `json:"s"`
	Version       uint64               `json:"v,omitempty"`
	Stopped       bool                 `json:"stopped,omitempty"`
	Periodic      bool                 `json:"periodic,omitempty"`
	Parameterized bool                 `json:"parameterized,omitempty"`
	Groups        map[string]groupText `json:"g"`
}

// groupText is what is written of a group.
type groupText struct {
	Count     int32             `json:"n"`
	Min       *int32            `json:"min,omitempty"`
	Max       *int32            `json:"max,omitempty"`
	Deployed  bool              `json:"deployed,omitempty"`
	Checked   bool              `json:"checked,omitempty"`
	Misplaced string            `json:"misplaced,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// text returns what is written of a specification.
func (s *specification) text() specificationText {
	text := specificationText{
		Type: s.jobType, Region: s.region, Index: s.index, Created: s.createIndex, Submitted: s.submitted, Version: s.version,
		Stopped: s.stopped, Periodic: s.periodic, Parameterized: s.parameterized, Groups: make(map[string]groupText, len(s.groups)),
	}
	for i := range s.groups {
		g := &s.groups[i].value
		text.Groups[s.groups[i].name] = groupText{Count: g.count, Min: g.min, Max: g.max, Deployed: g.deployed, Checked: g.checked, Misplaced: g.misplaced, Labels: g.labels}
	}
	return text
}

// specification is the inverse of text.
func (s *specificationText) specification() *specification {
	spec := &specification{
		jobType: s.Type, region: s.Region, index: s.Index, createIndex: s.Created, submitted: s.Submitted, version: s.Version,
		stopped: s.Stopped, periodic: s.Periodic, parameterized: s.Parameterized, groups: make(byName[group], 0, len(s.Groups)),
	}
	for name, g := range s.Groups {
		*spec.groups.at(name) = group{count: g.Count, min: g.Min, max: g.Max, deployed: g.Deployed, checked: g.Checked, misplaced: g.Misplaced, labels: g.Labels}
	}
	return spec
}

const specificationPrefix = "specification/"

// storedSpecifications returns those that a store keeps.
func storedSpecifications(store targets.Store) *memory.Records[storedSpecification] {
	return memory.New[storedSpecification](store, specificationPrefix, func(key string) string {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key))
		return fmt.Sprintf("%03x", hash.Sum32()&0xfff)
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
	if !ok || stored.specification == nil || stored.index != job.specified || stored.createIndex != job.created || stored.submitted != job.submitted {
		return nil
	}
	s.remember(key, stored.specification, now)
	return stored.specification
}
