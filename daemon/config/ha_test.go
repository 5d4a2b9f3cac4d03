package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHA(t *testing.T) {
	c, err := Parse("hpad.toml", []byte(`
[ha]
address = "https://10.0.0.1:4720"
[ha.etcd]
endpoints = ["https://10.0.0.1:2379"]
[fleets.prod]
kind = "nomad"
[fleets.far]
kind = "compose"
host = "tcp://10.0.0.9:2375"
[fleets.near]
kind = "compose"
host = "unix:///var/run/docker.sock"
[fleets.units]
kind = "systemd"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &HA{Store: "etcd", Cluster: "hpad", Address: "https://10.0.0.1:4720", TTL: 15 * time.Second, Etcd: &Etcd{Endpoints: []string{"https://10.0.0.1:2379"}}}
	if diff := cmp.Diff(want, c.HA); diff != "" {
		t.Errorf("[ha] (-want +got):\n%s", diff)
	}
	if host, _ := os.Hostname(); c.HA.Name() != AdaptName(host) {
		t.Errorf("Name() = %q on host %q", c.HA.Name(), host)
	}
	shared, own := c.Movable()
	if strings.Join(shared, " ") != "far prod" || strings.Join(own, " ") != "near units" {
		t.Errorf("shared fleets = %v, local fleets = %v", shared, own)
	}
	if warnings := c.Warnings(); len(warnings) != 1 || warnings[0].Key != "ha.members" {
		t.Errorf("warnings = %v, want a warning that members cannot forward requests", warnings)
	}
	alone, err := Parse("hpad.toml", nil)
	if err != nil || alone.HA != nil {
		t.Fatalf("without [ha], HA = %+v, %v", alone.HA, err)
	}
	changes := alone.Changes(alone, c)
	for _, change := range changes {
		if strings.HasPrefix(change.Key, "ha") && !change.NextStart {
			t.Errorf("the change of %s takes effect without a restart", change)
		}
	}
	if !strings.Contains(c.Redacted(), "[ha.etcd]") {
		t.Error("the active configuration lacks [ha]")
	}
}
