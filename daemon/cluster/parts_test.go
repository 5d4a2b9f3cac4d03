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
address = "http://10.0.0.%d:4720"
etcd = { endpoints = ["http://10.0.0.1:2379"] }
[daemon]
state_dir = "/var/lib/hpad%[1]d"
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
max_replicas = %[2]d
metrics = [{ type = "External", name = "queue", source = "prom", query = "queue", value = "1" }]
[autoscalers.worker]
target = { fleet = "local", service = "worker" }
max_replicas = 3
metrics = [{ type = "External", name = "queue", source = "here", query = "queue", value = "1" }]
`

func divided(t *testing.T, member, most int) parts {
	t.Helper()
	c, err := config.Parse("hpad.toml", fmt.Appendf(nil, shared, member, most))
	if err != nil {
		t.Fatal(err)
	}
	return divide(c, 0, nil)
}

// TestDivide leaves the machine's own to the machine, and shares the rest.
func TestDivide(t *testing.T) {
	p := divided(t, 1, 9)
	names := func(c *config.Config) string {
		return strings.Join(slices.Concat(slices.Sorted(maps.Keys(c.Fleets)), slices.Sorted(maps.Keys(c.Sources)), slices.Sorted(maps.Keys(c.Autoscalers))), " ")
	}
	if got := names(p.own); got != "local here prom worker" || p.own.HA == nil {
		t.Errorf("the machine's own are %q", got)
	}
	if got := names(p.fleets["prod"]); got != "prod prom api" || len(p.shards()) != 1 {
		t.Errorf("%d shards, of which prod has %q", len(p.shards()), got)
	}
	if p.identities["prod"] != divided(t, 2, 9).identities["prod"] {
		t.Error("what is each member's own makes a fleet another one")
	}
	if p.identities["prod"] == divided(t, 1, 8).identities["prod"] {
		t.Error("another maximum makes no other fleet")
	}
}

// TestAssign spreads fleets evenly, moves few, and gives none to whom has it otherwise.
func TestAssign(t *testing.T) {
	view := View{Members: map[string]Member{}, Shards: map[string]Ownership{}}
	has := map[string]string{}
	for i := range 12 {
		has[fmt.Sprint("fleet-", i)] = "1"
	}
	for i := range 3 {
		name := fmt.Sprint("member-", i)
		view.Members[name] = Member{Name: name, Shards: has}
	}
	before := assign(view)
	loads := map[string]int{}
	for _, owner := range before {
		loads[owner]++
	}
	for name := range view.Members {
		if loads[name] != 4 {
			t.Errorf("%s gets %d of 12 fleets, want 4", name, loads[name])
		}
	}
	delete(view.Members, "member-1")
	moved := 0
	for shard, owner := range assign(view) {
		if owner == "member-1" {
			t.Errorf("%s is assigned to a member that is gone", shard)
		}
		if before[shard] != "member-1" && owner != before[shard] {
			moved++
		}
	}
	if moved > 4 {
		t.Errorf("%d fleets move besides those of the member that is gone", moved)
	}
	other := maps.Clone(has)
	other["fleet-0"] = "2"
	view.Members["member-0"] = Member{Name: "member-0", Shards: other}
	view.Shards["fleet-0"] = Ownership{Configuration: "2"}
	view.Shards["fleet-1"] = Ownership{Configuration: "3"}
	after := assign(view)
	if after["fleet-0"] != "member-0" {
		t.Errorf("a fleet is %q's, who has it otherwise", after["fleet-0"])
	}
	if owner, any := after["fleet-1"]; any {
		t.Errorf("a fleet that nobody has so is %q's", owner)
	}
}

// TestParts divides autoscalers evenly, and so that twice as many parts halve each.
func TestParts(t *testing.T) {
	const autoscalers = 4000
	for n := 1; n <= 16; n *= 2 {
		counts := map[string]int{}
		for i := range autoscalers {
			name := fmt.Sprint("autoscaler-", i)
			part := partNumber(name, n)
			counts[shardName("prod", part, n)]++
			if twice := partNumber(name, 2*n); twice != part && twice != part+n {
				t.Fatalf("%s is in part %d of %d and in %d of %d", name, part, n, twice, 2*n)
			}
		}
		for shard, count := range counts {
			if even := autoscalers / n; count < even*3/4 || count > even*5/4 {
				t.Errorf("%s has %d of %d autoscalers", shard, count, autoscalers)
			}
		}
		if names := shardNames("prod", n); len(counts) != n || n == 1 && names[0] != "prod" || n > 1 && names[1] != fmt.Sprint("prod~2-", n) {
			t.Errorf("%d parts, named %q", len(counts), names)
		}
	}
}

// TestDivisionIsDue holds when a fleet is divided anew, and by whom.
func TestDivisionIsDue(t *testing.T) {
	has, wants := map[string]string{"prod": "1"}, map[string]int{"prod": 4}
	view := View{Members: map[string]Member{
		"a": {Name: "a", Shards: has, Parts: wants}, "b": {Name: "b", Shards: has, Parts: wants}, "c": {Name: "c", Shards: map[string]string{"other": "1"}},
	}, Shards: map[string]Ownership{}}
	into, leader, due := division(view, "prod", layout{})
	if into != 4 || leader != "a" && leader != "b" || !due {
		t.Errorf("by two members alike into %d by %q, %v", into, leader, due)
	}
	if _, _, due := division(view, "prod", layout{"prod": 4}); due {
		t.Error("a fleet is divided that members have other shards of")
	}
	view.Shards["prod"] = Ownership{Configuration: "2"}
	if _, leader, due := division(view, "prod", layout{}); due {
		t.Errorf("%s divides what is owned under another configuration", leader)
	}
	delete(view.Shards, "prod")
	view.Members["b"] = Member{Name: "b", Shards: has}
	if into, _, due := division(view, "prod", layout{}); due {
		t.Errorf("divided into %d though a member wants one part", into)
	}
	view.Shards["prod~"] = Ownership{Configuration: "4"}
	if got := layoutOf(view); got.of("prod") != 4 || got.of("other") != 1 {
		t.Errorf("the layout is %v", got)
	}
}
