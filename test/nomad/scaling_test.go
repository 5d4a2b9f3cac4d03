package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// TestNomad runs the cases that can share one agent and one Prometheus.
func TestNomad(t *testing.T) {
	agent := nomadtest.Start(t, nomadtest.Options{})
	l := newLoad(t)
	// The group ends before the agent does.
	t.Run("cases", func(t *testing.T) {
		for name, run := range map[string]func(t *testing.T, agent *nomadtest.Agent, l *load){
			"cpu":             cpu,
			"instances":       instances,
			"deployment":      deployment,
			"canary":          canary,
			"stopped":         stopped,
			"purged":          purged,
			"renamed group":   renamedGroup,
			"zero":            zero,
			"scaling bounds":  scalingBounds,
			"unscalable":      unscalable,
			"no place":        noPlace,
			"compare and set": compareAndSet,
			"resubmitted":     resubmitted,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, agent, l)
			})
		}
	})
}

// cpu: a burning group grows to its maximum, an idle one shrinks to its minimum.
func cpu(t *testing.T, agent *nomadtest.Agent, _ *load) {
	busy := filepath.Join(t.TempDir(), "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	agent.Run(t, nomadtest.Job{ID: "burner", Count: 1, CPU: 50, Script: fmt.Sprintf(
		`while :; do if [ -e %s ]; then n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; sleep 0.1; else sleep 0.5; fi; done`, busy)})
	agent.AwaitRunning(t, "burner", 1, patience)
	newWorld(t, fleet(agent.URL, "")+`
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
	}
}

// instances: a metric by allocation finds its instances by their ids, and an
// External metric is asked beside it; the larger answer counts.
func instances(t *testing.T, agent *nomadtest.Agent, l *load) {
	agent.Run(t, nomadtest.Job{ID: "shop", Count: 2})
	agent.AwaitRunning(t, "shop", 2, patience)
	for id := range agent.Running(t, "shop") {
		l.set(fmt.Sprintf("requests{alloc_id=%q}", id), 150)
	}
	l.queue("shop", 5)
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("shop", 1, 5)+`
[[autoscalers.shop.metrics]]
type           = "Instances"
name           = "requests"
source         = "prom"
query          = 'sum by (alloc_id) (requests)'
instance_label = "alloc_id"
average_value  = "100"
`)
	agent.AwaitRunning(t, "shop", 3, patience)
	w.passes("shop", 2)
	if count := agent.Count(t, "shop"); count != 3 {
		t.Errorf("count %d, want 3: 300 requests at 100 each, and none for the new one", count)
	}
	l.queue("shop", 45)
	agent.AwaitRunning(t, "shop", 5, patience)
}

// deployment: while one runs hpad waits and says so, and acts once it is over.
func deployment(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("deployed", 10)
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true, Alter: func(job *nomadapi.Job) {
		// An allocation that is not there keeps the deployment from ending.
		job.Constrain(nomadapi.NewConstraint("${meta.never}", "=", "there"))
	}})
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("deployed", 1, 5))
	w.await("deployed", policy.AbleToScale, nomad.DeploymentActive, "1 allocations of group \"app\" wait for a place")
	l.queue("deployed", 30)
	w.passes("deployed", 3)
	if count := agent.Count(t, "deployed"); count != 1 {
		t.Errorf("count %d during a deployment, want 1", count)
	}
	if events := w.autoscaler("deployed").Events; countOf(events, "FailedRescale", "FailedUpdateStatus", "FailedGetScale") > 0 {
		t.Errorf("events %+v, want no storm of errors", events)
	}
	agent.Run(t, nomadtest.Job{ID: "deployed", Count: 1, Deployed: true})
	agent.AwaitRunning(t, "deployed", 3, patience)
	w.await("deployed", policy.AbleToScale, "ReadyForNewScale", "")
}

// canary: a canary is not counted, and the count waits for the promotion.
func canary(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("bird", 20)
	agent.Run(t, nomadtest.Job{ID: "bird", Count: 2, Deployed: true})
	agent.AwaitRunning(t, "bird", 2, patience)
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("bird", 1, 5))
	w.await("bird", policy.AbleToScale, "ReadyForNewScale", "")
	one := 1
	agent.Run(t, nomadtest.Job{ID: "bird", Count: 2, Deployed: true, Alter: func(job *nomadapi.Job) {
		job.TaskGroups[0].Update.Canary = &one
		job.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": "2"}
	}})
	w.await("bird", policy.AbleToScale, nomad.DeploymentActive, "requires manual promotion")
	wait.For(t, patience, "canary", func() (string, bool) {
		n := len(agent.Running(t, "bird"))
		return fmt.Sprintf("%d allocations run", n), n == 3
	})
	w.passes("bird", 2)
	if got := w.autoscaler("bird").Status.CurrentReplicas; got != 2 {
		t.Errorf("current replicas are %d with a canary, want 2", got)
	}
	d, _, err := agent.Client.Jobs().LatestDeployment("bird", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.queue("bird", 40)
	wait.For(t, patience, "promotion of the canary", func() (string, bool) {
		_, _, err := agent.Client.Deployments().PromoteAll(d.ID, nil) // not before it is healthy
		return fmt.Sprint(err), err == nil
	})
	agent.AwaitRunning(t, "bird", 4, patience)
}

// stopped: a stopped job is held, and scaled again when it is run again.
func stopped(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("halt", 20)
	agent.Run(t, nomadtest.Job{ID: "halt", Count: 2})
	agent.AwaitRunning(t, "halt", 2, patience)
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("halt", 1, 5))
	w.passes("halt", 1)
	if _, _, err := agent.Client.Jobs().Deregister("halt", false, nil); err != nil {
		t.Fatal(err)
	}
	w.await("halt", policy.AbleToScale, nomad.JobStopped, `job "halt" is stopped`)
	l.queue("halt", 40)
	w.passes("halt", 3)
	if count := agent.Count(t, "halt"); count != 2 {
		t.Errorf("count %d of a stopped job, want 2", count)
	}
	agent.Run(t, nomadtest.Job{ID: "halt", Count: 2})
	agent.AwaitRunning(t, "halt", 4, patience)
}

// purged: a job that is gone is said to be, and scaled again when it is back.
func purged(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("gone", 30)
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("gone", 1, 5))
	w.await("gone", policy.AbleToScale, nomad.JobNotFound, `there is no job "gone"`)
	agent.Run(t, nomadtest.Job{ID: "gone", Count: 1})
	agent.AwaitRunning(t, "gone", 3, patience)
	if _, _, err := agent.Client.Jobs().Deregister("gone", true, nil); err != nil {
		t.Fatal(err)
	}
	w.await("gone", policy.AbleToScale, nomad.JobNotFound, `there is no job "gone"`)
}

// renamedGroup: a group that the job lacks is named, with those it has.
func renamedGroup(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("renamed", 30)
	other := "api"
	agent.Run(t, nomadtest.Job{ID: "renamed", Count: 1, Alter: func(job *nomadapi.Job) { job.TaskGroups[0].Name = &other }})
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("renamed", 1, 5))
	w.await("renamed", policy.AbleToScale, nomad.GroupNotFound, `job "renamed" has no task group "app"; it has "api"`)
}

// zero: to zero and back on an External metric, and a count of 0 that a person set
// turns the autoscaler off (R51).
func zero(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("night", 0)
	agent.Run(t, nomadtest.Job{ID: "night", Count: 2})
	agent.AwaitRunning(t, "night", 2, patience)
	newWorld(t, fleet(agent.URL, "")+l.source()+queued("night", 0, 5))
	agent.AwaitRunning(t, "night", 0, patience)
	l.queue("night", 30)
	agent.AwaitRunning(t, "night", 3, patience)

	l.queue("upkeep", 30)
	agent.Run(t, nomadtest.Job{ID: "upkeep", Count: 0})
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("upkeep", 1, 5))
	w.await("upkeep", policy.ScalingActive, "ScalingDisabled", "")
	w.passes("upkeep", 3)
	if count := agent.Count(t, "upkeep"); count != 0 {
		t.Errorf("count %d, want that 0 stays", count)
	}
}

// resubmitted: a job that is run again with its file's count is noticed. The count
// is accepted, or put back although hpad may not scale down for the metric.
func resubmitted(t *testing.T, agent *nomadtest.Agent, l *load) {
	for job, answer := range map[string]string{"taken": "accept", "kept": "restore"} {
		l.queue(job, 40)
		agent.Run(t, nomadtest.Job{ID: job, Count: 1})
		text := strings.NewReplacer(
			"[autoscalers."+job+"]\n", "[autoscalers."+job+"]\non_foreign_change = \""+answer+"\"\n",
			`stabilization_window = "2s"`, `select_policy = "Disabled"`,
		).Replace(queued(job, 1, 5))
		w := newWorld(t, fleet(agent.URL, "")+l.source()+text)
		agent.AwaitRunning(t, job, 4, patience)
		w.passes(job, 2)
		agent.Run(t, nomadtest.Job{ID: job, Count: 5})
		if answer == "restore" {
			w.await(job, policy.ForeignWriter, "Rescaled", "")
			agent.AwaitRunning(t, job, 4, patience)
		} else {
			w.await(job, policy.ForeignWriter, "CountChanged", "from 4 to 5")
			w.passes(job, 3)
			if count := agent.Count(t, job); count != 5 {
				t.Errorf("count %d, want the 5 that were accepted", count)
			}
		}
		if events := w.autoscaler(job).Events; countOf(events, string(policy.ForeignWriter)) != 1 {
			t.Errorf("%s: events %+v, want one ForeignWriter", answer, events)
		}
		w.stop()
	}
}

// scalingBounds: the bounds of the job's own scaling block hold.
func scalingBounds(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("bounded", 100)
	low, high, on := int64(1), int64(3), false
	agent.Run(t, nomadtest.Job{ID: "bounded", Count: 1, Alter: func(job *nomadapi.Job) {
		job.TaskGroups[0].Scaling = &nomadapi.ScalingPolicy{Min: &low, Max: &high, Enabled: &on}
	}})
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("bounded", 1, 9))
	agent.AwaitRunning(t, "bounded", 3, patience)
	w.await("bounded", policy.ScalingLimited, "PlatformMax", "")
}

// unscalable: jobs without counts of their own say what they are, once.
func unscalable(t *testing.T, agent *nomadtest.Agent, l *load) {
	typed := func(kind string) func(job *nomadapi.Job) { return func(job *nomadapi.Job) { job.Type = &kind } }
	text := fleet(agent.URL, "") + l.source()
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
		l.queue(job, 30)
		text += queued(job, 1, 5)
	}
	w := newWorld(t, text)
	for job, reason := range reasons {
		w.await(job, policy.AbleToScale, reason, job)
		w.passes(job, 2)
		if active := w.condition(job, policy.ScalingActive); active.Status != policy.ConditionFalse || active.Reason != reason {
			t.Errorf("%s: %+v, want that it cannot be scaled", job, active)
		}
		events := w.autoscaler(job).Events
		if countOf(events, reason) != 1 || countOf(events, "FailedGetScale", "FailedRescale") != 0 {
			t.Errorf("%s: events %+v, want one, %s", job, events, reason)
		}
	}
}

// noPlace: allocations that find no place do not count as there.
func noPlace(t *testing.T, agent *nomadtest.Agent, l *load) {
	l.queue("large", 40)
	agent.Run(t, nomadtest.Job{ID: "large", Count: 1, Memory: 60_000})
	agent.AwaitRunning(t, "large", 1, patience)
	w := newWorld(t, fleet(agent.URL, "")+l.source()+queued("large", 1, 5))
	wait.For(t, patience, "count of 4", func() (string, bool) {
		count := agent.Count(t, "large")
		return fmt.Sprintf("it is %d", count), count == 4
	})
	short := w.await("large", nomad.InsufficientCapacity, nomad.ResourcesExhausted, `dimension "memory" exhausted on 1 nodes`)
	if short.Status != policy.ConditionTrue || !strings.HasPrefix(short.Message, `1 allocations of group "app" wait for a place: `) {
		t.Errorf("%+v, want that one allocation waits", short)
	}
	w.passes("large", 3)
	if told := countOf(w.autoscaler("large").Events, string(nomad.InsufficientCapacity)); told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	status := w.autoscaler("large").Status
	running := len(agent.Running(t, "large"))
	if running >= 4 || int(status.CurrentReplicas) != 4 {
		t.Errorf("%d run, current replicas are %d, want fewer than the count of 4", running, status.CurrentReplicas)
	}
	l.queue("large", 10)
	agent.AwaitRunning(t, "large", 1, patience)
	w.await("large", nomad.InsufficientCapacity, "Resolved", "")
}
