package nomad

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// specification is what is needed of a job's specification. It is not modified.
type specification struct {
	jobType string
	// region is the job's, also where nobody named it; "" where it is unknown.
	region string
	// index is the JobModifyIndex, which a write is compared with. That of
	// /v1/job/:id/scale is another one.
	index       uint64
	createIndex uint64
	// submitted is when it was submitted, in nanoseconds.
	submitted int64
	// version is the job's; allocations have the one that they were last changed for.
	version       uint64
	stopped       bool
	periodic      bool
	parameterized bool
	groups        byName[group]
}

// group is what is needed of a task group's specification.
type group struct {
	count int32
	// min and max are the bounds of the scaling block, which Nomad enforces even
	// where it is not enabled; nil where there is none.
	min, max *int32
	// deployed means that changes of the count make deployments, which give health.
	deployed bool
	// labels are hpad's entries in the group's meta; nil for none.
	labels map[string]string
	// misplaced is where else the job enables an autoscaler, to no effect: "the job",
	// `task "main"`; empty for nowhere.
	misplaced string
	// checked means that Nomad itself checks services of the group.
	checked bool
}

// jobText is what is needed of a job as Nomad writes it.
type jobText struct {
	Type, Region                         string
	JobModifyIndex, CreateIndex, Version uint64
	SubmitTime                           int64
	Stop                                 bool
	Periodic, ParameterizedJob           *struct{}
	Meta                                 map[string]string
	TaskGroups                           []taskGroup
}

// taskGroup is a group of it.
type taskGroup struct {
	Name     string
	Count    int64
	Meta     map[string]string
	Update   struct{ MaxParallel int }
	Scaling  struct{ Min, Max *int64 }
	Services []service
	Tasks    []task
}

// task is a task of a group.
type task struct {
	Name     string
	Meta     map[string]string
	Services []service
}

// service is a service of a group or a task.
type service struct {
	Provider string
	Checks   []struct{}
}

// newSpecification takes from a job what is needed.
func newSpecification(job *jobText) *specification {
	s := &specification{
		jobType: job.Type, region: job.Region, index: job.JobModifyIndex, createIndex: job.CreateIndex, submitted: job.SubmitTime, version: job.Version, stopped: job.Stop,
		periodic: job.Periodic != nil, parameterized: job.ParameterizedJob != nil, groups: make(byName[group], 0, len(job.TaskGroups)),
	}
	for i := range job.TaskGroups {
		tg := &job.TaskGroups[i]
		*s.groups.at(tg.Name) = group{
			count: clamp(tg.Count), checked: checked(tg), labels: labels(tg), misplaced: misplaced(job, tg), min: bound(tg.Scaling.Min), max: bound(tg.Scaling.Max),
			deployed: s.jobType == api.JobTypeService && tg.Update.MaxParallel > 0,
		}
	}
	return s
}

// clamp makes a count one of hpad's.
func clamp(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func bound(n *int64) *int32 {
	if n == nil {
		return nil
	}
	clamped := clamp(*n)
	return &clamped
}

// checked reports whether a group has services that Nomad itself checks.
func checked(tg *taskGroup) bool {
	services := tg.Services
	for i := range tg.Tasks {
		services = append(services[:len(services):len(services)], tg.Tasks[i].Services...)
	}
	for _, service := range services {
		if service.Provider == "nomad" && len(service.Checks) > 0 {
			return true
		}
	}
	return false
}

// find returns a group that can be scaled, or why it cannot.
func (s *specification) find(t *Target) (*group, error) {
	unscalable := func(reason, format string, args ...any) error {
		return reasoned(reason, fmt.Errorf("%w: %s", targets.ErrUnscalable, fmt.Sprintf(format, args...)))
	}
	switch {
	case s.periodic:
		return nil, unscalable(PeriodicJob, "job %q is periodic: its launches are jobs of their own", t.Job)
	case s.parameterized:
		return nil, unscalable(ParameterizedJob, "job %q is parameterized: its dispatches are jobs of their own", t.Job)
	case s.jobType != api.JobTypeService && s.jobType != api.JobTypeBatch:
		reason := SystemJob
		if s.jobType == api.JobTypeSysbatch {
			reason = SysBatchJob
		}
		return nil, unscalable(reason, "job %q is of type %q; only jobs of type service and batch have counts", t.Job, s.jobType)
	}
	g := s.groups.find(t.Group)
	if g == nil {
		return nil, unscalable(GroupNotFound, "job %q has no task group %q; it has %s", t.Job, t.Group, s.groups.quoted())
	}
	return g, nil
}

// read reads the specification of a job.
func (s *session) read(ctx context.Context, key jobKey) (*specification, error) {
	var job jobText
	_, err := s.fetch(ctx, key.scope, "/v1/job/"+url.PathEscape(key.id), nil, "", func(body io.Reader) error {
		return json.UnmarshalRead(body, &job, lenientJSON)
	})
	if err != nil {
		return nil, err
	}
	return newSpecification(&job), nil
}

// specifications remembers those that were read, also across restarts. It is safe for
// concurrent use.
type specifications struct {
	// records are what is kept of them in the fleet's store; nil for nothing.
	records *memory.Records[storedSpecification]

	mu    sync.Mutex
	known map[jobKey]remembered
	swept time.Time
	// loaded is set once the store was read, or cannot be.
	loaded bool
}

type remembered struct {
	*specification
	used time.Time
	// finished is the number of finished allocations at a stamp of the job.
	finished int
	counted  stamp
}

// forgetAfter is how long a specification is kept that is not used.
const forgetAfter = time.Hour

// at returns the specification of a job if it is known at an index.
func (s *specifications) at(key jobKey, index uint64, now time.Time) *specification {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.known[key]
	if !ok || found.index != index {
		return nil
	}
	if s.records != nil && now.Sub(found.used) > forgetAfter/4 {
		s.records.Keep(key.stored(), now)
	}
	if now.Sub(found.used) > forgetAfter/4 {
		found.used = now
		s.known[key] = found
	}
	return found.specification
}

// last returns the specification of a job as it was last read; nil for none.
func (s *specifications) last(key jobKey) *specification {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key].specification
}

// finished returns the number of finished allocations of a job at a stamp. It counts them
// once for each stamp.
func (s *specifications) finished(key jobKey, at stamp, count func() (int, error)) (int, error) {
	s.mu.Lock()
	known := s.known[key]
	s.mu.Unlock()
	if known.counted == at {
		return known.finished, nil
	}
	n, err := count()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[key]; ok && err == nil {
		known.finished, known.counted = n, at
		s.known[key] = known
	}
	return n, err
}

// remember keeps a specification.
func (s *specifications) remember(key jobKey, spec *specification, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[jobKey]remembered{}
	}
	if known, ok := s.known[key]; !ok || known.index <= spec.index || known.createIndex != spec.createIndex {
		s.known[key] = remembered{specification: spec, used: now}
		if s.records != nil {
			s.records.See(key.stored(), now, func(storedSpecification, bool) storedSpecification { return storedSpecification{spec} })
		}
	}
	if now.Sub(s.swept) < forgetAfter {
		return
	}
	s.swept = now
	for key, known := range s.known {
		if now.Sub(known.used) > forgetAfter {
			delete(s.known, key)
		}
	}
}
