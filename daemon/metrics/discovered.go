package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
)

var discoveredDesc = prometheus.NewDesc("hpad_discovered_targets",
	"Targets that a fleet found by their labels, by what became of the labels: active, disabled, mistaken or overridden.",
	[]string{"fleet", "state"}, nil)

// discoveries counts the targets that fleets found by their labels when somebody
// scrapes.
type discoveries Metrics

// Describe answers what Collect may.
func (d *discoveries) Describe(descs chan<- *prometheus.Desc) { descs <- discoveredDesc }

// Collect answers every state of every fleet that found a target.
func (d *discoveries) Collect(metrics chan<- prometheus.Metric) {
	show := d.discovered.Load()
	if show == nil {
		return
	}
	type group struct {
		fleet string
		state api.DiscoveredState
	}
	counts := map[group]int{}
	for _, target := range (*show)() {
		fleet, _, _ := strings.Cut(target.Reference, "/")
		for _, state := range api.DiscoveredStates {
			counts[group{fleet, state}] += 0
		}
		counts[group{fleet, target.State}]++
	}
	for of, count := range counts {
		metrics <- prometheus.MustNewConstMetric(discoveredDesc, prometheus.GaugeValue, float64(count), of.fleet, string(of.state))
	}
}
