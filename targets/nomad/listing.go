package nomad

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

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
		Tasks          byName[taskResources]
		TaskLifecycles byName[lifecycle]
		Shared         struct {
			Networks []*network
			Ports    []port
		}
	}
	TaskStates       byName[taskState]
	DeploymentStatus *struct {
		Healthy   *bool
		Timestamp time.Time
		Canary    bool
	}
	CreateTime, ModifyTime int64
	ModifyIndex            uint64
}

// key is the group of an allocation.
func (a *allocStub) key() groupKey { return groupKey{job: a.JobID, group: a.TaskGroup} }

// lifecycle is when a task runs that is no main one.
type lifecycle struct {
	Hook    string
	Sidecar bool
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

// maxFiltered is the number of jobs that the filter of a list may name; for more jobs,
// everything in the namespace is read. A filter is part of the URL: with longestLiteral,
// the longest one stays below 8 kB, the limit of many proxies.
const (
	maxFiltered    = 20
	longestLiteral = 300
)

// Terminal allocations are gone but for those that failed and have no successor,
// and deployments that ended hold nothing up.
const (
	livingAllocs      = `ClientStatus != "complete" and ClientStatus != "failed" and ClientStatus != "lost"`
	presentAllocs     = `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`
	activeDeployments = `Status != "successful" and Status != "failed" and Status != "cancelled"`
)

// literal returns a string literal of Nomad's filters. It reports false if the text has no
// literal, or one of more than longestLiteral bytes in a URL. Filters (go-bexpr) end a
// quoted literal at the next quote, also after a backslash, and parse a quoted literal that
// begins with a slash as a JSON pointer.
func literal(text string) (string, bool) {
	written := strconv.Quote(text)
	if written != `"`+text+`"` || strings.HasPrefix(text, "/") {
		written = "`" + text + "`"
		if !strconv.CanBackquote(text) {
			return "", false
		}
	}
	return written, len(url.QueryEscape(written)) <= longestLiteral
}

// unnamed reports whether no filter can name a job.
func unnamed(job string) bool {
	_, ok := literal(job)
	return !ok
}

// jobFilter returns a filter for jobs by the name of the field with their ID. It returns "",
// which lists all, if there are too many jobs or no filter can name one of them.
func jobFilter(field string, jobs []string) string {
	if len(jobs) > maxFiltered || slices.ContainsFunc(jobs, unnamed) {
		return ""
	}
	terms := make([]string, len(jobs))
	for i, job := range jobs {
		written, _ := literal(job)
		terms[i] = field + " == " + written
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

// terminal reports whether an allocation will not run again.
func (a *allocStub) terminal() bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}
