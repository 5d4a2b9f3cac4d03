package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
)

// TestOneEngine checks two fleets on the same or different engines, each with an autoscaler for the
// same target.
func TestOneEngine(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "var-run")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"DOCKER_HOST", "NOMAD_ADDR", "NOMAD_REGION", "NOMAD_NAMESPACE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_ENDPOINT_URL", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "AZURE_SUBSCRIPTION_ID",
	} {
		t.Setenv(name, "")
	}
	const (
		compose = `project = "shop", service = "web"`
		swarm   = `service = "web"`
		nomad   = `job = "web", group = "web"`
		systemd = `template = "worker@.service"`
		aws     = `group = "web"`
		azure   = `resource_group = "shop", scale_set = "web"`
	)
	for name, test := range map[string]struct {
		kind, first, second string
		target, other       string
		same                bool
	}{
		"sockets":            {"compose", `host = "unix:///run/docker.sock"`, `host = "unix:///run//docker.sock"`, compose, "", true},
		"symlink":            {"compose", `host = "unix://` + dir + `/d.sock"`, `host = "unix://` + dir + `/var-run/d.sock"`, compose, "", true},
		"ssh":                {"swarm", `host = "ssh://me@web"`, `host = "ssh://me@web:22"`, swarm, "", true},
		"nomad":              {"nomad", `address = "http://127.0.0.1:4646"`, `address = "http://localhost:4646/"`, nomad, "", true},
		"namespace":          {"nomad", `namespace = "shop"`, ``, nomad, nomad + `, namespace = "shop"`, true},
		"systemd":            {"systemd", `address = "/run/bus"`, `address = "unix:path=/run/bus"`, systemd, "", true},
		"aws":                {"awsasg", `region = "eu-central-1"`, `region = "eu-central-1"`, aws, "", true},
		"aws regions":        {"awsasg", `region = "eu-central-1"`, `region = "eu-west-1"`, aws, "", false},
		"gce":                {"gcemig", `project = "shop-1"`, "project = \"shop-1\"\nzone = \"europe-west4-a\"", `group = "web", zone = "europe-west4-a"`, `group = "web"`, true},
		"azure":              {"azurevmss", `subscription = "11111111-aaaa-3333-4444-555555555555"`, `subscription = "11111111-AAAA-3333-4444-555555555555"`, azure, `resource_group = "Shop", scale_set = "WEB"`, true},
		"separate processes": {"process", "[fleets.a.services.web]\ncommand = [\"sleep\", \"1\"]", "[fleets.b.services.web]\ncommand = [\"sleep\", \"1\"]", `service = "web"`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := kinds.Fleets[test.kind]; !ok {
				return // this build omits these fleets
			}
			other := test.other
			if other == "" {
				other = test.target
			}
			var text strings.Builder
			fmt.Fprintf(&text, "[sources.p]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n[fleets.a]\nkind = %[1]q\n%[2]s\n[fleets.b]\nkind = %[1]q\n%[3]s\n", test.kind, test.first, test.second)
			for fleet, target := range map[string]string{"a": test.target, "b": other} {
				fmt.Fprintf(&text, "[autoscalers.of-%[1]s]\ntarget = { fleet = %[1]q, %[2]s }\nmax_replicas = 3\nmetrics = [{ type = \"External\", name = \"q\", source = \"p\", query = \"q\", average_value = 1 }]\n", fleet, target)
			}
			c, err := Parse("hpad.toml", []byte(text.String()))
			if !test.same {
				if err != nil {
					t.Fatal(err)
				}
				if owner := c.Owners().Of(c.Autoscalers["of-b"].Target, nil); owner != "of-b" {
					t.Errorf("owner of the target of of-b = %q", owner)
				}
				return
			}
			if err == nil {
				t.Fatal("is taken")
			}
			for _, want := range []string{"autoscalers.of-b.target: ", `autoscaler "of-a" in hpad.toml:`, `fleet "a"`, `fleet "b"`, "same engine"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want %q in it", err, want)
				}
			}
		})
	}
}
