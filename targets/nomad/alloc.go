package nomad

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

type allocStub struct {
	ID, Name, NodeID, NodeName                  string
	JobID, JobType, TaskGroup                   string
	DesiredStatus, ClientStatus, NextAllocation string
	JobVersion                                  uint64
	AllocatedResources                          *allocatedResources
	TaskStates                                  map[string]*taskState
	DeploymentStatus                            *deploymentStatus
	CreateTime, ModifyTime                      int64
}

type allocatedResources struct {
	Tasks          map[string]*taskResources
	TaskLifecycles map[string]*lifecycle
	Shared         struct {
		Networks []*network
		Ports    []port
	}
}

type lifecycle struct {
	Hook    string
	Sidecar bool
}

type taskResources struct {
	Cpu      struct{ CpuShares int64 }
	Memory   struct{ MemoryMB int64 }
	Networks []*network
}

type network struct {
	IP                          string
	ReservedPorts, DynamicPorts []port
}

// port is a port of an allocation. HostIP is empty for a port of a network.
type port struct {
	Label  string
	Value  int
	HostIP string
}

type taskState struct {
	StartedAt time.Time
	Events    fault
}

type deploymentStatus struct {
	Healthy   *bool
	Timestamp time.Time
	Canary    bool
}

type groupKey struct{ job, group string }

func (a *allocStub) key() groupKey { return groupKey{job: a.JobID, group: a.TaskGroup} }

// reserved is the part of a node that an allocation reserves. It stays the same while the
// allocation has the same version of the job.
type reserved struct {
	tasks []reservedTask
	// helpers are the tasks with a lifecycle hook, such as prestart.
	helpers   []string
	addresses []string
	ports     targets.Ports
}

// reservedTask is a task that runs as long as the allocation: a main task or a sidecar.
// A resource of 0 is not stated.
type reservedTask struct {
	name          string
	mhz, memoryMB int64
}

// intern returns one copy of a text that many allocations have in common.
func intern(text string) string { return unique.Make(text).Value() }

func reservedBy(resources *allocatedResources) *reserved {
	r := new(reserved)
	if resources == nil {
		return r
	}
	add := func(address, label string, port int) {
		if address != "" && !slices.Contains(r.addresses, address) {
			r.addresses = append(r.addresses, intern(address))
		}
		if port > 0 {
			r.ports.Set(intern(label), port)
		}
	}
	for name, cycle := range resources.TaskLifecycles {
		if cycle != nil && cycle.Hook != "" {
			r.helpers = append(r.helpers, intern(name))
		}
	}
	networks := slices.Clone(resources.Shared.Networks)
	for _, port := range resources.Shared.Ports {
		add(port.HostIP, port.Label, port.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(resources.Tasks)) {
		task := resources.Tasks[name]
		if task == nil {
			continue
		}
		networks = append(networks, task.Networks...)
		if r.main(name) || resources.TaskLifecycles[name].Sidecar {
			r.tasks = append(r.tasks, reservedTask{name: intern(name), mhz: task.Cpu.CpuShares, memoryMB: task.Memory.MemoryMB})
		}
	}
	for _, network := range networks {
		if network == nil {
			continue
		}
		for _, port := range slices.Concat(network.ReservedPorts, network.DynamicPorts) {
			add(network.IP, port.Label, port.Value)
		}
	}
	return r
}

func (r *reserved) main(task string) bool { return !slices.Contains(r.helpers, task) }

// requests returns the tasks with their requests for the speed of a core of their node.
func (r *reserved) requests(mhz float64) []policy.Task {
	if len(r.tasks) == 0 {
		return nil
	}
	tasks := make([]policy.Task, len(r.tasks))
	for i, task := range r.tasks {
		tasks[i].Name = task.name
		if task.mhz > 0 {
			tasks[i].Requests = append(tasks[i].Requests, cores(task.mhz, mhz))
		}
		if task.memoryMB > 0 {
			tasks[i].Requests = append(tasks[i].Requests, policy.Amount{Resource: "memory", Milli: task.memoryMB << 20 * 1000})
		}
	}
	return tasks
}

// alloc is an allocation: its stub without resources and task states, and values derived from
// these.
type alloc struct {
	allocStub
	reserved *reserved
	// started is when the main tasks had all started; zero if that is unknown.
	started time.Time
	// restarted is the last time that a failed task was started again; zero if it never was.
	restarted time.Time
	// faults describes the task failures; empty if no task failed.
	faults string
}

func newAlloc(stub *allocStub, r *reserved) *alloc {
	a := &alloc{allocStub: *stub, reserved: r}
	a.AllocatedResources, a.TaskStates = nil, nil
	a.NodeID, a.NodeName = intern(a.NodeID), intern(a.NodeName)
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(stub.TaskStates)) {
		state := stub.TaskStates[name]
		if state == nil {
			continue
		}
		if r.main(name) {
			a.started = clock.Later(a.started, state.StartedAt)
		}
		a.restarted = clock.Later(a.restarted, state.Events.restarted)
		if state.Events.words != "" {
			faults = append(faults, "task "+strconv.Quote(name)+": "+state.Events.words)
		}
	}
	a.faults = strings.Join(faults, ", ")
	return a
}

// index returns the number in an allocation's name, "job.group[3]"; -1 if the name has no number.
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

// present reports whether an allocation runs, will run, or failed and has no successor.
func (a *allocStub) present() bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusLost:
		return false
	case api.AllocClientStatusFailed:
		return a.failed()
	}
	return true
}

func (a *allocStub) failed() bool {
	return a.ClientStatus == api.AllocClientStatusFailed && a.DesiredStatus == api.AllocDesiredStatusRun && a.NextAllocation == ""
}

func (a *allocStub) phase() policy.Phase {
	switch a.ClientStatus {
	case api.AllocClientStatusRunning:
		return policy.PhaseRunning
	case api.AllocClientStatusPending:
		return policy.PhasePending
	case api.AllocClientStatusFailed:
		return policy.PhaseFailed
	}
	return policy.PhaseUnknown
}

func (a *allocStub) stopping() bool {
	return a.DesiredStatus == api.AllocDesiredStatusStop || a.DesiredStatus == api.AllocDesiredStatusEvict
}

// canary reports whether an allocation is a canary, which does not belong to the count.
func (a *allocStub) canary() bool { return a.DeploymentStatus != nil && a.DeploymentStatus.Canary }

// healthy returns an allocation's health by its deployment; nil if it is unknown.
func (a *allocStub) healthy() *bool {
	if a.DeploymentStatus == nil {
		return nil
	}
	return a.DeploymentStatus.Healthy
}

// restarting reports whether tasks of an allocation failed and wait for a restart, or were
// restarted within restartingWindow.
func (a *alloc) restarting(now time.Time) bool {
	return !a.restarted.IsZero() && (a.phase() == policy.PhasePending || now.Sub(a.restarted) < restartingWindow)
}

// healthDeadline is the default healthy_deadline of Nomad, after which it no longer waits for the health
// of an allocation.
const healthDeadline = 5 * time.Minute

// settled reports whether each further change of the allocation changes the indexes of the job. A
// change of health, a restart of a task and a decision to stop the allocation do not.
func (a *alloc) settled(version uint64, now time.Time) bool {
	if a.phase() != policy.PhaseRunning || a.stopping() || a.canary() || a.JobVersion != version || a.restarting(now) {
		return false
	}
	changed := clock.Later(a.started, time.Unix(0, a.ModifyTime))
	return a.JobType != api.JobTypeService || a.healthy() != nil || now.Sub(changed) > healthDeadline
}

// surplus returns the IDs of the allocations beyond a count: allocations that Nomad will stop,
// and replaced allocations on disconnected nodes. As the scheduler does, it takes allocations
// with a replacement of the same index first, then the highest indexes.
func surplus(living []*alloc, count int32) map[string]bool {
	if len(living) <= int(count) {
		return nil
	}
	newest := map[int]uint64{}
	responding := map[int]bool{}
	for _, alloc := range living {
		newest[alloc.index()] = max(newest[alloc.index()], alloc.JobVersion)
		if alloc.phase() != policy.PhaseUnknown {
			responding[alloc.index()] = true
		}
	}
	replaced := func(a *alloc) int {
		if a.index() >= 0 && (a.JobVersion < newest[a.index()] || a.phase() == policy.PhaseUnknown && responding[a.index()]) {
			return 1
		}
		return 0
	}
	ordered := slices.SortedFunc(slices.Values(living), func(a, b *alloc) int {
		return cmp.Or(cmp.Compare(replaced(a), replaced(b)), cmp.Compare(a.index(), b.index()), cmp.Compare(a.ID, b.ID))
	})
	beyond := make(map[string]bool, len(living)-int(count))
	for _, alloc := range ordered[count:] {
		beyond[alloc.ID] = true
	}
	return beyond
}

func shortID(id string) string { return id[:min(8, len(id))] }

// allocSet is the allocations of a task group at the time of a reading. It is immutable once it
// is in the cache.
type allocSet struct {
	at  scope
	key groupKey
	// jobIndexes are the indexes of the job before the allocations were read.
	jobIndexes jobIndexes
	// read is the time of the reading; since is the time of the first reading with these indexes.
	read, since time.Time
	deployed    bool
	// allocs are the allocations until built is set, which needs the specification of the
	// job; the other fields are empty until then.
	allocs []*alloc
	built  bool

	instances []policy.Instance
	details   []detail
	// status is the number of instances that stay.
	status  int32
	failing *policy.Notice
	// settled reports whether each further change changes the indexes of the job: all instances run
	// and are ready, and their health is known or no longer awaited.
	settled bool
}

type detail struct {
	name, node, nodeName string
	version              uint64
	mhz                  float64
	reserved             *reserved
}

// At returns the location of an instance.
func (s *allocSet) At(i int) targets.Location {
	d := &s.details[i]
	return targets.Location{Name: d.name, Node: d.nodeName, Addresses: d.reserved.addresses, Ports: d.reserved.ports}
}

// sampled returns the running allocations.
func (s *allocSet) sampled() []sampledAlloc {
	var all []sampledAlloc
	for i := range s.instances {
		if instance := &s.instances[i]; instance.Phase == policy.PhaseRunning && !instance.Deleting {
			all = append(all, sampledAlloc{Instance: instance, node: s.details[i].node, at: s.at, mhz: s.details[i].mhz})
		}
	}
	return all
}

// build returns the set with its instances. Checks has the results of service checks by
// allocation ID.
func (f *Fleet) build(read *allocSet, job *jobState, g *group, checks map[string]policy.Readiness, now time.Time) *allocSet {
	s := *read
	s.built, s.allocs = true, nil
	s.failing = failing(read.allocs, s.key.group, now)
	s.settled = !g.checked || f.config.Readiness != ReadinessChecks
	var living []*alloc
	for _, alloc := range read.allocs {
		if !alloc.stopping() && !alloc.canary() && !alloc.failed() {
			living = append(living, alloc)
		}
		s.settled = s.settled && alloc.settled(job.spec.version, now)
	}
	count := g.count
	if job.Stop || job.spec.stopped {
		count = 0
	}
	beyond := surplus(living, count)
	s.settled = s.settled && len(beyond) == 0
	s.instances, s.details = make([]policy.Instance, 0, len(read.allocs)), make([]detail, 0, len(read.allocs))
	for _, alloc := range read.allocs {
		if alloc.canary() {
			continue
		}
		known := f.records.See(alloc.ID, now, func(before record, _ bool) record {
			checked, ok := checks[alloc.ID]
			if !ok {
				checked = policy.ReadinessTrue
			}
			return nextRecord(alloc, g, before, checked, now)
		})
		mhz := f.coreSpeeds.of(alloc.NodeID)
		instance := policy.Instance{
			ID: alloc.ID, Phase: alloc.phase(), Readiness: known.Readiness, Deleting: alloc.stopping() || beyond[alloc.ID],
			StartedAt: known.Started.Round(0).UTC(), ReadinessChanged: known.Changed.Round(0).UTC(),
		}
		if n := len(s.details); n > 0 && s.details[n-1].mhz == mhz && slices.Equal(s.details[n-1].reserved.tasks, alloc.reserved.tasks) {
			instance.Tasks = s.instances[n-1].Tasks // as in most groups
		} else {
			instance.Tasks = alloc.reserved.requests(mhz)
		}
		if !instance.Deleting && !alloc.failed() {
			s.status++
		}
		s.settled = s.settled && instance.Readiness == policy.ReadinessTrue
		s.instances = append(s.instances, instance)
		s.details = append(s.details, detail{name: alloc.Name, node: alloc.NodeID, nodeName: alloc.NodeName, version: alloc.JobVersion, mhz: mhz, reserved: alloc.reserved})
	}
	return &s
}
