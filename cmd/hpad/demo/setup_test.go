package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/targets/process"
)

// parse returns the configuration of a setup.
func parse(t *testing.T, setup Setup) *config.Config {
	t.Helper()
	c, err := config.Parse("demo.toml", setup.Config())
	if err != nil {
		t.Fatalf("%v\n%s", err, setup.Config())
	}
	return c
}

func TestConfigHoldsTheSetup(t *testing.T) {
	setup := Setup{
		Listen: "127.0.0.1:1", Socket: `/tmp/a "b" \c/ü/hpad.sock`, StateDir: `/tmp/a "b" \c/ü/state`,
		Worker: []string{`/tmp/a "b", \c/ü/hpad`, "demo", "worker", "--queue"}, Queue: "127.0.0.1:2", FirstPort: 3000,
		Duration: time.Minute,
	}
	c := parse(t, setup)
	if c.Daemon.Listen != setup.Listen || c.Daemon.Socket != setup.Socket || c.Daemon.StateDir != setup.StateDir {
		t.Errorf("[daemon] = %+v, want what is in %+v", c.Daemon, setup)
	}
	fleet := c.Fleets["local"].Config.(*process.Config)
	worker := fleet.Services["worker"]
	if want := append(slices.Clone(setup.Worker), "http://127.0.0.1:2"); !slices.Equal(worker.Command, want) {
		t.Errorf("command = %q, want %q", worker.Command, want)
	}
	if worker.Ports != "3000-3019" {
		t.Errorf("ports = %q, want 3000-3019", worker.Ports)
	}
	source := c.Sources["own"].Config.(*embedded.Config)
	if got := source.Scrape[0].Addresses; !slices.Equal(got, []string{"127.0.0.1:2"}) {
		t.Errorf("scrapes %q, want the queue", got)
	}
	spec := c.Autoscalers[Autoscaler].Spec
	if len(spec.Metrics) != 2 || spec.MaxReplicas != MaxWorkers || c.Autoscalers[Autoscaler].SyncPeriod != time.Second {
		t.Errorf("autoscaler = %+v, want two metrics, at most %d workers and a period of 1s", c.Autoscalers[Autoscaler], MaxWorkers)
	}
}

func TestWindowFitsTheDuration(t *testing.T) {
	for duration, want := range map[time.Duration]int32{
		MinDuration: 3, 90 * time.Second: 8, 2 * time.Minute: 10, 3 * time.Minute: 15, 4 * time.Minute: 10, time.Hour: 15,
	} {
		spec := parse(t, Example(duration)).Autoscalers[Autoscaler].Spec
		if got := *spec.Behavior.ScaleDown.StabilizationWindowSeconds; got != want {
			t.Errorf("a demo of %v has a window of %ds, want %ds", duration, got, want)
		}
	}
}
