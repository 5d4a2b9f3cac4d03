package nomad

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

// jobIndexes are the indexes of a job that grow with each change. They are compared for equality
// only, because a cluster that was restored from a backup has lower indexes.
type jobIndexes struct {
	// created, modified and specified are the job's CreateIndex, ModifyIndex and JobModifyIndex.
	// summary is the index of its allocation counts.
	created, modified, specified, summary uint64
}

type jobStub struct {
	ID, ParentID, Namespace, Status          string
	Stop, ParameterizedJob                   bool
	SubmitTime                               int64
	CreateIndex, ModifyIndex, JobModifyIndex uint64
	JobSummary                               struct {
		ModifyIndex uint64
		Summary     map[string]groupSummary
	}
}

type groupSummary struct{ Queued, Complete, Starting, Running, Unknown int32 }

func (j *jobStub) jobIndexes() jobIndexes {
	return jobIndexes{created: j.CreateIndex, modified: j.ModifyIndex, specified: j.JobModifyIndex, summary: j.JobSummary.ModifyIndex}
}

// dead reports whether the job has no running or pending allocations.
func (j *jobStub) dead() bool { return j.Status == "dead" }

// complete reports whether the job has complete allocations, possibly of an older version.
func (j *jobStub) complete() bool {
	for _, group := range j.JobSummary.Summary {
		if group.Complete > 0 {
			return true
		}
	}
	return false
}

// allocs returns the number of allocations that have not ended.
func (j *jobStub) allocs() (n int) {
	for _, group := range j.JobSummary.Summary {
		n += int(group.Starting + group.Running + group.Unknown)
	}
	return n
}

func (j *jobStub) waiting(group string) int {
	if j.Stop {
		return 0
	}
	return int(j.JobSummary.Summary[group].Queued)
}

type deploymentStub struct {
	ID, JobID, Status, StatusDescription string
	JobCreateIndex                       uint64
}

// specification is the part of a job's specification that hpad uses. It is immutable.
type specification struct {
	jobType string
	// region is the job's region; "" if it is unknown.
	region string
	// index is the JobModifyIndex, which Nomad compares with the index in a write. It differs from
	// the index in the response of /v1/job/:id/scale.
	index       uint64
	createIndex uint64
	// version is the job's version; an allocation has the version of its last update.
	version       uint64
	stopped       bool
	periodic      bool
	parameterized bool
	// groups are sorted by name.
	groups []group
}

// group is the part of a task group's specification that hpad uses.
type group struct {
	name  string
	count int32
	// min and max are the bounds in the scaling block, or nil. Nomad enforces them even if the
	// block is disabled.
	min, max *int32
	// deploys reports whether changing the count starts a deployment, which determines health.
	deploys bool
	// labels are hpad's entries in the group's meta, or nil.
	labels map[string]string
	// policy is the autoscaler of the enabled scaling block, or nil.
	policy *scaling.Autoscaler
	// checked reports whether Nomad itself checks services of the group.
	checked bool
}

type jobText struct {
	ID, Namespace, Type, Region          string
	JobModifyIndex, CreateIndex, Version uint64
	Stop, Dispatched                     bool
	Periodic, ParameterizedJob           *struct{}
	TaskGroups                           []taskGroup
}

type taskGroup struct {
	Name     string
	Count    int64
	Meta     map[string]string
	Update   struct{ MaxParallel int }
	Scaling  scalingBlock
	Services []service
	Tasks    []task
}

type scalingBlock struct {
	Min, Max *int64
	Enabled  *bool
	Policy   map[string]any
}

// of returns the policy of nomad-autoscaler in the block.
func (b *scalingBlock) of(namespace, job, group string) scaling.Policy {
	return scaling.Policy{
		Job: job, Group: group, Namespace: namespace, Min: b.Min, Max: b.Max,
		Enabled: b.Enabled == nil || *b.Enabled, Body: b.Policy,
	}
}

// policy returns the enabled policy of nomad-autoscaler in the block, or nil.
func (b *scalingBlock) policy(job *jobText, group string) *scaling.Autoscaler {
	policy := b.of(job.Namespace, job.ID, group)
	if b.Policy["check"] == nil || !policy.Enabled {
		return nil
	}
	converted := policy.Convert()
	return &converted
}

type task struct{ Services []service }

type service struct {
	Provider string
	Checks   []struct{}
}

func newSpecification(job *jobText) *specification {
	s := &specification{
		jobType: job.Type, region: job.Region, index: job.JobModifyIndex, createIndex: job.CreateIndex, version: job.Version, stopped: job.Stop,
		periodic: job.Periodic != nil, parameterized: job.ParameterizedJob != nil && !job.Dispatched, groups: make([]group, 0, len(job.TaskGroups)),
	}
	for i := range job.TaskGroups {
		tg := &job.TaskGroups[i]
		s.groups = append(s.groups, group{
			name: tg.Name, count: clamp(tg.Count), checked: checked(tg), labels: labels(tg), min: bound(tg.Scaling.Min), max: bound(tg.Scaling.Max),
			deploys: s.jobType == api.JobTypeService && tg.Update.MaxParallel > 0, policy: tg.Scaling.policy(job, tg.Name),
		})
	}
	slices.SortFunc(s.groups, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return s
}

func clamp(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func bound(n *int64) *int32 {
	if n == nil {
		return nil
	}
	clamped := clamp(*n)
	return &clamped
}

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

func (s *specification) find(t *Target) (*group, error) {
	unscalable := func(reason, format string, args ...any) error {
		return reasoned(reason, fmt.Errorf("%w: %s", targets.ErrUnscalable, fmt.Sprintf(format, args...)))
	}
	switch {
	case s.periodic:
		return nil, unscalable(periodicJob, "job %q is periodic: each launch is a separate job, which can be a target", t.Job)
	case !s.parameterized && s.jobType != api.JobTypeService && s.jobType != api.JobTypeBatch:
		reason := systemJob
		if s.jobType == api.JobTypeSysbatch {
			reason = sysBatchJob
		}
		return nil, unscalable(reason, "job %q is of type %q; only jobs of type service and batch have counts", t.Job, s.jobType)
	}
	if g := s.group(t.Group); g != nil {
		return g, nil
	}
	names := make([]string, len(s.groups))
	for i := range s.groups {
		names[i] = strconv.Quote(s.groups[i].name)
	}
	return nil, unscalable(groupNotFound, "job %q has no task group %q; its task groups are %s", t.Job, t.Group, cmp.Or(strings.Join(names, ", "), "none"))
}

// group returns a group by name. It returns nil for an unknown name, or if s is nil.
func (s *specification) group(name string) *group {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.groups, func(g group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return &s.groups[i]
}

func (s *session) read(ctx context.Context, key jobKey) (*specification, error) {
	var job jobText
	_, err := s.fetch(ctx, key.scope, list{path: "/v1/job/" + url.PathEscape(key.id)}, func(body io.Reader) error {
		return json.UnmarshalRead(body, &job, jsonOptions)
	})
	if err != nil {
		return nil, err
	}
	return newSpecification(&job), nil
}
