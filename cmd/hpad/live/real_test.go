package live

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

// TestRealServer checks a configuration with a Prometheus server.
func TestRealServer(t *testing.T) {
	server := promtest.Start(t, "scrape_configs: []\n")
	c, err := config.Parse("hpad.toml", fmt.Appendf(nil, `
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command  = ["/nonexistent/worker"]
replicas = 3

[sources.prom]
kind = "prometheus"
url  = %q

[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
max_replicas = 5

[[autoscalers.worker.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = 'vector(7.5)'
average_value = "3"

[[autoscalers.worker.metrics]]
type          = "External"
name          = "nothing"
source        = "prom"
query         = 'nothing_like_it'
average_value = "3"

[[autoscalers.worker.metrics]]
type          = "External"
name          = "mistaken"
source        = "prom"
query         = 'sum('
average_value = "3"
`, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	type expected struct {
		key     string
		problem bool
		text    string
	}
	want := []expected{
		{"fleets.local", false, "/nonexistent/worker: no such file or directory"},
		{"fleets.local", false, "reads 1 target"},
		{"sources.prom", false, "responds to queries; its version is "},
		{"autoscalers.worker.target", false, "local/worker: starts with 3 replicas; no running hpad has it"},
		{"autoscalers.worker.target", true, "ProcessesFailing, ProcessNotStarted: service \"worker\" cannot be started"},
		{"autoscalers.worker.metrics[0]", false, "External queue: 1 series, total 7.5"},
		{"autoscalers.worker.metrics[1]", true, ""},
		{"autoscalers.worker.metrics[2]", true, "sum("},
	}
	got := Check(context.Background(), c, nil)
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i].Key != w.key || got[i].Problem != w.problem || !strings.Contains(got[i].Text, w.text) {
			t.Errorf("finding %d = %+v, want %+v", i, got[i], w)
		}
	}
}
