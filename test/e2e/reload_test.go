package e2e

import (
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/wait"
)

// TestReload reloads valid and invalid configurations while the scale-down window is active.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := setup{Behavior: "[autoscalers.worker.behavior.scale_down]\nstabilization_window = \"30s\"\n"}
	w.configure(s)
	h := w.start()
	w.load("queue_length", 40)
	h.awaitCount(4, 20*time.Second)
	w.awaitWorkers(4)
	w.load("queue_length", 10)
	held := h.awaitView("the window holds the count", 10*time.Second, stabilized)
	before := w.workers()

	w.write("[daemon]\nlisten = \"127.0.0.1:0\"\nsink_period = \"1s\"\n")
	h.signal(syscall.SIGHUP)
	h.awaitSaid("reload failed, previous configuration stays active", "sink_period")
	got := w.hpad("reload")
	if got.code != 1 || !strings.Contains(got.err, "hpad.toml:3") || !strings.Contains(got.err, "sync_period") || !strings.Contains(got.err, "still in force") {
		t.Errorf("hpad reload with a mistake ended with %d and said %q", got.code, got.err)
	}
	got = w.hpad("check", w.path("hpad.toml"))
	if got.code != 3 || !strings.Contains(got.err+got.out, "hpad.toml:3") {
		t.Errorf("hpad check with a mistake ended with %d and said %q", got.code, got.out+got.err)
	}
	if text := h.metrics(); !strings.Contains(text, "\nhpad_config_last_reload_successful 0\n") || !strings.Contains(text, `hpad_config_reloads_total{result="failure"} 2`) {
		t.Errorf("/metrics does not tell of two failed reloads:\n%s", text)
	}

	s.Metrics = strings.ReplaceAll(queueMetric, `"10"`, `"9"`)
	w.configure(s)
	h.signal(syscall.SIGHUP)
	reloaded := h.awaitView("the goal is the new one", 10*time.Second, func(view api.Autoscaler) bool {
		return view.Decision.Metrics[0].GoalValue == 9000 && stabilized(view)
	})
	if since := reloaded.Decision.Stabilization.Binding.Time; !since.Before(held.Decision.Time) {
		t.Errorf("the reload forgot the window: it is held by a recommendation of %s, and the reload was after %s", since, held.Decision.Time)
	}
	if after := w.workers(); !maps.Equal(before, after) {
		t.Errorf("over the reloads the workers became %v, they were %v", after, before)
	}
	// hpad sets the metric after it activates the configuration.
	wait.For(t, 10*time.Second, "the metric of a successful reload", func() (string, bool) {
		text := h.metrics()
		return text, strings.Contains(text, "\nhpad_config_last_reload_successful 1\n")
	})

	s.Max = 2
	w.configure(s)
	if got := w.hpad("reload"); got.code != 0 || !strings.Contains(got.out, "reloaded") {
		t.Errorf("hpad reload ended with %d and said %q", got.code, got.out+got.err)
	}
	h.awaitCount(2, 10*time.Second)
	w.awaitWorkers(2)
	h.end()
	w.noneLeft()
}
