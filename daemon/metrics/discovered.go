package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
)

var discoveredDesc = prometheus.NewDesc("hpad_discovered_targets",
	"Targets that a fleet found by their labels, by what became of the labels: active, disabled, mistaken or overridden.",
	[]string{"fleet", "state"}, nil)

// sendDiscovered counts the targets that fleets found by their labels: every state of
// every fleet that found one.
func sendDiscovered(discovered []api.Discovered, metrics chan<- prometheus.Metric) {
	type group struct {
		fleet string
		state api.DiscoveredState
	}
	counts := map[group]int{}
	for _, target := range discovered {
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
