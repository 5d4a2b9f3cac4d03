package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

func TestChanges(t *testing.T) {
	const one = `
[daemon]
sync_period = "15s"
[fleets.local]
kind = "process"
services = { web = { command = ["web", "--token=hunter2"], env = { PASSWORD = "hunter2", MODE = "a" } }, gone = { command = ["gone"] } }
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[autoscalers.web]
target = { fleet = "local", service = "web" }
max_replicas = 5
metrics = [{ type = "External", name = "q", source = "prom", query = "q", average_value = "1" }]
[autoscalers.gone]
target = { fleet = "local", service = "gone" }
max_replicas = 5
metrics = [{ type = "External", name = "q", source = "prom", query = "q", average_value = "1" }]
`
	const other = `
[daemon]
sync_period = "30s"
listen = "127.0.0.1:9999"
[fleets.local]
kind = "process"
breaker = { max_removed = "30%" }
services = { web = { command = ["web", "--token=hunter3"], env = { PASSWORD = "hunter3", MODE = "b" } }, fresh = { command = ["fresh"] } }
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
timeout = "3s"
[notifications.chat]
url = "http://127.0.0.1:1/"
[autoscalers.web]
target = { fleet = "local", service = "web" }
max_replicas = 8
min_replicas = 2
metrics = [{ type = "External", name = "q", source = "prom", query = "q", average_value = "1" }]
[autoscalers.fresh]
target = { fleet = "local", service = "fresh" }
max_replicas = 5
metrics = [{ type = "External", name = "q", source = "prom", query = "q", average_value = "1" }]
`
	parse := func(text string) *Config {
		t.Helper()
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var got []string
	for _, change := range parse(one).Changes(parse(one), parse(other)) {
		got = append(got, change.String())
	}
	want := []string{
		`+ daemon.listen: "127.0.0.1:9999" (at the next start)`,
		`~ daemon.sync_period: "15s" -> "30s"`,
		`+ fleets.local.breaker`,
		`+ fleets.local.services.fresh`,
		`- fleets.local.services.gone`,
		`~ fleets.local.services.web.command (another value)`,
		`~ fleets.local.services.web.env.MODE (another value)`,
		`~ fleets.local.services.web.env.PASSWORD (another value)`,
		`+ sources.prom.timeout: "3s"`,
		`+ notifications.chat`,
		`+ autoscalers.fresh`,
		`- autoscalers.gone`,
		`~ autoscalers.web.max_replicas: 5 -> 8`,
		`+ autoscalers.web.min_replicas: 2`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	secret := strings.Replace(one, `PASSWORD = "hunter2"`, `PASSWORD = "hunter3"`, 1)
	if hidden := parse(one).Changes(parse(one), parse(secret)); len(hidden) != 1 || hidden[0].String() != "~ fleets.local.services.web.env.PASSWORD (another value)" {
		t.Errorf("change of a secret = %v", hidden)
	}
	if same := parse(one).Changes(parse(one), parse(one)); len(same) > 0 {
		t.Errorf("changes between equal configurations = %v, want none", same)
	}
}

func TestChangesOfEachAutoscaler(t *testing.T) {
	const one = `
[daemon]
tolerance = 0.1
[fleets.vm]
kind = "process"
services = { web = { command = ["web", "--token=hunter2"], env = { DB_HOST = "hunter2" } }, "a.b" = { command = ["b"] } }
[fleets.other]
kind = "process"
services = { web = { command = ["web"] } }
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[autoscalers.web]
target = { fleet = "vm", service = "web" }
max_replicas = 5
metrics = [{ type = "External", name = "q", source = "prom", query = "old", average_value = "1" }]
[autoscalers."a.b"]
target = { fleet = "vm", service = "a.b" }
sync_period = "20s"
max_replicas = 5
metrics = [{ type = "Resource", resource = "cpu", average_value = "1" }]
[autoscalers.far]
target = { fleet = "other", service = "web" }
max_replicas = 5
metrics = [{ type = "Resource", resource = "cpu", average_value = "1" }]
`
	parse := func(text string) *Config {
		t.Helper()
		c, err := Parse("hpad.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	second := `{ type = "External", name = "r", source = "prom", query = "r", average_value = "1" }`
	for _, test := range []struct {
		old, new string
		want     map[string]string
	}{
		{"", "", map[string]string{}},
		{`query = "old"`, `query = "new"`, map[string]string{"web": `~ metrics[0].query: "old" -> "new"`}},
		{`average_value = "1" }]`, `average_value = "1" }, ` + second + `]`, map[string]string{"web": "+ metrics[1]"}},
		{`DB_HOST = "hunter2"`, `DB_HOST = "hunter3"`, map[string]string{"web": "~ fleets.vm.services.web.env.DB_HOST (another value)"}},
		{`--token=hunter2`, `--token=hunter3`, map[string]string{"web": "~ fleets.vm.services.web.command (another value)"}},
		{`["b"]`, `["c"]`, map[string]string{"a.b": `~ fleets.vm.services."a.b".command: ["b"] -> ["c"]`}},
		{"[fleets.vm]", "[fleets.vm]\nresource_interval = \"20s\"", map[string]string{
			"web": `+ fleets.vm.resource_interval: "20s"`, "a.b": `+ fleets.vm.resource_interval: "20s"`,
		}},
		{"[sources.prom]", "[sources.prom]\ntimeout = \"3s\"", map[string]string{"web": `+ sources.prom.timeout: "3s"`}},
		{"tolerance = 0.1", "tolerance = 0.1\nsync_period = \"30s\"", map[string]string{
			"web": `+ daemon.sync_period: "30s"`, "far": `+ daemon.sync_period: "30s"`,
		}},
		{"tolerance = 0.1", "tolerance = 0.2", map[string]string{
			"web": `~ daemon.tolerance: 0.1 -> 0.2`, "far": `~ daemon.tolerance: 0.1 -> 0.2`, "a.b": `~ daemon.tolerance: 0.1 -> 0.2`,
		}},
		{"[autoscalers.far]", "[autoscalers.near]", map[string]string{"far": "- autoscalers.far", "near": "+ autoscalers.near"}},
	} {
		after := parse(strings.Replace(one, test.old, test.new, 1))
		got := map[string]string{}
		for name, own := range Affected(parse(one).Changes(parse(one), after), after.Autoscalers) {
			var texts []string
			for _, change := range own {
				texts = append(texts, change.String())
			}
			got[name] = strings.Join(texts, "; ")
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s in the place of %s (-want +got):\n%s", test.new, test.old, diff)
		}
	}
}

// TestKubernetes checks that the version of Kubernetes reaches the policy.
func TestKubernetes(t *testing.T) {
	for written, want := range map[string]policy.Kubernetes{"": policy.Kubernetes137, `kubernetes = "1.37"`: policy.Kubernetes137, `kubernetes = "1.38"`: policy.Kubernetes138} {
		path := filepath.Join(t.TempDir(), "hpad.toml")
		if err := os.WriteFile(path, []byte("[daemon]\n"+written+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Daemon.Settings().Kubernetes; got != want {
			t.Errorf("%q: version %q, want %q", written, got, want)
		}
	}
}
