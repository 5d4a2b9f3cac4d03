package nomad

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// phase returns where an allocation is in its life.
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

// canary reports whether an allocation tries out a new version of the job, beside its
// count.
func (a *allocStub) canary() bool { return a.DeploymentStatus != nil && a.DeploymentStatus.Canary }

// healthy returns an allocation's health by its deployment; nil before there is any.
func (a *allocStub) healthy() *bool {
	if a.DeploymentStatus == nil {
		return nil
	}
	return a.DeploymentStatus.Healthy
}

// lasting reports whether a task runs as long as its allocation: it is none of those
// that prepare or clean up.
func (a *allocStub) lasting(task string) bool {
	return a.main(task) || a.AllocatedResources.TaskLifecycles.find(task).Sidecar
}

// main reports whether a task is neither a sidecar nor one that prepares or cleans up.
func (a *allocStub) main(task string) bool {
	if a.AllocatedResources == nil {
		return true
	}
	cycle := a.AllocatedResources.TaskLifecycles.find(task)
	return cycle == nil || cycle.Hook == ""
}

// started returns when the main tasks had all started; zero when that is unknown.
func (a *allocStub) started() time.Time {
	var latest time.Time
	for _, state := range a.TaskStates {
		if a.main(state.name) {
			latest = clock.Later(latest, state.value.StartedAt)
		}
	}
	return latest
}

// tasks returns the lasting tasks of an allocation with what they reserve, cpu in
// cores of so many MHz.
func (a *allocStub) tasks(mhz float64) []policy.Task {
	if a.AllocatedResources == nil {
		return nil
	}
	tasks := make([]policy.Task, 0, len(a.AllocatedResources.Tasks))
	for i := range a.AllocatedResources.Tasks {
		name, resources := a.AllocatedResources.Tasks[i].name, &a.AllocatedResources.Tasks[i].value
		if !a.lasting(name) {
			continue
		}
		task := policy.Task{Name: name}
		if resources.Cpu.CpuShares > 0 {
			task.Requests = append(task.Requests, cores(resources.Cpu.CpuShares, mhz))
		}
		if resources.Memory.MemoryMB > 0 {
			task.Requests = append(task.Requests, policy.Amount{Resource: "memory", Milli: resources.Memory.MemoryMB << 20 * 1000})
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// location returns where an allocation is to be found.
func (a *allocStub) location() targets.Location {
	l := targets.Location{Name: a.Name, Node: a.NodeName}
	if a.AllocatedResources == nil {
		return l
	}
	add := func(address, label string, port int) {
		if address != "" && !slices.Contains(l.Addresses, address) {
			l.Addresses = append(l.Addresses, address)
		}
		if port > 0 {
			l.Ports.Set(label, port)
		}
	}
	networks := slices.Clone(a.AllocatedResources.Shared.Networks)
	for _, port := range a.AllocatedResources.Shared.Ports {
		add(port.HostIP, port.Label, port.Value)
	}
	for _, task := range a.AllocatedResources.Tasks {
		networks = append(networks, task.value.Networks...)
	}
	for _, network := range networks {
		if network == nil {
			continue
		}
		for _, port := range slices.Concat(network.ReservedPorts, network.DynamicPorts) {
			add(network.IP, port.Label, port.Value)
		}
	}
	return l
}

// surplus returns the allocations beyond a count: those that Nomad is about to stop,
// because the count was lowered just now, and those on silent nodes that have others
// in their places. As the scheduler does, it takes those whose number another one has
// taken over, then the highest numbers.
func surplus(living []*allocStub, count int32) map[string]bool {
	if len(living) <= int(count) {
		return nil
	}
	newest := map[int]uint64{}
	answering := map[int]bool{}
	for _, alloc := range living {
		newest[alloc.index()] = max(newest[alloc.index()], alloc.JobVersion)
		if alloc.phase() != policy.PhaseUnknown {
			answering[alloc.index()] = true
		}
	}
	replaced := func(a *allocStub) int {
		if a.index() >= 0 && (a.JobVersion < newest[a.index()] || a.phase() == policy.PhaseUnknown && answering[a.index()]) {
			return 1
		}
		return 0
	}
	ordered := slices.SortedFunc(slices.Values(living), func(a, b *allocStub) int {
		return cmp.Or(cmp.Compare(replaced(a), replaced(b)), cmp.Compare(a.index(), b.index()), cmp.Compare(a.ID, b.ID))
	})
	beyond := make(map[string]bool, len(living)-int(count))
	for _, alloc := range ordered[count:] {
		beyond[alloc.ID] = true
	}
	return beyond
}

// hold returns why a job must not be scaled now; nil when it may be.
func hold(job *jobState, t *Target, g *group) *policy.Hold {
	if job.stopped || job.spec.stopped {
		return &policy.Hold{Reason: JobStopped, Message: fmt.Sprintf("job %q is stopped; run it again, or purge it, for its count to mean something", t.Job)}
	}
	if finished := finishedHold(t.Job, job.finished); finished != nil {
		return finished
	}
	wanted := func(of nameAndValue[group]) bool { return of.value.count > 0 }
	if job.dead && (g.count > 0 || job.spec.jobType == api.JobTypeBatch && slices.ContainsFunc(job.spec.groups, wanted)) {
		return &policy.Hold{Reason: JobDead, Message: fmt.Sprintf("job %q is dead: all its allocations ended, and Nomad starts no others; run it again", t.Job)}
	}
	for _, d := range job.deployments {
		if d.JobCreateIndex != job.spec.createIndex {
			continue
		}
		message := fmt.Sprintf("deployment %s of job %q is %s", shortID(d.ID), t.Job, d.Status)
		if d.StatusDescription != "" {
			message += ": " + d.StatusDescription
		}
		if waiting := job.waiting(t.Group); waiting > 0 {
			message += fmt.Sprintf("; %d allocations of group %q wait for a place", waiting, t.Group)
		}
		return &policy.Hold{Reason: DeploymentActive, Message: message}
	}
	return nil
}

// shortID is how Nomad's command line shows an id.
func shortID(id string) string { return id[:min(8, len(id))] }

// versionOf returns the version of a reading.
func versionOf(index uint64) string { return strconv.FormatUint(index, 10) }
