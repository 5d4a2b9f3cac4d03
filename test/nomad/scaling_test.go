package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// TestNomad runs the cases that can share one agent and one Prometheus.
func TestNomad(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{})
	l := world.NewLoad(t)
	t.Run("cases", func(t *testing.T) { // must end before the cleanup stops the agent
		for name, run := range map[string]func(t *testing.T, agent *nomadtest.Agent, l *world.Load){
			"cpu":           cpu,
			"checks":        checks,
			"readiness":     readiness,
			"discovery":     discovery,
			"policies":      policies,
			"instances":     instances,
			"deployment":    deployment,
			"canary":        canary,
			"zero":          zero,
			"not placed":    notPlaced,
			"failing":       failing,
			"resubmitted":   resubmitted,
			"odd ids":       oddIDs,
			"derived":       derived,
			"dispatched":    dispatched,
			"finished work": finishedWork,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, agent, l)
			})
		}
	})
}

// oddIDs checks that hpad can scale jobs whose IDs contain characters that are special in Nomad's
// filters.
func oddIDs(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	jobs := []string{"plain", `"`, `a\"b`, "/a/b", "a`\"b", "a\nb", "größe%2F#?&+@[x]", strings.Repeat("x", 2000)}
	var text strings.Builder
	text.WriteString(fleet(agent.URL, "") + l.Source())
	for n, id := range jobs {
		name := fmt.Sprintf("odd-%d", n)
		l.Queue(name, 20)
		agent.Run(t, nomadtest.Job{ID: id, Count: 1})
		text.WriteString(world.Queued(name, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app" }`, id), 1, 5))
	}
	world.New(t, text.String())
	for _, id := range jobs {
		agent.AwaitRunning(t, id, 2, patience)
	}
}

// derived checks that hpad scales the jobs that parameterized and periodic jobs launch, in every
// namespace.
func derived(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	if _, err := agent.Client.Namespaces().Register(&nomadapi.Namespace{Name: "derived"}, nil); err != nil {
		t.Fatal(err)
	}
	other := agent.In(t, "derived")
	launched := map[string]string{}
	var text strings.Builder
	add := func(name, namespace, id string) {
		l.Queue(name, 20)
		launched[name] = id
		text.WriteString(world.Queued(name, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app", namespace = %q }`, id, namespace), 1, 5))
	}
	for namespace, agent := range map[string]*nomadtest.Agent{"default": agent, "derived": other} {
		agent.Run(t, nomadtest.Job{ID: "form", Count: 1, Alter: func(job *nomadapi.Job) {
			job.Namespace, job.Type, job.TaskGroups[0].Update = &namespace, new(nomadapi.JobTypeBatch), nil
			job.ParameterizedJob = &nomadapi.ParameterizedJobConfig{Payload: "optional"}
		}})
		response, _, err := agent.Client.Jobs().Dispatch("form", nil, nil, "größe/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		add("dispatched-"+namespace, namespace, response.DispatchedJobID)
	}
	agent.Run(t, nomadtest.Job{ID: "daily", Count: 1, Alter: func(job *nomadapi.Job) {
		job.Type, job.TaskGroups[0].Update = new(nomadapi.JobTypeBatch), nil
		job.AddPeriodicConfig(&nomadapi.PeriodicConfig{Spec: new("0 0 1 1 *"), SpecType: new(nomadapi.PeriodicSpecCron)})
	}})
	if _, _, err := agent.Client.Jobs().PeriodicForce("daily", nil); err != nil {
		t.Fatal(err)
	}
	launches, _, err := agent.Client.Jobs().PrefixList("daily/")
	if err != nil || len(launches) != 1 {
		t.Fatalf("launches = %v, %v", launches, err)
	}
	add("launched", "default", launches[0].ID)
	add("parent", "default", "form")
	w := world.New(t, fleet(agent.URL, "")+l.Source()+text.String())
	for name, id := range launched {
		switch name {
		case "parent": // dispatches a second child
			wait.For(t, patience, "two children", func() (string, bool) {
				n := w.View(name).Status.CurrentReplicas
				return fmt.Sprintf("%d children", n), n == 2
			})
		case "dispatched-derived":
			other.AwaitRunning(t, id, 2, patience)
		default:
			agent.AwaitRunning(t, id, 2, patience)
		}
	}
	for name := range launched {
		entries, err := w.History(t.Context(), name, time.Time{}, time.Time{}, 10)
		if list, listErr := w.InstancesOf(t.Context(), name); err != nil || listErr != nil || len(list.Instances) < 2 || len(entries) == 0 {
			t.Errorf("%s: %d history entries and instances %+v, %v, %v, want at least 2 instances", name, len(entries), list, err, listErr)
		}
	}
}

// finishedWork checks that hpad does not scale a batch job if Nomad would then repeat finished
// work: a complete group, a complete second group of the same job, or a launch of a periodic job.
// Other batch jobs must be scaled.
func finishedWork(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	batch := func(id string, count int, alter func(job *nomadapi.Job)) {
		agent.Run(t, nomadtest.Job{ID: id, Count: count, Alter: func(job *nomadapi.Job) {
			job.Type, job.TaskGroups[0].Update = new(nomadapi.JobTypeBatch), nil
			alter(job)
		}})
	}
	brief := func(job *nomadapi.Job) { job.TaskGroups[0].Tasks[0].SetConfig("run_for", "10ms") }
	batch("done", 3, brief)
	batch("beside", 2, func(job *nomadapi.Job) {
		task := nomadapi.NewTask("main", "mock_driver").SetConfig("run_for", "10ms")
		job.AddTaskGroup(nomadapi.NewTaskGroup("setup", 1).AddTask(task))
	})
	batch("hourly", 1, func(job *nomadapi.Job) {
		brief(job)
		job.AddPeriodicConfig(&nomadapi.PeriodicConfig{Spec: new("0 0 1 1 *"), SpecType: new(nomadapi.PeriodicSpecCron)})
	})
	batch("working", 1, func(*nomadapi.Job) {})
	if _, _, err := agent.Client.Jobs().PeriodicForce("hourly", nil); err != nil {
		t.Fatal(err)
	}
	launches, _, err := agent.Client.Jobs().PrefixList("hourly/")
	if err != nil || len(launches) != 1 {
		t.Fatalf("launches = %v, %v", launches, err)
	}
	finished := map[string]struct {
		id                   string
		count, complete, all int
	}{"done": {"done", 3, 3, 3}, "beside": {"beside", 2, 1, 3}, "hourly": {launches[0].ID, 1, 1, 1}}
	states := func(id string) (complete, all int) {
		allocs, _, err := agent.Client.Jobs().Allocations(id, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, alloc := range allocs {
			if alloc.ClientStatus == nomadapi.AllocClientStatusComplete {
				complete++
			}
		}
		return complete, len(allocs)
	}
	var text strings.Builder
	text.WriteString(fleet(agent.URL, "") + l.Source() + queued("working", 1, 5))
	l.Queue("working", 50)
	for name, job := range finished {
		wait.For(t, patience, "complete allocations of "+name, func() (string, bool) {
			complete, all := states(job.id)
			return fmt.Sprintf("%d of %d", complete, all), complete == job.complete && all == job.all
		})
		l.Queue(name, 50)
		text.WriteString(world.Queued(name, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app" }`, job.id), 1, 5))
	}
	w := world.New(t, text.String())
	agent.AwaitRunning(t, "working", 5, patience)
	for name, job := range finished {
		w.Await(name, policy.AbleToScale, nomad.AllocationsComplete, job.id)
		w.Passes(name, 3)
		if _, all := states(job.id); agent.Count(t, job.id) != job.count || all != job.all {
			t.Errorf("%s: count = %d with %d allocations, want %d and %d", name, agent.Count(t, job.id), all, job.count, job.all)
		}
	}
}

// cpu checks that a busy group grows to its maximum, and shrinks to its minimum when it is idle.
// The group's scaling events must explain the decisions.
func cpu(t *testing.T, agent *nomadtest.Agent, _ *world.Load) {
	busy := filepath.Join(t.TempDir(), "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agent.Client.Operator().SchedulerSetConfiguration(&nomadapi.SchedulerConfiguration{SchedulerAlgorithm: nomadapi.SchedulerAlgorithmBinpack, MemoryOversubscriptionEnabled: true}, nil); err != nil {
		t.Fatal(err)
	}
	agent.Run(t, nomadtest.Job{
		ID: "burner", Count: 1, CPU: 50, Script: fmt.Sprintf(
			`while :; do if [ -e %s ]; then n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 0.1; else sleep 0.5; fi; done`, busy),
		Alter: func(job *nomadapi.Job) {
			task := job.TaskGroups[0].Tasks[0]
			task.Name, task.Resources.MemoryMaxMB = "Log_Shipper.v2", new(1000) // not the name of a Kubernetes container
		},
	})
	agent.AwaitRunning(t, "burner", 1, patience)
	world.New(t, fleet(agent.URL, "")+`
[autoscalers.burner]
target       = { fleet = "prod", job = "burner", group = "app" }
min_replicas = 1
max_replicas = 3
[[autoscalers.burner.metrics]]
type                = "ContainerResource"
task                = "Log_Shipper.v2"
resource            = "cpu"
average_utilization = 60
[[autoscalers.burner.metrics]]
type                   = "Resource"
resource               = "memory"
average_utilization    = 60
average_utilization_of = "limit"
[autoscalers.burner.behavior.scale_down]
stabilization_window = "3s"
`)
	agent.AwaitRunning(t, "burner", 3, patience)
	if err := os.Remove(busy); err != nil {
		t.Fatal(err)
	}
	agent.AwaitRunning(t, "burner", 1, patience)
	for _, event := range agent.Scalings(t, "burner") {
		if !strings.HasPrefix(event.Message, "hpad: ") || event.Meta["scaled_by"] != "hpad" || event.Meta["hpad_target"] != "prod/burner/app" {
			t.Errorf("scaling event %+v does not name hpad and its target", event)
		}
		if event.Count == nil || event.Meta["from"] != float64(event.PreviousCount) || event.Meta["to"] != float64(*event.Count) || event.Message != fmt.Sprint("hpad: ", event.Meta["reason"]) {
			t.Errorf("scaling event %+v does not contain the decision", event)
		}
	}
}

// instances checks that an Instances metric matches samples to allocations by ID, and that hpad
// uses the larger result of two metrics.
func instances(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	agent.Run(t, nomadtest.Job{ID: "shop", Count: 2})
	agent.AwaitRunning(t, "shop", 2, patience)
	for id := range agent.Running(t, "shop") {
		l.Set(fmt.Sprintf("requests{alloc_id=%q}", id), 150)
	}
	l.Queue("shop", 5)
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("shop", 1, 5)+`
[[autoscalers.shop.metrics]]
type           = "Instances"
name           = "requests"
source         = "prom"
query          = 'sum by (alloc_id) (requests)'
instance_label = "alloc_id"
average_value  = "100"
`)
	agent.AwaitRunning(t, "shop", 3, patience)
	w.Passes("shop", 2)
	if count := agent.Count(t, "shop"); count != 3 {
		t.Errorf("count = %d, want 3 for 300 requests at 100 each", count)
	}
	l.Queue("shop", 45)
	agent.AwaitRunning(t, "shop", 5, patience)
}

// deployment checks that hpad does not scale during a deployment, and scales afterwards.
func deployment(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("deployed", 10)
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true, Alter: func(job *nomadapi.Job) {
		// An allocation that cannot be placed keeps the deployment active.
		job.Constrain(nomadapi.NewConstraint("${meta.never}", "=", "there"))
	}})
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("deployed", 1, 5))
	w.Await("deployed", policy.AbleToScale, nomad.DeploymentActive, "1 allocations of group \"app\" are queued")
	l.Queue("deployed", 30)
	w.Passes("deployed", 3)
	if count := agent.Count(t, "deployed"); count != 1 {
		t.Errorf("count during a deployment = %d, want 1", count)
	}
	reportedOnce(t, w, "deployed", nomad.DeploymentActive)
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true})
	agent.AwaitRunning(t, "deployed", 3, patience)
	w.Await("deployed", policy.AbleToScale, "ReadyForNewScale", "")
}

// canary checks that a canary is not counted as a replica, and that hpad does not scale until the
// canary is promoted.
func canary(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("bird", 20)
	agent.Run(t, nomadtest.Job{ID: "bird", Count: 2, Deployed: true})
	agent.AwaitRunning(t, "bird", 2, patience)
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("bird", 1, 5))
	w.Await("bird", policy.AbleToScale, "ReadyForNewScale", "")
	one := 1
	agent.Run(t, nomadtest.Job{ID: "bird", Count: 2, Deployed: true, Alter: func(job *nomadapi.Job) {
		job.TaskGroups[0].Update.Canary = &one
		job.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": "2"}
	}})
	w.Await("bird", policy.AbleToScale, nomad.DeploymentActive, "requires manual promotion")
	wait.For(t, patience, "canary", func() (string, bool) {
		n := len(agent.Running(t, "bird"))
		return fmt.Sprintf("%d running allocations", n), n == 3
	})
	w.Passes("bird", 2)
	if got := w.View("bird").Status.CurrentReplicas; got != 2 {
		t.Errorf("current replicas with a canary = %d, want 2", got)
	}
	d, _, err := agent.Client.Jobs().LatestDeployment("bird", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Queue("bird", 40)
	wait.For(t, patience, "promotion of the canary", func() (string, bool) {
		_, _, err := agent.Client.Deployments().PromoteAll(d.ID, nil) // rejected until the canary is healthy
		return fmt.Sprint(err), err == nil
	})
	agent.AwaitRunning(t, "bird", 4, patience)
}

// zero checks that an External metric can scale a group to zero and back. A manual count of 0 must
// turn the autoscaler off (R51).
func zero(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("night", 0)
	agent.Run(t, nomadtest.Job{ID: "night", Count: 2})
	agent.AwaitRunning(t, "night", 2, patience)
	world.New(t, fleet(agent.URL, "")+l.Source()+queued("night", 0, 5))
	agent.AwaitRunning(t, "night", 0, patience)
	l.Queue("night", 30)
	agent.AwaitRunning(t, "night", 3, patience)

	l.Queue("upkeep", 30)
	agent.Run(t, nomadtest.Job{ID: "upkeep", Count: 0})
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("upkeep", 1, 5))
	w.Await("upkeep", policy.ScalingActive, "ScalingDisabled", "")
	w.AwaitOff("upkeep", true)
	w.Passes("upkeep", 3)
	if count := agent.Count(t, "upkeep"); count != 0 {
		t.Errorf("count = %d, want 0", count)
	}
}

// resubmitted checks that hpad accepts or restores the count of a job that was submitted again,
// even if scale-down is disabled.
func resubmitted(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	for job, mode := range map[string]string{"taken": "accept", "kept": "restore"} {
		l.Queue(job, 40)
		agent.Run(t, nomadtest.Job{ID: job, Count: 1})
		text := strings.NewReplacer(
			"[autoscalers."+job+"]\n", "[autoscalers."+job+"]\non_foreign_change = \""+mode+"\"\n",
			`stabilization_window = "2s"`, `select_policy = "Disabled"`,
		).Replace(queued(job, 1, 5))
		w := world.New(t, fleet(agent.URL, "")+l.Source()+text)
		agent.AwaitRunning(t, job, 4, patience)
		w.Passes(job, 2)
		agent.Run(t, nomadtest.Job{ID: job, Count: 5})
		if mode == "restore" {
			w.Await(job, policy.ForeignWriter, "Rescaled", "")
			agent.AwaitRunning(t, job, 4, patience)
		} else {
			w.Await(job, policy.ForeignWriter, "CountChanged", "from 4 to 5")
			w.Passes(job, 3)
			if count := agent.Count(t, job); count != 5 {
				t.Errorf("count = %d, want the accepted 5", count)
			}
		}
		if n := world.Told(w.View(job).Events, string(policy.ForeignWriter)); n != 1 {
			t.Errorf("%s: ForeignWriter events = %d, want 1", mode, n)
		}
		w.Stop()
	}
}

// reportedOnce checks that a reason was reported in exactly one event, and that no other error was
// reported.
func reportedOnce(t *testing.T, w *world.World, job, reason string) {
	t.Helper()
	events := w.View(job).Events
	late := int64(0) // reads that timed out on a slow host; after each, the reason is reported again
	for _, event := range events {
		if event.Reason == "FailedGetScale" && (strings.Contains(event.Message, "no response within") || strings.Contains(event.Message, "context deadline exceeded")) {
			late += event.Count
		}
	}
	reported := world.Told(events, reason)
	if reported < 1 || reported > 1+late || world.Told(events, "FailedGetScale", "FailedRescale", "FailedUpdateStatus") != late {
		t.Errorf("%s: events = %+v, want one with %s", job, events, reason)
	}
}

// notPlaced checks that allocations that cannot be placed are counted as replicas and reported
// once.
func notPlaced(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("large", 40)
	agent.Run(t, nomadtest.Job{ID: "large", Count: 1, Memory: 60_000})
	agent.AwaitRunning(t, "large", 1, patience)
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("large", 1, 5))
	wait.For(t, patience, "count of 4", func() (string, bool) {
		count := agent.Count(t, "large")
		return fmt.Sprint(count), count == 4
	})
	condition := w.Await("large", nomad.InsufficientCapacity, nomad.ResourcesExhausted, `dimension "memory" exhausted on 1 nodes`)
	if condition.Status != policy.ConditionTrue || !strings.HasPrefix(condition.Message, `1 allocations of group "app" are queued: `) {
		t.Errorf("got %+v, want one queued allocation", condition)
	}
	w.Passes("large", 3)
	if reported := world.Told(w.View("large").Events, string(nomad.InsufficientCapacity)); reported != 1 {
		t.Errorf("InsufficientCapacity events = %d, want 1", reported)
	}
	status := w.View("large").Status
	running := len(agent.Running(t, "large"))
	if running >= 4 || int(status.CurrentReplicas) != 4 {
		t.Errorf("running allocations = %d and current replicas = %d, want fewer than 4, and 4", running, status.CurrentReplicas)
	}
	l.Queue("large", 10)
	agent.AwaitRunning(t, "large", 1, patience)
	w.Await("large", nomad.InsufficientCapacity, "Resolved", "")
}

// failing checks that failing allocations are reported while Nomad restarts them and after their
// last attempt. They must not be counted twice, and hpad must not start replacements.
func failing(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("crashing", 20)
	run := func(attempts, code int, lifetime string) {
		agent.Run(t, nomadtest.Job{ID: "crashing", Count: 2, Alter: func(job *nomadapi.Job) {
			group := job.TaskGroups[0]
			group.Tasks[0].SetConfig("run_for", lifetime).SetConfig("exit_code", code)
			group.RestartPolicy = &nomadapi.RestartPolicy{Attempts: &attempts, Interval: new(time.Hour), Delay: new(time.Second), Mode: new("fail")}
			group.ReschedulePolicy = &nomadapi.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
		}})
	}
	run(1000, 3, "1s")
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("crashing", 1, 5))
	w.Await("crashing", nomad.AllocationsFailing, nomad.TasksRestarting, `task "main": Exit Code: 3`)
	run(0, 4, "1s")
	w.Await("crashing", nomad.AllocationsFailing, nomad.AllocationsFailed, `2 allocations of group "app" failed and have no replacement: crashing.app[0] (`)
	w.Passes("crashing", 3)
	wait.For(t, patience, "exactly two failed instances", func() (string, bool) {
		view := w.View("crashing")
		count := agent.Count(t, "crashing")
		return fmt.Sprintf("%+v, current replicas %d, count %d", view.Instances, view.Status.CurrentReplicas, count),
			view.Instances == api.Instances{Failed: 2} && view.Status.CurrentReplicas == 2 && count == 2
	})
	run(0, 0, "600s")
	agent.AwaitRunning(t, "crashing", 2, patience)
	w.Await("crashing", nomad.AllocationsFailing, "Resolved", "")
}
