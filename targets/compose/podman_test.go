package compose

import (
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-units"
)

// TestPodmanBlueprint checks that a replica gets only settings that Podman accepts, and none that
// identify the copied container.
func TestPodmanBlueprint(t *testing.T) {
	const id = "0bc552afad651bb5f8711766f9beb596ea773cb0e446dc17a9cfb544bb3a1657"
	m := newMember(container.Summary{ID: id, Names: []string{"/shop_web_1"}, State: "running", Labels: map[string]string{
		labelProject: "shop", labelService: "web", labelNumber: "1", labelPodmanHash: "123",
	}})
	if m == nil || m.configuration().hash != "123" {
		t.Fatalf("a container of podman-compose = %+v, want a replica", m)
	}
	b, err := newBlueprint(m, &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: id, Name: "/shop_web_1", HostConfig: &container.HostConfig{
			NetworkMode: "bridge",
			Resources: container.Resources{
				NanoCPUs: 500_000_000, CPUPeriod: 100_000, CPUQuota: 50_000,
				Ulimits: []*units.Ulimit{{Name: "RLIMIT_NOFILE", Soft: 1024, Hard: 1024}},
			},
		}},
		Config: &container.Config{Hostname: id[:12], Env: []string{"HOSTNAME=" + id[:12], "container=podman", "A=b"}},
		NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{
			"shop_default": {Aliases: []string{"web", id[:12]}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	name, r, err := b.replica(2, nil)
	if err != nil || name != "shop_web_2" || r.primary() != "shop_default" || !slices.Equal(r.Networks["shop_default"].Aliases, []string{"web"}) {
		t.Errorf("replica %q in %q with %+v, %v", name, r.primary(), r.Networks, err)
	}
	if h := r.HostConfig; h.NanoCPUs != 500_000_000 || h.CPUPeriod != 0 || h.CPUQuota != 0 || h.Ulimits[0].Name != "nofile" {
		t.Errorf("resources = %+v", h.Resources)
	}
	if c := r.Config; c.Hostname != "" || slices.Contains(c.Env, "HOSTNAME="+id[:12]) || !slices.Contains(c.Env, "A=b") {
		t.Errorf("host name %q, environment %q", c.Hostname, c.Env)
	}
}
