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
	Memory   struct{ MemoryMB, MemoryMaxMB int64 }
	Networks []*network
}

type network struct {
	IP                          string
	ReservedPorts, DynamicPorts []port
}

// port maps a label to a number on the host. It has no HostIP if it is listed in a network, because
// the network has the IP address.
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

// reserved contains the resources that an allocation reserves on its node.
type reserved struct {
	*taskSet
	addresses []string
	ports     targets.Ports
}

// taskSet contains the tasks of an allocation. Most allocations of a group share it. It is
// immutable.
type taskSet struct {
	tasks []reservedTask
	// helpers are the tasks with a lifecycle hook, such as prestart.
	helpers []string
}

func (t *taskSet) equal(other *taskSet) bool {
	return slices.Equal(t.tasks, other.tasks) && slices.Equal(t.helpers, other.helpers)
}

// reservedTask is a task that runs as long as its allocation: a main task or a sidecar. A value
// of 0 means that the job does not set the resource. A negative memoryMaxMB means no limit.
type reservedTask struct {
	name                       string
	mhz, memoryMB, memoryMaxMB int64
}

// intern returns a shared copy of a string that occurs in many allocations.
func intern(text string) string { return unique.Make(text).Value() }

func reservedBy(resources *allocatedResources) reserved {
	r := reserved{taskSet: new(taskSet)}
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
		cycle := resources.TaskLifecycles[name]
		helps := cycle != nil && cycle.Hook != ""
		if helps {
			r.helpers = append(r.helpers, intern(name))
		}
		if !helps || cycle.Sidecar {
			r.tasks = append(r.tasks, reservedTask{name: intern(name), mhz: task.Cpu.CpuShares, memoryMB: task.Memory.MemoryMB, memoryMaxMB: task.Memory.MemoryMaxMB})
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

func (t *taskSet) main(task string) bool { return !slices.Contains(t.helpers, task) }

// requests returns the tasks with their resource requests. It converts MHz to cores by the node's
// MHz per core.
func (t *taskSet) requests(mhz float64) []policy.Task {
	if len(t.tasks) == 0 {
		return nil
	}
	tasks := make([]policy.Task, len(t.tasks))
	for i, task := range t.tasks {
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

// limits returns the limits of the whole allocation. A task without memory_max is limited to its
// memory. There is no cpu limit, because cpu is a share, and whether a task with cores may use
// other cores depends on the driver.
func (t *taskSet) limits() []policy.Amount {
	var megabytes int64
	for _, task := range t.tasks {
		limit := task.memoryMaxMB
		if limit == 0 {
			limit = task.memoryMB
		}
		if limit <= 0 {
			return nil
		}
		megabytes += limit
	}
	if megabytes == 0 {
		return nil
	}
	return []policy.Amount{{Resource: "memory", Milli: megabytes << 20 * 1000}}
}

// alloc is an allocation: its stub without resources and task states, and values derived from
// these.
type alloc struct {
	allocStub
	reserved reserved
	// started is the time when the last main task started; zero if it is unknown.
	started time.Time
	// restarted is the time of the last restart after a task failure; zero if there was none.
	restarted time.Time
	// faults describes the task failures; empty if no task failed.
	faults string
}

func newAlloc(stub *allocStub) *alloc {
	a := &alloc{allocStub: *stub, reserved: reservedBy(stub.AllocatedResources)}
	a.AllocatedResources, a.TaskStates = nil, nil
	a.NodeID, a.NodeName = intern(a.NodeID), intern(a.NodeName)
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(stub.TaskStates)) {
		state := stub.TaskStates[name]
		if state == nil {
			continue
		}
		if a.reserved.main(name) {
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

// canary reports whether an allocation is a canary, which is not part of the group's count.
func (a *allocStub) canary() bool { return a.DeploymentStatus != nil && a.DeploymentStatus.Canary }

// healthy returns the allocation's health from its deployment, or nil if it is unknown.
func (a *allocStub) healthy() *bool {
	if a.DeploymentStatus == nil {
		return nil
	}
	return a.DeploymentStatus.Healthy
}

// restarting reports whether failed tasks of the allocation are waiting for a restart, or were
// restarted within the last restartingWindow.
func (a *alloc) restarting(now time.Time) bool {
	return !a.restarted.IsZero() && (a.phase() == policy.PhasePending || now.Sub(a.restarted) < restartingWindow)
}

// healthDeadline is the default healthy_deadline of Nomad, after which it no longer waits for the
// health of an allocation.
const healthDeadline = 5 * time.Minute

// tracked reports whether every further change to the allocation also changes the job's indexes.
// A health change, a task restart and a decision to stop the allocation do not change them.
func (a *alloc) tracked(version uint64, now time.Time) bool {
	if a.phase() != policy.PhaseRunning || a.stopping() || a.canary() || a.JobVersion != version || a.restarting(now) {
		return false
	}
	changed := clock.Later(a.started, time.Unix(0, a.ModifyTime))
	return a.JobType != api.JobTypeService || a.healthy() != nil || now.Sub(changed) > healthDeadline
}

// surplus returns the IDs of the allocations that exceed the count: allocations that Nomad will
// stop, and replaced allocations on disconnected nodes. Like the scheduler, it selects
// allocations whose index has a replacement first, and then the highest indexes.
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

// allocSet contains the allocations of a task group in one reading. It is immutable once it is
// cached.
type allocSet struct {
	at  scope
	key groupKey
	// jobIndexes are the job's indexes from before the allocations were read.
	jobIndexes jobIndexes
	// read is the time of the reading; since is the time of the first reading with these indexes.
	read, since time.Time
	// deploying reports whether a deployment of the job was active.
	deploying bool
	// allocs contains the allocations until built is set; the following fields are empty until
	// then. Building requires the job's specification.
	allocs []*alloc
	built  bool

	instances []policy.Instance
	details   []detail
	// children are the jobs of the instances of a parameterized job; otherwise nil.
	children []string
	// status is the number of instances that have not failed and are not being removed.
	status  int32
	failing *policy.Notice
	// tracked reports whether changes are expected to change the job's indexes. This is the case if
	// all instances are running and ready, and their health is known or no longer awaited. Short
	// restarts and stop decisions are exceptions; readAgain finds them.
	tracked bool
}

type detail struct {
	// index is the number in the allocation's name; -1 if the name has no number.
	index    int
	node     unique.Handle[host]
	reserved reserved
	// unready is the reason why the instance is not ready, and output the output of its service
	// check.
	unready, output string
}

// host is the node of an allocation. mhz is its MHz per core.
type host struct {
	id, name string
	mhz      float64
}

// At returns the location of an instance. Nomad forms the name of an allocation from its index.
func (s *allocSet) At(i int) targets.Location {
	d := &s.details[i]
	at := targets.Location{Node: d.node.Value().name, Addresses: d.reserved.addresses, Ports: d.reserved.ports, Limits: d.reserved.limits(), UnreadyReason: d.unready, HealthOutput: d.output}
	switch {
	case s.children != nil:
		at.Name = s.children[i]
	case d.index >= 0:
		at.Name = s.key.job + "." + s.key.group + "[" + strconv.Itoa(d.index) + "]"
	}
	return at
}

// sampled returns the running allocations.
func (s *allocSet) sampled() []sampledAlloc {
	var all []sampledAlloc
	for i := range s.instances {
		if instance := &s.instances[i]; instance.Phase == policy.PhaseRunning && !instance.Deleting {
			node := s.details[i].node.Value()
			all = append(all, sampledAlloc{Instance: instance, node: node.id, at: s.at, mhz: node.mhz})
		}
	}
	return all
}

// build returns the set with its instances. The checks argument maps allocation IDs to the
// results of their service checks.
func (f *Fleet) build(read *allocSet, job *jobState, g *group, checks map[string]checkResult, now time.Time) *allocSet {
	s := *read
	s.built, s.allocs = true, nil
	s.failing = failing(read.allocs, s.key.group, now)
	s.tracked = !g.checked || f.config.Readiness != readinessChecks
	var living []*alloc
	for _, alloc := range read.allocs {
		if !alloc.stopping() && !alloc.canary() && !alloc.failed() {
			living = append(living, alloc)
		}
		s.tracked = s.tracked && alloc.tracked(job.spec.version, now)
	}
	count := g.count
	if job.ParameterizedJob {
		count = int32(len(living))
	} else if job.Stop || job.spec.stopped {
		count = 0
	}
	beyond := surplus(living, count)
	s.tracked = s.tracked && len(beyond) == 0
	s.instances, s.details = make([]policy.Instance, 0, len(read.allocs)), make([]detail, 0, len(read.allocs))
	for _, alloc := range read.allocs {
		if alloc.canary() {
			continue
		}
		checked, ok := checks[alloc.ID]
		if !ok {
			checked.readiness = policy.ReadinessTrue
		}
		current := f.records.Observe(alloc.ID, now, func(before record, _ bool) record {
			return nextRecord(alloc, g, before, checked.readiness, now)
		})
		mhz, resources := f.coreSpeeds.of(alloc.NodeID), alloc.reserved
		on := unique.Make(host{id: alloc.NodeID, name: alloc.NodeName, mhz: mhz})
		instance := policy.Instance{
			ID: alloc.ID, Phase: alloc.phase(), Readiness: current.Readiness, Deleting: alloc.stopping() || beyond[alloc.ID],
			StartedAt: current.Started.Round(0).UTC(), ReadinessChanged: current.Changed.Round(0).UTC(),
		}
		if n := len(s.details); n > 0 && s.details[n-1].node.Value().mhz == mhz && s.details[n-1].reserved.equal(resources.taskSet) {
			instance.Tasks, resources.taskSet = s.instances[n-1].Tasks, s.details[n-1].reserved.taskSet
		} else {
			instance.Tasks = resources.requests(mhz)
		}
		if !instance.Deleting && !alloc.failed() {
			s.status++
		}
		s.tracked = s.tracked && instance.Readiness == policy.ReadinessTrue
		s.instances = append(s.instances, instance)
		s.details = append(s.details, detail{index: alloc.index(), node: on, reserved: resources, unready: alloc.unreadyReason(&instance, checked.reason, now), output: checked.output})
	}
	return &s
}
