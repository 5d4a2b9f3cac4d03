package e2e

import (
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/program"
)

// TestReload reloads valid and invalid configurations while the scale-down window is active.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	s := setup{Behavior: "[autoscalers.worker.behavior.scale_down]\nstabilization_window = \"30s\"\n"}
	w.start(s)
	w.load("queue_length", 40)
	w.awaitCount(4)
	before := w.awaitWorkers(4)
	w.load("queue_length", 10)
	held := w.awaitView("the window keeps the count", stabilized)

	w.write("[daemon]\nlisten = \"127.0.0.1:0\"\nsink_period = \"1s\"\n")
	h.signal(syscall.SIGHUP)
	h.awaitSaid("reload failed, previous configuration stays active", "sink_period")
	got := w.hpad("reload")
	if got.code != 1 || !strings.Contains(got.err, "hpad.toml:3") || !strings.Contains(got.err, "sync_period") || !strings.Contains(got.err, "still in force") {
		t.Errorf("hpad reload with a mistake ended with %d and said %q", got.code, got.err)
	}
	w.Signal(syscall.SIGHUP)
	w.awaitLogged("reload failed; the old configuration stays in force", "sink_period")
	output, code := w.CLI("reload")
	if code != 1 || !strings.Contains(output, "hpad.toml:3") || !strings.Contains(output, "sync_period") || !strings.Contains(output, "still in force") {
		t.Errorf("hpad reload with an unknown key: exit code %d, output %q", code, output)
	}
	output, code = w.CLI("check", w.File())
	if code != 3 || !strings.Contains(output, "hpad.toml:3") {
		t.Errorf("hpad check with an unknown key: exit code %d, output %q", code, output)
	}
	if text := w.metrics(); !strings.Contains(text, "\nhpad_config_last_reload_successful 0\n") || !strings.Contains(text, `hpad_config_reloads_total{result="failure"} 2`) {
		t.Errorf("/metrics lacks two failed reloads:\n%s", text)
	}

	s.Metrics = strings.ReplaceAll(queueMetric, `"10"`, `"9"`)
	w.Configure(s.toml(w))
	w.Signal(syscall.SIGHUP)
	reloaded := w.awaitView("the target value is the new one", func(view api.Autoscaler) bool {
		return view.Decision.Metrics[0].GoalValue == 9000 && stabilized(view)
	})
	if since := reloaded.Decision.Stabilization.Binding.Time; !since.Before(held.Decision.Time) {
		t.Errorf("the recommendation is of %s, want one before %s, when the window was active before the reload", since, held.Decision.Time)
	}
	if after := w.awaitWorkers(4); !maps.Equal(before, after) {
		t.Errorf("got workers %v after the reloads, want %v", after, before)
	}
	// hpad sets the metric after it activates the configuration.
	eventually(t, "the metric has a successful reload", func() (string, bool) {
		text := w.metrics()
		return text, strings.Contains(text, "\nhpad_config_last_reload_successful 1\n")
	})

	s.Max = 2
	w.Configure(s.toml(w))
	w.wantOutput([]string{"reload"}, "reloaded")
	w.awaitCount(2)
	w.awaitWorkers(2)
	w.Stop()
	w.awaitNoProcesses()
}
