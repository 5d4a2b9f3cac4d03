package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
)

const shared = `
[ha]
address = "http://10.0.0.1:4720"
etcd = { endpoints = ["http://10.0.0.1:2379"] }
[daemon]
state_dir = "/var/lib/hpad"
[fleets.prod]
kind = "nomad"
[fleets.local]
kind = "process"
services = { worker = { command = ["worker"] } }
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[sources.here]
kind = "embedded"
[autoscalers.api]
target = { fleet = "prod", job = "shop", group = "api" }
max_replicas = 9
metrics = [{ type = "External", name = "queue", source = "prom", query = "queue", value = "1" }]
[autoscalers.worker]
target = { fleet = "local", service = "worker" }
max_replicas = 3
metrics = [{ type = "External", name = "queue", source = "here", query = "queue", value = "1" }]
`

// TestSeparate checks that the host's own fleets and sources are not shared, and that all others
// are.
func TestSeparate(t *testing.T) {
	whole, err := config.Parse("hpad.toml", []byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	p := separate(whole)
	names := func(c *config.Config) string {
		return strings.Join(slices.Concat(slices.Sorted(maps.Keys(c.Fleets)), slices.Sorted(maps.Keys(c.Sources)), slices.Sorted(maps.Keys(c.Autoscalers))), " ")
	}
	if got := names(p.own); got != "local here prom worker" || p.own.HA == nil {
		t.Errorf("the host's own configuration contains %q", got)
	}
	if got := names(p.fleets["prod"]); got != "prod prom api" || len(p.names()) != 1 {
		t.Errorf("got %d fleets, prod contains %q", len(p.names()), got)
	}
}

func TestAssign(t *testing.T) {
	view := View{Members: map[string]Member{}, Fleets: map[string]Ownership{}}
	has := map[string]string{}
	for i := range 12 {
		has[fmt.Sprint("fleet-", i)] = "1"
	}
	for i := range 3 {
		name := fmt.Sprint("member-", i)
		view.Members[name] = Member{Name: name, Fleets: has}
	}
	before := assign(view)
	loads := map[string]int{}
	for _, owner := range before {
		loads[owner]++
	}
	for name := range view.Members {
		if loads[name] != 4 {
			t.Errorf("fleets of %s = %d of 12, want 4", name, loads[name])
		}
	}
	delete(view.Members, "member-1")
	moved := 0
	for fleet, owner := range assign(view) {
		if owner == "member-1" {
			t.Errorf("%s was assigned to a former member", fleet)
		}
		if before[fleet] != "member-1" && owner != before[fleet] {
			moved++
		}
	}
	if moved > 4 {
		t.Errorf("%d fleets moved in addition to the fleets of the former member", moved)
	}
	other := maps.Clone(has)
	other["fleet-0"] = "2"
	view.Members["member-0"] = Member{Name: "member-0", Fleets: other}
	view.Fleets["fleet-0"] = Ownership{Configuration: "2"}
	view.Fleets["fleet-1"] = Ownership{Configuration: "3"}
	after := assign(view)
	if after["fleet-0"] != "member-0" {
		t.Errorf("a fleet was assigned to %q, which has a different configuration", after["fleet-0"])
	}
	if owner, any := after["fleet-1"]; any {
		t.Errorf("a fleet without an eligible member was assigned to %q", owner)
	}
}
