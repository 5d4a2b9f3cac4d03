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
	// The group ends before the agent does.
	t.Run("cases", func(t *testing.T) {
		for name, run := range map[string]func(t *testing.T, agent *nomadtest.Agent, l *world.Load){
			"cpu":            cpu,
			"checks":         checks,
			"readiness":      readiness,
			"discovery":      discovery,
			"instances":      instances,
			"deployment":     deployment,
			"canary":         canary,
			"zero":           zero,
			"scaling bounds": scalingBounds,
			"unscalable":     unscalable,
			"no place":       noPlace,
			"failing":        failing,
			"resubmitted":    resubmitted,
			"odd ids":        oddIDs,
			"finished work":  finishedWork,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, agent, l)
			})
		}
	})
}

// oddIDs: jobs whose IDs contain special characters of Nomad's filters are scaled, and so are
// others.
func oddIDs(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	jobs := []string{"plain", `"`, `a\"b`, "/a/b", "a`\"b", "a\nb", strings.Repeat("x", 2000)}
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

// finishedWork: work of batch jobs that has finished is not run again: of a group that is
// complete, of a group beside the target, and of the launch of a periodic job. Batch jobs
// without finished work are scaled.
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
		t.Fatalf("launches %v, %v", launches, err)
	}
	finished := map[string]struct {
		id                   string
		count, complete, all int
	}{"done": {"done", 3, 3, 3}, "beside": {"beside", 2, 1, 3}, "launched": {launches[0].ID, 1, 1, 1}}
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
			t.Errorf("%s: count %d with %d allocations, want %d and %d", name, agent.Count(t, job.id), all, job.count, job.all)
		}
	}
}

// cpu: a burning group grows to its maximum, an idle one shrinks to its minimum.
func cpu(t *testing.T, agent *nomadtest.Agent, _ *world.Load) {
	busy := filepath.Join(t.TempDir(), "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	agent.Run(t, nomadtest.Job{ID: "burner", Count: 1, CPU: 50, Script: fmt.Sprintf(
		`while :; do if [ -e %s ]; then n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 0.1; else sleep 0.5; fi; done`, busy)})
	agent.AwaitRunning(t, "burner", 1, patience)
	world.New(t, fleet(agent.URL, "")+`
[autoscalers.burner]
target       = { fleet = "prod", job = "burner", group = "app" }
min_replicas = 1
max_replicas = 3
[[autoscalers.burner.metrics]]
type                = "ContainerResource"
task                = "main"
resource            = "cpu"
average_utilization = 60
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
			t.Errorf("scaling event %+v does not tell that hpad did it, and why", event)
		}
		if event.Count == nil || event.Meta["from"] != float64(event.PreviousCount) || event.Meta["to"] != float64(*event.Count) || event.Message != fmt.Sprint("hpad: ", event.Meta["reason"]) {
			t.Errorf("scaling event %+v does not tell the decision", event)
		}
	}
}

// instances: a metric by allocation finds its instances by their ids, and an
// External metric is queried beside it; the larger result counts.
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
		t.Errorf("count %d, want 3: 300 requests at 100 each, and none for the new one", count)
	}
	l.Queue("shop", 45)
	agent.AwaitRunning(t, "shop", 5, patience)
}

// deployment: during a deployment hpad waits and reports it, and acts afterwards.
func deployment(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("deployed", 10)
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true, Alter: func(job *nomadapi.Job) {
		// An allocation that is not there keeps the deployment from ending.
		job.Constrain(nomadapi.NewConstraint("${meta.never}", "=", "there"))
	}})
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("deployed", 1, 5))
	w.Await("deployed", policy.AbleToScale, nomad.DeploymentActive, "1 allocations of group \"app\" are queued")
	l.Queue("deployed", 30)
	w.Passes("deployed", 3)
	if count := agent.Count(t, "deployed"); count != 1 {
		t.Errorf("count %d during a deployment, want 1", count)
	}
	toldOnce(t, w, "deployed", nomad.DeploymentActive)
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true})
	agent.AwaitRunning(t, "deployed", 3, patience)
	w.Await("deployed", policy.AbleToScale, "ReadyForNewScale", "")
}

// canary: a canary is not counted, and the count waits for the promotion.
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
		return fmt.Sprintf("%d allocations run", n), n == 3
	})
	w.Passes("bird", 2)
	if got := w.View("bird").Status.CurrentReplicas; got != 2 {
		t.Errorf("current replicas are %d with a canary, want 2", got)
	}
	d, _, err := agent.Client.Jobs().LatestDeployment("bird", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Queue("bird", 40)
	wait.For(t, patience, "promotion of the canary", func() (string, bool) {
		_, _, err := agent.Client.Deployments().PromoteAll(d.ID, nil) // not before it is healthy
		return fmt.Sprint(err), err == nil
	})
	agent.AwaitRunning(t, "bird", 4, patience)
}

// zero: to zero and back on an External metric, and a count of 0 that a person set
// turns the autoscaler off (R51).
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
		t.Errorf("count %d, want that 0 stays", count)
	}
}

// resubmitted: a job that is run again with its file's count is noticed. The count
// is accepted, or put back although hpad may not scale down for the metric.
func resubmitted(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	for job, answer := range map[string]string{"taken": "accept", "kept": "restore"} {
		l.Queue(job, 40)
		agent.Run(t, nomadtest.Job{ID: job, Count: 1})
		text := strings.NewReplacer(
			"[autoscalers."+job+"]\n", "[autoscalers."+job+"]\non_foreign_change = \""+answer+"\"\n",
			`stabilization_window = "2s"`, `select_policy = "Disabled"`,
		).Replace(queued(job, 1, 5))
		w := world.New(t, fleet(agent.URL, "")+l.Source()+text)
		agent.AwaitRunning(t, job, 4, patience)
		w.Passes(job, 2)
		agent.Run(t, nomadtest.Job{ID: job, Count: 5})
		if answer == "restore" {
			w.Await(job, policy.ForeignWriter, "Rescaled", "")
			agent.AwaitRunning(t, job, 4, patience)
		} else {
			w.Await(job, policy.ForeignWriter, "CountChanged", "from 4 to 5")
			w.Passes(job, 3)
			if count := agent.Count(t, job); count != 5 {
				t.Errorf("count %d, want the 5 that were accepted", count)
			}
		}
		if told := world.Told(w.View(job).Events, string(policy.ForeignWriter)); told != 1 {
			t.Errorf("%s: %d events of ForeignWriter, want one", answer, told)
		}
		w.Stop()
	}
}

// scalingBounds: the bounds of the job's own scaling block hold.
func scalingBounds(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("bounded", 100)
	low, high, on := int64(1), int64(3), false
	agent.Run(t, nomadtest.Job{ID: "bounded", Count: 1, Alter: func(job *nomadapi.Job) {
		job.TaskGroups[0].Scaling = &nomadapi.ScalingPolicy{Min: &low, Max: &high, Enabled: &on}
	}})
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("bounded", 1, 9))
	agent.AwaitRunning(t, "bounded", 3, patience)
	w.Await("bounded", policy.ScalingLimited, "PlatformMax", "")
}

// unscalable: jobs without counts report the reason once.
func unscalable(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	typed := func(kind string) func(job *nomadapi.Job) { return func(job *nomadapi.Job) { job.Type = &kind } }
	var text strings.Builder
	text.WriteString(fleet(agent.URL, "") + l.Source())
	reasons := map[string]string{"everywhere": nomad.SystemJob, "sweep": nomad.SysBatchJob, "nightly": nomad.PeriodicJob, "form": nomad.ParameterizedJob}
	for job, alter := range map[string]func(job *nomadapi.Job){
		"everywhere": typed(nomadapi.JobTypeSystem),
		"sweep":      typed(nomadapi.JobTypeSysbatch),
		"nightly": func(job *nomadapi.Job) {
			typed(nomadapi.JobTypeBatch)(job)
			job.AddPeriodicConfig(&nomadapi.PeriodicConfig{Spec: new("0 0 1 1 *"), SpecType: new(nomadapi.PeriodicSpecCron)})
		},
		"form": func(job *nomadapi.Job) {
			typed(nomadapi.JobTypeBatch)(job)
			job.ParameterizedJob = &nomadapi.ParameterizedJobConfig{Payload: "optional"}
		},
	} {
		agent.Run(t, nomadtest.Job{ID: job, Count: 1, Alter: func(built *nomadapi.Job) {
			alter(built)
			if *built.Type != nomadapi.JobTypeSystem {
				built.TaskGroups[0].Update = nil // only services and system jobs have one
			}
		}})
		l.Queue(job, 30)
		text.WriteString(queued(job, 1, 5))
	}
	w := world.New(t, text.String())
	for job, reason := range reasons {
		w.Await(job, policy.AbleToScale, reason, job)
		w.Passes(job, 2)
		if active := w.Condition(job, policy.ScalingActive); active.Status != policy.ConditionFalse || active.Reason != reason {
			t.Errorf("%s: %+v, want that it cannot be scaled", job, active)
		}
		toldOnce(t, w, job, reason)
	}
}

// toldOnce fails unless one event of a reason reports its start, and none an error.
func toldOnce(t *testing.T, w *world.World, job, reason string) {
	t.Helper()
	events := w.View(job).Events
	late := int64(0) // reads that timed out on a slow host, after which the reason starts again
	for _, event := range events {
		if event.Reason == "FailedGetScale" && (strings.Contains(event.Message, "no answer within") || strings.Contains(event.Message, "context deadline exceeded")) {
			late += event.Count
		}
	}
	told := world.Told(events, reason)
	if told < 1 || told > 1+late || world.Told(events, "FailedGetScale", "FailedRescale", "FailedUpdateStatus") != late {
		t.Errorf("%s: events %+v, want one, %s", job, events, reason)
	}
}

// noPlace: allocations that find no place do not count as there.
func noPlace(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	l.Queue("large", 40)
	agent.Run(t, nomadtest.Job{ID: "large", Count: 1, Memory: 60_000})
	agent.AwaitRunning(t, "large", 1, patience)
	w := world.New(t, fleet(agent.URL, "")+l.Source()+queued("large", 1, 5))
	wait.For(t, patience, "count of 4", func() (string, bool) {
		count := agent.Count(t, "large")
		return fmt.Sprintf("it is %d", count), count == 4
	})
	short := w.Await("large", nomad.InsufficientCapacity, nomad.ResourcesExhausted, `dimension "memory" exhausted on 1 nodes`)
	if short.Status != policy.ConditionTrue || !strings.HasPrefix(short.Message, `1 allocations of group "app" are queued: `) {
		t.Errorf("%+v, want that one allocation waits", short)
	}
	w.Passes("large", 3)
	if told := world.Told(w.View("large").Events, string(nomad.InsufficientCapacity)); told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	status := w.View("large").Status
	running := len(agent.Running(t, "large"))
	if running >= 4 || int(status.CurrentReplicas) != 4 {
		t.Errorf("%d run, current replicas are %d, want fewer than the count of 4", running, status.CurrentReplicas)
	}
	l.Queue("large", 10)
	agent.AwaitRunning(t, "large", 1, patience)
	w.Await("large", nomad.InsufficientCapacity, "Resolved", "")
}

// failing: failed allocations are shown with Nomad's error, while they wait for a restart and
// after Nomad gives up; none is counted twice or replaced by hpad.
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
	wait.For(t, patience, "two instances that failed and no other", func() (string, bool) {
		view := w.View("crashing")
		count := agent.Count(t, "crashing")
		return fmt.Sprintf("they are %+v, current replicas %d, the count %d", view.Instances, view.Status.CurrentReplicas, count),
			view.Instances == api.Instances{Failed: 2} && view.Status.CurrentReplicas == 2 && count == 2
	})
	run(0, 0, "600s")
	agent.AwaitRunning(t, "crashing", 2, patience)
	w.Await("crashing", nomad.AllocationsFailing, "Resolved", "")
}
