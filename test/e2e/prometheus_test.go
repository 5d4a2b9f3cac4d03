package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

// scrape returns a Prometheus configuration that scrapes all worker ports and hpad.
func (w *fixture) scrape() string {
	var text strings.Builder
	text.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: worker\n  static_configs:\n  - targets:\n")
	for port := w.first; port <= w.last; port++ {
		fmt.Fprintf(&text, "    - 127.0.0.1:%d\n", port)
	}
	fmt.Fprintf(&text, "- job_name: hpad\n  static_configs:\n  - targets: [%q]\n", w.listen)
	return text.String()
}

// awaitQuery waits until the query returns exactly one series with the given value.
func awaitQuery(t *testing.T, server *promtest.Server, query string, value int) {
	t.Helper()
	client := newClient(5 * time.Second)
	eventually(t, fmt.Sprintf("%s is %d in Prometheus", query, value), func() (string, bool) {
		text, err := get(client, queryURL(server.URL, query))
		if err != nil {
			return err.Error(), false
		}
		var answer struct {
			Data struct{ Result []struct{ Value []any } }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			return err.Error(), false
		}
		result := answer.Data.Result
		return text, len(result) == 1 && result[0].Value[1] == fmt.Sprint(value)
	})
}

// change is a count that hpad wrote, with its time.
type change struct {
	count int32
	at    time.Time
}

// changes waits until the last count that hpad has written equals until. It returns all counts that
// hpad has written after since.
func (w *fixture) changes(since time.Time, until int32) (all []change) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("hpad scales to %d", until), func() (string, bool) {
		entries, err := w.Client.History(w.t.Context(), "worker", api.HistoryQuery{From: since})
		all = nil
		for _, entry := range entries {
			if entry.Written != nil {
				all = append(all, change{*entry.Written, entry.Time})
			}
		}
		return fmt.Sprint(all, err), len(all) > 0 && all[len(all)-1].count == until
	})
	return all
}

// wantSteps checks the counts and the minimum time between two writes.
func wantSteps(t *testing.T, got []change, least time.Duration, counts ...int32) {
	t.Helper()
	if len(got) != len(counts) {
		t.Fatalf("got changes %v, want counts %v", got, counts)
	}
	for i, each := range got {
		if each.count != counts[i] {
			t.Errorf("got changes %v, want counts %v", got, counts)
		}
		if i > 0 && each.at.Sub(got[i-1].at) < least {
			t.Errorf("changes %v: the step to %d came after %s, want at least %s", got, each.count, each.at.Sub(got[i-1].at), least)
		}
	}
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	server := promtest.Start(t, w.scrape())
	w.start(setup{Prometheus: server.URL, Behavior: `[autoscalers.worker.behavior.scale_down]
stabilization_window = "5s"
policies = [{ type = "Instances", value = 2, period = "3s" }]
`})
	w.awaitWorkers(1)
	awaitQuery(t, server, "max(worker_queue_length)", 10)

	w.load("queue_length", 40)
	w.awaitCount(4)
	w.awaitWorkers(4)
	awaitQuery(t, server, `sum(up{job="worker"})`, 4)
	w.awaitView("a pass has read the new count", func(view api.Autoscaler) bool { return view.Status.CurrentReplicas == 4 })
	awaitQuery(t, server, "max(hpad_autoscaler_current_replicas)", 4)
	w.wantOutput([]string{"get"}, "local/worker", "10/10 (avg)")
	w.wantOutput([]string{"describe", "worker"}, "SuccessfulRescale", "New size: 4; reason: external metric queue", "above target")
	w.wantOutput([]string{"explain", "worker"}, "External", "queue")

	lowered := time.Now()
	w.load("queue_length", 10)
	held := w.awaitView("the window keeps the count", stabilized)
	w.wantOutput([]string{"describe", "worker"}, "ScaleDownStabilized")
	w.wantOutput([]string{"explain", "worker"}, "ScaleDownStabilized", "R62")
	steps := w.changes(lowered, 1)
	wantSteps(t, steps, 3*time.Second, 2, 1)
	if earliest := held.Decision.Stabilization.BindingLeaves; steps[0].at.Before(earliest) {
		t.Errorf("the first step down was at %s, want at least %s, when the recommendation leaves the window", steps[0].at, earliest)
	}
	w.awaitWorkers(1)
	w.Stop()
	w.awaitNoProcesses()
}

// stabilized reports whether the scale-down window keeps four replicas.
func stabilized(view api.Autoscaler) bool {
	s := view.Decision.Stabilization
	return s != nil && s.Reason == "ScaleDownStabilized" && s.Binding != nil && s.Binding.Replicas == 4
}

// TestInstances checks that series are matched to workers by address.
func TestInstances(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	server := promtest.Start(t, w.scrape())
	w.load("sessions", 30)
	w.start(setup{Prometheus: server.URL, Max: 3, Metrics: `[[autoscalers.worker.metrics]]
type           = "Instances"
name           = "sessions"
source         = "prom"
query          = 'worker_sessions'
instance_label = "instance"
match          = "address"
average_value  = "10"
`})
	w.awaitCount(3)
	w.awaitView("each worker has its series", func(view api.Autoscaler) bool {
		metrics := view.Decision.Metrics
		return len(metrics) == 1 && metrics[0].Groups != nil && *metrics[0].Groups == policy.Groups{Ready: 3}
	})
	lowered := time.Now()
	w.load("sessions", 6) // ceil(3 × 6/10) = 2, and then 6 × 2 / 10 is still 2
	wantSteps(t, w.changes(lowered, 2), 0, 2)
	w.Signal(syscall.SIGINT)
	w.awaitExit("exit status 0")
	w.awaitNoProcesses()
}
