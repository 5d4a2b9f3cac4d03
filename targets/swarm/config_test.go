package swarm

import (
	"testing"

	"github.com/hpad/hpad/targets/docker"
)

func TestValidate(t *testing.T) {
	const form = `must be the address of a Docker engine, such as "unix:///var/run/docker.sock", "tcp://192.0.2.1:2376" or "ssh://me@192.0.2.1"`
	for _, test := range []struct {
		name   string
		config Config
		want   []string
	}{
		{"good", Config{Nodes: map[string]string{"worker-1": "tcp://192.0.2.2:2376", "worker-2": "ssh://me@192.0.2.3"}}, nil},
		{"host", Config{Config: docker.Config{Host: "192.0.2.1"}}, []string{`host = "192.0.2.1": ` + form}},
		{"node", Config{Nodes: map[string]string{"worker-1": "192.0.2.2"}}, []string{`nodes.worker-1 = "192.0.2.2": ` + form}},
		{"node with a secret", Config{Nodes: map[string]string{"worker-1": "tcp://me:secret@192.0.2.2:2376"}}, []string{`nodes.worker-1: must not contain credentials: use tls.cert_file and tls.key_file`}},
		{"node without a name", Config{Nodes: map[string]string{"": "tcp://192.0.2.2:2376"}}, []string{`nodes: contains an empty key; each key must be a node's ID or hostname`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", "")
			c := test.config
			c.SetDefaults()
			mistakes := c.Validate()
			if len(mistakes) != len(test.want) {
				t.Fatalf("Validate() = %v, want %q", mistakes, test.want)
			}
			for i, want := range test.want {
				if got := mistakes[i].Error(); got != want {
					t.Errorf("error = %q, want %q", got, want)
				}
			}
		})
	}
}
