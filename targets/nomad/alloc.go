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

// allocStub is an allocation in a list.
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

// lifecycle is the lifecycle block of a task.
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

// groupKey names a task group inside of a scope.
type groupKey struct{ job, group string }

func (a *allocStub) key() groupKey { return groupKey{job: a.JobID, group: a.TaskGroup} }

// reserved is the part of a node that an allocation reserves. It stays the same while the
// allocation has the same version of the job.
type reserved struct {
	tasks []reservedTask
	// helpers are the tasks with a lifecycle hook: they prepare, accompany or clean
	// up.
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

// shared returns one copy of a text that many allocations have in common.
func shared(text string) string { return unique.Make(text).Value() }

// reservedBy converts the resources of an allocation; nil is valid.
func reservedBy(resources *allocatedResources) *reserved {
	r := new(reserved)
	if resources == nil {
		return r
	}
	add := func(address, label string, port int) {
		if address != "" && !slices.Contains(r.addresses, address) {
			r.addresses = append(r.addresses, shared(address))
		}
		if port > 0 {
			r.ports.Set(shared(label), port)
		}
	}
	for name, cycle := range resources.TaskLifecycles {
		if cycle != nil && cycle.Hook != "" {
			r.helpers = append(r.helpers, shared(name))
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
			r.tasks = append(r.tasks, reservedTask{name: shared(name), mhz: task.Cpu.CpuShares, memoryMB: task.Memory.MemoryMB})
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

// main reports whether a task has no lifecycle hook.
func (r *reserved) main(task string) bool { return !slices.Contains(r.helpers, task) }

// requests returns the tasks with their requests, for a speed of the cores of its node.
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
	// faults describes how tasks failed; empty if none did.
	faults string
}

func newAlloc(stub *allocStub, r *reserved) *alloc {
	a := &alloc{allocStub: *stub, reserved: r}
	a.AllocatedResources, a.TaskStates = nil, nil
	a.NodeID, a.NodeName = shared(a.NodeID), shared(a.NodeName)
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

// failed reports whether an allocation failed and has no successor.
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

// stopping reports whether Nomad wants an allocation to stop.
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

// watched is how long Nomad waits for the health of an allocation: its default
// healthy_deadline.
const watched = 5 * time.Minute

// settled reports whether the stamp of the job, of this version, reveals all further changes
// of the allocation. It reveals neither a change of health nor a restart of a task nor a
// decision to stop the allocation.
func (a *alloc) settled(version uint64, now time.Time) bool {
	if a.phase() != policy.PhaseRunning || a.stopping() || a.canary() || a.JobVersion != version || a.restarting(now) {
		return false
	}
	changed := clock.Later(a.started, time.Unix(0, a.ModifyTime))
	return a.JobType != api.JobTypeService || a.healthy() != nil || now.Sub(changed) > watched
}

// surplus returns the IDs of the allocations beyond a count: those that Nomad will stop
// because the count was lowered, and of allocations on silent nodes that have a replacement. As
// the scheduler does, it takes allocations with a replacement of the same number first, then
// the highest numbers.
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

// shortID is an ID as Nomad's command line shows it.
func shortID(id string) string { return id[:min(8, len(id))] }
