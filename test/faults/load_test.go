package faults

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// TestLoad runs 2,000 autoscalers. The source of one tenth of them fails. The other autoscalers
// must be evaluated on time, and memory use must not grow. The soak version takes ten minutes.
func TestLoad(t *testing.T) {
	const autoscalers, seconds = 2000, 5
	w := newWorld(t, autoscalers, 0)
	broken := newFront(t, w.prometheus)
	broken.misbehave(respond(500, "text/plain", "boom"))
	w.source("broken", broken)
	for number := range autoscalers {
		source := "steady"
		if number%10 == 0 {
			source = "broken"
		}
		fmt.Fprintf(&w.config, `[autoscalers.%[1]s]
target       = { fleet = "steady", job = %[1]q, group = "app" }
min_replicas = 1
max_replicas = 20
[[autoscalers.%[1]s.metrics]]
type          = "External"
name          = "load"
source        = %[2]q
query         = '%[3]s'
select        = { service = %[1]q }
average_value = "%[4]d"
`, sim.JobID(number), source, sim.SharedQuery, sim.PerInstance)
	}
	p := program.Prepare(t, program.Options{Config: w.config.String(), Daemon: fmt.Sprintf("listen = \"\"\nsync_period = \"%ds\"\n", seconds)})
	p.Start()
	probe := sim.JobID(1)
	p.Passes(probe, 2) // fills all caches
	before := uses(t, p)
	late := p.Metric("hpad_autoscaler_late_passes_total", "")
	passes := soak.Rounds(3, 600/seconds)
	begun := p.Metric("hpad_reconciliations_total", "")
	for range passes {
		p.Passes(probe, 1)
		if health, err := p.Client.Health(t.Context()); err != nil || !health.Healthy || len(health.Unevaluated) > 0 {
			t.Fatalf("hpad is not healthy: %+v, %v", health, err)
		}
	}
	wait.For(t, patience, "end of the last passes", func() (string, bool) {
		made := p.Metric("hpad_reconciliations_total", "") - begun
		return fmt.Sprintf("%.0f passes in %d periods", made, passes), made >= 0.9*float64(passes*autoscalers)
	})
	if late = p.Metric("hpad_autoscaler_late_passes_total", "") - late; late > float64(passes*autoscalers)/4 {
		t.Errorf("%.0f of %d passes were late, want at most a quarter", late, passes*autoscalers)
	}
	if failing := p.Metric("hpad_autoscaler_failing", ""); failing != autoscalers/10 {
		t.Errorf("failing autoscalers in /metrics = %.0f, want %d", failing, autoscalers/10)
	}
	for number := range autoscalers {
		if writes := w.written(number); len(writes) > 0 {
			t.Errorf("%s was scaled by %+v, want no writes without a load change", sim.JobID(number), writes)
		}
	}
	wantNoLeak(t, p, before)
	broken.heal()
	wait.For(t, patience, "recovery of all autoscalers", func() (string, bool) {
		failing := p.Metric("hpad_autoscaler_failing", "")
		return fmt.Sprintf("%.0f fail", failing), failing == 0
	})
	p.Stop()
}
