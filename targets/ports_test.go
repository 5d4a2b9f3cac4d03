package targets

import (
	"slices"
	"testing"
)

func TestPorts(t *testing.T) {
	var p Ports
	if _, found := p.Find(""); found || len(p.Labels()) != 0 {
		t.Errorf("found a port in an empty list: %v", p)
	}
	for _, port := range []Port{{"rpc", 1}, {"admin", 2}, {"", 3}, {"rpc", 4}} {
		p.Set(port.Label, port.Number)
	}
	if want := (Ports{{"", 3}, {"admin", 2}, {"rpc", 4}}); !slices.Equal(p, want) || !slices.Equal(p.Labels(), []string{"", "admin", "rpc"}) {
		t.Errorf("ports = %v, want %v", p, want)
	}
	for label, want := range map[string]int{"": 3, "admin": 2, "rpc": 4, "b": 0, "z": 0} {
		if got, found := p.Find(label); got != want || found != (want != 0) {
			t.Errorf("port %q = %d, %v, want %d", label, got, found, want)
		}
	}
}
