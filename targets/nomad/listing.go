package nomad

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"
)

// jobStub is a job in a list of jobs. As the other stubs, it has only the fields that
// are needed: the lists are long.
type jobStub struct {
	ID               string
	Namespace        string
	Type             string
	Periodic         bool
	ParameterizedJob bool
	Stop             bool
	CreateIndex      uint64
	JobModifyIndex   uint64
	JobSummary       *struct {
		Summary map[string]struct{ Queued int }
	}
}

// queued returns how many allocations of a group wait for a place.
func (j *jobStub) queued(group string) int {
	if j.JobSummary == nil {
		return 0
	}
	return j.JobSummary.Summary[group].Queued
}

// allocStub is an allocation in a list.
type allocStub struct {
	ID                 string
	Name               string
	NodeID             string
	NodeName           string
	JobID              string
	JobType            string
	JobVersion         uint64
	TaskGroup          string
	DesiredStatus      string
	ClientStatus       string
	NextAllocation     string
	AllocatedResources *struct {
		Tasks          map[string]*taskResources
		TaskLifecycles map[string]*struct {
			Hook    string
			Sidecar bool
		}
		Shared struct {
			Networks []*network
			Ports    []port
		}
	}
	TaskStates       map[string]*taskState
	DeploymentStatus *struct {
		Healthy   *bool
		Timestamp time.Time
		Canary    bool
	}
	CreateTime int64
}

// taskResources are what is reserved for a task.
type taskResources struct {
	Cpu      struct{ CpuShares int64 }
	Memory   struct{ MemoryMB int64 }
	Networks []*network
}

// network is a network of an allocation, port one of its ports; HostIP is that of a
// port beside networks.
type network struct {
	IP                          string
	ReservedPorts, DynamicPorts []port
}

type port struct {
	Label  string
	Value  int
	HostIP string
}

// taskState is where a task is in its life.
type taskState struct {
	State     string
	StartedAt time.Time
	Events    fault
}

// index returns the number in an allocation's name, "job.group[3]".
func (a *allocStub) index() int {
	open := strings.LastIndexByte(a.Name, '[')
	if open < 0 || !strings.HasSuffix(a.Name, "]") {
		return -1
	}
	n, err := strconv.Atoi(a.Name[open+1 : len(a.Name)-1])
	if err != nil {
		return -1
	}
	return n
}

// deploymentStub is a deployment in a list.
type deploymentStub struct {
	ID                string
	JobID             string
	JobCreateIndex    uint64
	Status            string
	StatusDescription string
}

// groupKey names a task group inside of a scope.
type groupKey struct{ job, group string }

// listing is what was read of the jobs in use in one scope.
type listing struct {
	jobs        map[string]*jobStub
	allocs      map[groupKey][]*allocStub
	deployments map[string][]*deploymentStub
	// failures are why allocations found no place, where that was read.
	failures map[groupKey]*placement
	observed time.Time
	err      error
}

// maxFiltered is how many jobs the lists are filtered by; for more, everything in
// the namespace is read. A filter is part of the URL, which must not grow long.
const maxFiltered = 20

// Terminal allocations are gone but for those that failed and have no successor,
// and deployments that ended hold nothing up.
const (
	livingAllocs      = `ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`
	presentAllocs     = `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`
	activeDeployments = `Status != "successful" and Status != "failed" and Status != "cancelled"`
)

// jobFilter returns a filter for jobs by the name of their field; "" when they are
// too many.
func jobFilter(field string, jobs []string) string {
	if len(jobs) > maxFiltered {
		return ""
	}
	terms := make([]string, len(jobs))
	for i, job := range jobs {
		terms[i] = field + " == " + strconv.Quote(job)
	}
	return strings.Join(terms, " or ")
}

// both joins two filters, each of which may be empty.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return "(" + a + ") and (" + b + ")"
}

// list reads the three lists of a scope.
func (s *session) list(ctx context.Context, at scope, jobs []string) *listing {
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	l := &listing{jobs: make(map[string]*jobStub, len(jobs)), allocs: make(map[groupKey][]*allocStub, len(jobs)), deployments: map[string][]*deploymentStub{}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return each(ctx, s, at, "/v1/jobs", nil, jobFilter("ID", jobs), func(job *jobStub) { l.jobs[job.ID] = job })
	})
	group.Go(func() error {
		params := map[string]string{"resources": "true"}
		return each(ctx, s, at, "/v1/allocations", params, both(presentAllocs, jobFilter("JobID", jobs)), func(alloc *allocStub) {
			if !alloc.terminal() || alloc.failed() {
				key := groupKey{job: alloc.JobID, group: alloc.TaskGroup}
				l.allocs[key] = append(l.allocs[key], alloc)
			}
		})
	})
	group.Go(func() error {
		return each(ctx, s, at, "/v1/deployments", nil, both(activeDeployments, jobFilter("JobID", jobs)), func(deployment *deploymentStub) {
			l.deployments[deployment.JobID] = append(l.deployments[deployment.JobID], deployment)
		})
	})
	if err := group.Wait(); err != nil {
		return &listing{err: err}
	}
	l.observed = time.Now()
	return l
}

// terminal reports whether an allocation will not run again.
func (a *allocStub) terminal() bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}
