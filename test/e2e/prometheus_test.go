package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

const syncPeriod = time.Second

// scrape returns a Prometheus configuration for all ports of the world and for hpad.
func (w *world) scrape() string {
	var text strings.Builder
	text.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: worker\n  static_configs:\n  - targets:\n")
	for port := w.first; port <= w.last; port++ {
		fmt.Fprintf(&text, "    - 127.0.0.1:%d\n", port)
	}
	fmt.Fprintf(&text, "- job_name: hpad\n  static_configs:\n  - targets: [%q]\n", w.listen)
	return text.String()
}

// awaitQuery waits until the query returns exactly one series with the value.
func awaitSeen(t *testing.T, server *promtest.Server, query string, value int) time.Time {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, fmt.Sprintf("prometheus answers %s with %d", query, value), 15*time.Second, func() (string, bool) {
		text, err := get(&client, queryURL(server.URL, query))
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
	return time.Now()
}

// change is a written count and its time.
type change struct {
	count int32
	at    time.Time
}

// changes waits until hpad writes the count until, and returns every count written since the
// call.
func (h *hpad) changes(until int32, limit time.Duration) []change {
	h.w.t.Helper()
	last := h.view().Status.LastScaleTime
	var all []change
	eventually(h.w.t, fmt.Sprintf("it is scaled to %d", until), limit, func() (string, bool) {
		if status := h.view().Status; status.LastScaleTime.After(last) {
			last = status.LastScaleTime
			all = append(all, change{status.DesiredReplicas, last})
		}
		return fmt.Sprint(all), len(all) > 0 && all[len(all)-1].count == until
	})
	return all
}

// wantSteps checks the counts and the minimum time between them.
func wantSteps(t *testing.T, got []change, least time.Duration, counts ...int32) {
	t.Helper()
	if len(got) != len(counts) {
		t.Fatalf("changes %v, want the counts %v", got, counts)
	}
	for i, each := range got {
		if each.count != counts[i] {
			t.Errorf("changes %v, want the counts %v", got, counts)
		}
		if i > 0 && each.at.Sub(got[i-1].at) < least {
			t.Errorf("changes %v: the step to %d came %s after the one before, want at least %s", got, each.count, each.at.Sub(got[i-1].at), least)
		}
	}
}

// wantNoSooner wants the first change only when the window has passed since the last tick that
// may have seen the load as it was before it was lowered.
func wantNoSooner(t *testing.T, first change, lowered time.Time, window time.Duration) {
	t.Helper()
	if earliest := lowered.Add(window - syncPeriod); first.at.Before(earliest) {
		t.Errorf("the first step down was at %s, want none before %s: the load was lowered at %s, and the window is %s", first.at, earliest, lowered, window)
	}
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	const window, period = 5 * time.Second, 3 * time.Second
	w := newWorld(t)
	server := promtest.Start(t, w.scrape())
	w.configure(setup{Prometheus: server.URL, Behavior: `[autoscalers.worker.behavior.scale_down]
stabilization_window = "5s"
policies = [{ type = "Instances", value = 2, period = "3s" }]
`})
	h := w.start()
	w.awaitWorkers(1)
	awaitSeen(t, server, "max(worker_queue_length)", 10)

	w.load("queue_length", 40)
	seen := awaitSeen(t, server, "max(worker_queue_length)", 40)
	grown := h.awaitCount(4, 10*time.Second)
	if took := grown.Status.LastScaleTime.Sub(seen); took > 2*syncPeriod {
		t.Errorf("it grew %s after prometheus had seen the load, want at most %s", took, 2*syncPeriod)
	}
	w.awaitWorkers(4)
	awaitSeen(t, server, `sum(up{job="worker"})`, 4)
	h.awaitView("a pass has seen the new count", 10*time.Second, func(view api.Autoscaler) bool { return view.Status.CurrentReplicas == 4 })
	awaitSeen(t, server, "max(hpad_autoscaler_current_replicas)", 4)
	w.wantSaid([]string{"get"}, "local/worker", "10/10 (avg)")
	w.wantSaid([]string{"describe", "worker"}, "SuccessfulRescale", "New size: 4; reason: external metric queue", "above target")
	w.wantSaid([]string{"explain", "worker"}, "External", "queue")

	lowered := time.Now()
	w.load("queue_length", 10)
	h.awaitView("the window holds the count", 10*time.Second, func(view api.Autoscaler) bool {
		s := view.Decision.Stabilization
		return s != nil && s.Reason == "ScaleDownStabilized" && s.Binding != nil && s.Binding.Replicas == 4
	})
	w.wantSaid([]string{"describe", "worker"}, "ScaleDownStabilized")
	w.wantSaid([]string{"explain", "worker"}, "ScaleDownStabilized", "R62")
	steps := h.changes(1, 30*time.Second)
	wantSteps(t, steps, period, 2, 1)
	wantNoSooner(t, steps[0], lowered, window)
	w.awaitWorkers(1)
	h.end()
	w.noneLeft()
}

// stabilized reports whether the scale-down window keeps four replicas.
func stabilized(view api.Autoscaler) bool {
	s := view.Decision.Stabilization
	return s != nil && s.Reason == "ScaleDownStabilized" && s.Binding != nil && s.Binding.Replicas == 4
}

// TestInstances matches the series to the workers by address.
func TestInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := promtest.Start(t, w.scrape())
	w.load("sessions", 30)
	w.configure(setup{Prometheus: server.URL, Max: 3, Metrics: `[[autoscalers.worker.metrics]]
type           = "Instances"
name           = "sessions"
source         = "prom"
query          = 'worker_sessions'
instance_label = "instance"
match          = "address"
average_value  = "10"
`})
	h := w.start()
	h.awaitCount(3, 20*time.Second)
	h.awaitView("each worker has its series", 20*time.Second, func(view api.Autoscaler) bool {
		metrics := view.Decision.Metrics
		return len(metrics) == 1 && metrics[0].Groups != nil && *metrics[0].Groups == policy.Groups{Ready: 3}
	})
	w.load("sessions", 6) // ceil(3 × 6/10) = 2, and then 6 × 2 / 10 is still 2
	steps := h.changes(2, 20*time.Second)
	wantSteps(t, steps, 0, 2)
	h.signal(syscall.SIGINT)
	h.ended(0)
	w.noneLeft()
}
