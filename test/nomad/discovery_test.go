package nomad

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// labeledJob returns a job file that contains labels for an autoscaler.
func labeledJob(most, window string) string {
	return fmt.Sprintf(`
job "labeled" {
  group "app" {
    count = 1
    update {
      max_parallel = 0
    }
    meta = {
      "hpad.enable"                  = "true"
      "hpad.min"                     = "1"
      "hpad.max"                     = %q
      "hpad.metrics.0.type"          = "External"
      "hpad.metrics.0.name"          = "queue"
      "hpad.metrics.0.source"        = "prom"
      "hpad.metrics.0.query"         = "queue{of=\"labeled\"}"
      "hpad.metrics.0.average_value" = "10"

      "hpad.behavior.scale_down.stabilization_window" = %q
    }
    task "main" {
      driver = "mock_driver"
      config {
        run_for = "600s"
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
`, most, window)
}

// discovered returns the discovery result for a target.
func discovered(w *world.World, reference string) api.Discovered {
	for _, target := range w.Discovered() {
		if target.Reference == reference {
			return target
		}
	}
	return api.Discovered{}
}

// discovery checks that an autoscaler is created and removed with a labeled job, and follows
// changes of the labels in the job's meta.
func discovery(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	const name = "prod/labeled/app"
	text := fleet(agent.URL, "discover = true") + l.Source()
	w := world.New(t, text)
	state := func(want api.DiscoveredState, words string) {
		t.Helper()
		wait.For(t, patience, fmt.Sprintf("%s with %q", want, words), func() (string, bool) {
			target := discovered(w, name)
			return fmt.Sprintf("%+v", target), target.State == want && strings.Contains(target.Problem, words)
		})
	}
	if views := w.Autoscalers(); len(views) != 0 {
		t.Fatalf("autoscalers without labels = %+v, want none", views)
	}

	// The autoscaler is created with the job.
	l.Queue("labeled", 100)
	agent.RunFile(t, labeledJob("4", "10m"))
	agent.AwaitRunning(t, "labeled", 4, patience)
	state(api.DiscoveredActive, "")
	w.Passes(name, 2)
	if view := w.View(name); view.Spec.MaxReplicas != 4 || view.Kind != "nomad" {
		t.Errorf("got %+v, want the limits in the meta", view)
	}

	// Changed meta takes effect. If the meta becomes invalid, the last valid settings remain in
	// use.
	l.Queue("labeled", 100)
	agent.RunFile(t, labeledJob("6", "2s"))
	agent.AwaitRunning(t, "labeled", 6, patience)
	agent.RunFile(t, labeledJob("many", "2s"))
	state(api.DiscoveredInvalid, "hpad.max")
	l.Queue("labeled", 20)
	agent.AwaitRunning(t, "labeled", 2, patience)
	if most := w.View(name).Spec.MaxReplicas; most != 6 {
		t.Errorf("max_replicas with invalid meta = %d, want 6 as before", most)
	}
	agent.RunFile(t, labeledJob("3", "2s"))
	state(api.DiscoveredActive, "")
	l.Queue("labeled", 100)
	agent.AwaitRunning(t, "labeled", 3, patience)

	// An autoscaler in the configuration takes precedence.
	w.Restart(text + queued("labeled", 1, 2))
	state(api.DiscoveredOverridden, "")
	agent.AwaitRunning(t, "labeled", 2, patience)
	if _, exists := w.Autoscaler(name); exists || discovered(w, name).Autoscaler != "labeled" {
		t.Errorf("discovered = %+v, want a target that the configuration overrides", w.Discovered())
	}
	w.Restart(text)
	state(api.DiscoveredActive, "")
	agent.AwaitRunning(t, "labeled", 3, patience)

	// A stopped job keeps its autoscaler. A purged job does not.
	if _, _, err := agent.Client.Jobs().Deregister("labeled", false, nil); err != nil {
		t.Fatal(err)
	}
	w.Await(name, policy.AbleToScale, nomad.JobStopped, "")
	w.Passes(name, 5)
	if _, _, err := agent.Client.Jobs().Deregister("labeled", true, nil); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "removal of the autoscaler", func() (string, bool) {
		_, exists := w.Autoscaler(name)
		return "the autoscaler still exists", !exists
	})

	// A parameterized job is scaled. The jobs dispatched from it have no autoscalers.
	kind := nomadapi.JobTypeBatch
	agent.Run(t, nomadtest.Job{ID: "order", Count: 1, Alter: func(job *nomadapi.Job) {
		job.Type = &kind
		job.ParameterizedJob = &nomadapi.ParameterizedJobConfig{Payload: "optional"}
		job.TaskGroups[0].Update = nil
		job.TaskGroups[0].Meta = map[string]string{"hpad.enable": "true", "hpad.max": "3", "hpad.cpu": "60"}
	}})
	launched, _, err := agent.Client.Jobs().Dispatch("order", nil, nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	agent.AwaitRunning(t, launched.DispatchedJobID, 1, patience)
	const parent = "prod/order/app"
	wait.For(t, patience, "autoscaler of the parameterized job", func() (string, bool) {
		_, exists := w.Autoscaler(parent)
		return "the autoscaler does not exist", exists
	})
	w.Passes(parent, 2)
	if got := w.View(parent).Status.CurrentReplicas; got != 1 {
		t.Errorf("the parameterized job has %d children, want 1", got)
	}
	if got := discovered(w, "prod/"+launched.DispatchedJobID+"/app"); got.Reference != "" {
		t.Errorf("discovered %+v, want only the submitted job", got)
	}
}

// scaledJob returns a job file with a scaling block of nomad-autoscaler.
func scaledJob(name, extra, enabled, check string) string {
	return fmt.Sprintf(`
job %q {
  group "app" {
    count = 1
    update {
      max_parallel = 0
    }
    %s
    scaling {
      enabled = %s
      min     = 1
      max     = 5
      policy {
        cooldown            = "2s"
        evaluation_interval = "5s"
        check "queue" {
          source = "prom"
          query  = "queue{of=\"%s\"}"
          %s
        }
      }
    }
    task "main" {
      driver = "mock_driver"
      config {
        run_for = "600s"
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
`, name, extra, enabled, name, check)
}

// policies checks that the scaling blocks of five jobs define autoscalers, except for a disabled
// block, a group whose meta decides, and a strategy without an equivalent. A change by another writer
// is reported.
func policies(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	const ratio, wanted = `strategy "target-value" {
            target = 10
          }`, `strategy "pass-through" {}`
	const steps = `strategy "threshold" {
            lower_bound = 10
            delta       = 1
          }`
	w := world.New(t, fleet(agent.URL, "discover = true\nnomad_autoscaler_policies = true")+l.Source())
	for _, job := range []string{
		scaledJob("ratio", "", "true", ratio),
		scaledJob("wanted", "", "true", wanted),
		scaledJob("steps", "", "true", steps),
		scaledJob("disabled", "", "false", wanted),
		scaledJob("own", `meta = { "hpad.enable" = "false" }`, "true", wanted),
	} {
		agent.RunFile(t, job)
	}
	for name, value := range map[string]float64{"ratio": 20, "wanted": 4, "steps": 50, "disabled": 4, "own": 4} {
		l.Queue(name, value)
	}
	agent.AwaitRunning(t, "wanted", 4, patience)
	agent.AwaitRunning(t, "ratio", 5, patience) // the value stays at twice the target
	for name, want := range map[string]api.DiscoveredState{"ratio": api.DiscoveredActive, "wanted": api.DiscoveredActive, "steps": api.DiscoveredInvalid, "own": api.DiscoveredDisabled} {
		wait.For(t, patience, name+" is "+string(want), func() (string, bool) {
			target := discovered(w, "prod/"+name+"/app")
			return fmt.Sprintf("%+v", target), target.State == want && strings.Contains(target.Problem, "threshold") == (want == api.DiscoveredInvalid)
		})
	}
	if target := discovered(w, "prod/disabled/app"); target.Reference != "" {
		t.Errorf("a disabled block defines %+v", target)
	}
	l.Queue("wanted", 2)
	agent.AwaitRunning(t, "wanted", 2, patience)
	for _, name := range []string{"steps", "disabled", "own"} {
		if count := agent.Count(t, name); count != 1 {
			t.Errorf("job %s has %d allocations, want 1", name, count)
		}
	}

	// nomad-autoscaler would set counts as well.
	three := 3
	if _, _, err := agent.Client.Jobs().Scale("wanted", "app", &three, "scaling up", false, nil, nil); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the other writer is reported", func() (string, bool) {
		conditions := w.View("prod/wanted/app").Status.Conditions
		return fmt.Sprintf("%+v", conditions), slices.ContainsFunc(conditions, func(c policy.Condition) bool { return c.Type == policy.ForeignWriter })
	})
}
