package live

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// discovering is a fleet that discovers the targets in found, or returns err.
type discovering struct {
	*targettest.Memory
	found []targets.Discovered
	err   error
}

func (f discovering) Discover(context.Context) ([]targets.Discovered, error) { return f.found, f.err }

// TestDiscovered checks that autoscalers defined by labels are checked, and that invalid labels
// and a failed discovery are reported.
func TestDiscovered(t *testing.T) {
	w := newWorld()
	w.fleet.Add("mine", targettest.MemoryTarget{Replicas: 1, Age: time.Hour})
	w.source.results["web"] = vector(labeled(1))
	ask := func(name string, given ...string) targets.Discovered {
		labels := map[string]string{
			"hpad.enable": "true", "hpad.max": "5", "hpad.metrics.0.type": "External", "hpad.metrics.0.name": "queue",
			"hpad.metrics.0.source": "prom", "hpad.metrics.0.query": name, "hpad.metrics.0.average_value": "1",
		}
		for i := 0; i < len(given); i += 2 {
			labels[given[i]] = given[i+1]
		}
		return targets.Discovered{Name: name, Labels: labels}
	}
	fleet := discovering{Memory: w.fleet, found: []targets.Discovered{
		ask("web"), ask("mine"), ask("off", "hpad.enable", "false"), ask("bad", "hpad.max", "many", "hpad.mim", "1"),
		{Name: "split", Problem: "containers have different labels"},
	}}
	w.buildFleet = func(string) (targets.Fleet, error) { return fleet, nil }
	shop := w.config.Fleets["shop"]
	shop.Discover = true
	w.config.Fleets["shop"] = shop
	own, _, err := w.config.Labeled(targets.Ref{Fleet: "shop", Name: "mine"}, ask("mine").Labels)
	if err != nil {
		t.Fatal(err)
	}
	own.Name = "own"
	w.config.Autoscalers["own"] = own
	w.source.results["mine"] = vector(labeled(1))

	findings := Check(t.Context(), w.config)
	var fleetFindings []Finding
	var keys []string
	for _, finding := range findings {
		keys = append(keys, finding.Key)
		if finding.Key == "fleets.shop" {
			fleetFindings = append(fleetFindings, finding)
		}
	}
	want := []Finding{
		{"fleets.shop", `the labels of shop/mine are ignored: autoscaler "own" in the configuration takes precedence`, false},
		{"fleets.shop", `the labels of shop/bad are invalid: hpad.max = "many": must be a whole number`, true},
		{"fleets.shop", `the labels of shop/bad are invalid: hpad.mim: unknown key; did you mean "min"?`, true},
		{"fleets.shop", `the labels of shop/split are not usable: containers have different labels`, true},
		{"fleets.shop", "discovers 1 target", false},
		{"fleets.shop", "reads 2 targets", false},
	}
	if diff := cmp.Diff(want, fleetFindings); diff != "" {
		t.Errorf("findings of the fleet (-want +got):\n%s", diff)
	}
	if !slices.Contains(keys, "autoscalers.shop/web.target") || w.source.queries["web"] != 1 {
		t.Errorf("the discovered autoscaler was not checked: findings %v, queries %v", keys, w.source.queries)
	}
	if len(w.config.Autoscalers) != 1 {
		t.Errorf("the configuration was changed: %v", w.config.Autoscalers)
	}

	fleet.err = errors.New("connection refused")
	findings = Check(t.Context(), w.config)
	if !slices.Contains(findings, Finding{"fleets.shop", "discover targets by labels: connection refused", true}) {
		t.Errorf("findings are %v", findings)
	}
}

// bounded is the configuration of a fleet that allows at most 4 instances per target.
type bounded struct{ fleetTable }

func (bounded) MostReplicas(string) (int32, string) { return 4, "the number of seats" }

// TestDiscoveredUnworkable checks that labels with a maximum that the fleet cannot reach are
// reported.
func TestDiscoveredUnworkable(t *testing.T) {
	w := newWorld()
	w.source.results["web"] = vector(labeled(1))
	found := []targets.Discovered{{Name: "web", Labels: map[string]string{
		"hpad.enable": "true", "hpad.max": "5", "hpad.metrics.0.type": "External", "hpad.metrics.0.name": "queue",
		"hpad.metrics.0.source": "prom", "hpad.metrics.0.query": "web", "hpad.metrics.0.average_value": "1",
	}}}
	w.buildFleet = func(string) (targets.Fleet, error) {
		return discovering{Memory: w.fleet, found: found}, nil
	}
	w.config.Fleets["shop"] = config.Fleet{Name: "shop", Kind: "memory", Discover: true, Config: bounded{fleetTable{w}}}
	w.wantFindings(t,
		"! fleets.shop: the labels of shop/web define an autoscaler that cannot work: hpad.max = \"5\": cannot be reached: must be at most 4, the number of seats",
		"fleets.shop: discovers 1 target",
		"fleets.shop: reads 1 target",
		"autoscalers.shop/web.target: shop/web: 2 replicas desired, 2 running",
		"autoscalers.shop/web.metrics[0]: External queue: 1 series, total 1",
	)
}
