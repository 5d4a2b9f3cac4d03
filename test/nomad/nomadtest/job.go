package nomadtest

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/test/wait"
)

// lifetime is the maximum run time of a task in seconds, in case a test does not stop it.
const lifetime = "600"

// Job is a service job that has one group, "app", with one task, "main".
type Job struct {
	ID    string
	Count int
	// Script is run in a shell. If it is empty, the task uses mock_driver.
	Script string
	// CPU is the reservation in MHz. Memory is the reservation in MiB; the node has 200,000. 0
	// means 10.
	CPU, Memory int
	// Deployed turns every change into a deployment, whose allocations must be healthy for one
	// second.
	Deployed bool
	// Alter, if not nil, modifies the job before it is registered.
	Alter func(job *api.Job)
}

// Build converts the job to Nomad's API type.
func (j Job) Build() *api.Job {
	job := api.NewServiceJob(j.ID, j.ID, "global", 50)
	job.Datacenters = []string{"*"}
	task := api.NewTask("main", "mock_driver").SetConfig("run_for", lifetime+"s")
	if j.Script != "" {
		task = api.NewTask("main", "raw_exec").SetConfig("command", "/usr/bin/timeout").
			SetConfig("args", []string{lifetime, "/bin/sh", "-c", j.Script})
	}
	cpu, memory := max(j.CPU, 10), max(j.Memory, 10)
	task.Require(&api.Resources{CPU: &cpu, MemoryMB: &memory})
	kill := 500 * time.Millisecond
	task.KillTimeout = &kill
	group := api.NewTaskGroup("app", j.Count).AddTask(task)
	parallel, healthy, deadline, progress := 0, time.Second, 2*time.Minute, 3*time.Minute
	if j.Deployed {
		parallel = 5
	}
	group.Update = &api.UpdateStrategy{MaxParallel: &parallel, MinHealthyTime: &healthy, HealthyDeadline: &deadline, ProgressDeadline: &progress}
	job.AddTaskGroup(group)
	if j.Alter != nil {
		j.Alter(job)
	}
	return job
}

// Run registers a job like "nomad job run".
func (a *Agent) Run(t testing.TB, job Job) {
	t.Helper()
	a.request(t, fmt.Sprintf("run job %q", job.ID), func() error {
		_, _, err := a.Client.Jobs().Register(job.Build(), nil)
		return err
	})
}

// RunFile runs "nomad job run -preserve-counts" with a job file.
func (a *Agent) RunFile(t testing.TB, text string) {
	t.Helper()
	command := exec.Command(a.binary, "job", "run", "-detach", "-preserve-counts", "-")
	command.Env = append(environment(), "NOMAD_ADDR="+a.URL, "NOMAD_TOKEN="+a.Token)
	command.Stdin = strings.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("nomad job run: %v\n%s", err, output)
	}
}

// Count returns the count of a job's group in the job specification.
func (a *Agent) Count(t testing.TB, id string) int {
	t.Helper()
	return a.countAs(t, id, nil)
}

// CountAnywhere is like Count, but reads from any server, even without a leader.
func (a *Agent) CountAnywhere(t testing.TB, id string) int {
	t.Helper()
	return a.countAs(t, id, &api.QueryOptions{AllowStale: true})
}

func (a *Agent) countAs(t testing.TB, id string, options *api.QueryOptions) int {
	t.Helper()
	var count int
	a.request(t, fmt.Sprintf("read job %q", id), func() (err error) {
		count, err = a.count(id, options)
		return err
	})
	return count
}

func (a *Agent) count(id string, options *api.QueryOptions) (int, error) {
	job, _, err := a.Client.Jobs().Info(id, options)
	if err != nil {
		return 0, err
	}
	return *job.TaskGroups[0].Count, nil
}

// Running returns the IDs of a job's running allocations, except those that are being stopped.
func (a *Agent) Running(t testing.TB, id string) map[string]bool {
	t.Helper()
	var running map[string]bool
	a.request(t, fmt.Sprintf("list the allocations of job %q", id), func() (err error) {
		running, err = a.running(id)
		return err
	})
	return running
}

func (a *Agent) running(id string) (map[string]bool, error) {
	allocs, _, err := a.Client.Jobs().Allocations(id, false, nil)
	if err != nil {
		return nil, err
	}
	running := map[string]bool{}
	for _, alloc := range allocs {
		if alloc.ClientStatus == api.AllocClientStatusRunning && alloc.DesiredStatus == api.AllocDesiredStatusRun {
			running[alloc.ID] = true
		}
	}
	return running, nil
}

// AwaitRunning waits until a job has the given count and the same number of running allocations.
func (a *Agent) AwaitRunning(t testing.TB, id string, n int, limit time.Duration) {
	t.Helper()
	wait.For(t, limit, fmt.Sprintf("%d allocations of job %q", n, id), func() (string, bool) {
		count, err := a.count(id, nil)
		if err != nil {
			failIfRejected(t, err)
			return err.Error(), false
		}
		running, err := a.running(id)
		if err != nil {
			failIfRejected(t, err)
			return err.Error(), false
		}
		return fmt.Sprintf("the count is %d and %d allocations are running", count, len(running)), count == n && len(running) == n
	})
}

// Scalings returns the scaling events of a job's group, newest first.
func (a *Agent) Scalings(t testing.TB, id string) []api.ScalingEvent {
	t.Helper()
	var status *api.JobScaleStatusResponse
	a.request(t, fmt.Sprintf("read the scaling events of job %q", id), func() (err error) {
		status, _, err = a.Client.Jobs().ScaleStatus(id, nil)
		return err
	})
	return status.TaskGroups["app"].Events
}

// request retries a request until it succeeds, because requests fail while servers elect a leader.
func (a *Agent) request(t testing.TB, what string, send func() error) {
	t.Helper()
	wait.For(t, requestTimeout, fmt.Sprintf("response to %q", what), func() (string, bool) {
		err := send()
		failIfRejected(t, err)
		return fmt.Sprint(err), err == nil
	})
}

// failIfRejected ends the test if the server has rejected the request.
func failIfRejected(t testing.TB, err error) {
	t.Helper()
	var response api.UnexpectedResponseError
	if errors.As(err, &response) && response.HasStatusCode() && response.StatusCode() < http.StatusInternalServerError {
		t.Fatal(err)
	}
}
