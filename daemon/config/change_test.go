package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChanges holds how two configurations differ, key by key and without secrets.
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
	for _, change := range parse(one).Changes(parse(other)) {
		got = append(got, change.String())
	}
	want := []string{
		`~ daemon.listen: "127.0.0.1:4720" -> "127.0.0.1:9999" (at the next start)`,
		`~ daemon.sync_period: "15s" -> "30s"`,
		`+ fleets.local.breaker`,
		`+ fleets.local.services.fresh`,
		`- fleets.local.services.gone`,
		`~ fleets.local.services.web.command: another value`,
		`~ sources.prom.timeout: "10s" -> "3s"`,
		`+ notifications.chat`,
		`+ autoscalers.fresh`,
		`- autoscalers.gone`,
		`~ autoscalers.web.max_replicas: 5 -> 8`,
		`~ autoscalers.web.min_replicas: 1 -> 2`,
		`~ autoscalers.web.sync_period: "15s" -> "30s"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	secret := strings.Replace(one, `PASSWORD = "hunter2"`, `PASSWORD = "hunter3"`, 1)
	if hidden := parse(one).Changes(parse(secret)); len(hidden) != 1 || hidden[0].String() != "~ fleets.local: a value that is not shown" {
		t.Errorf("a secret that changed is %v", hidden)
	}
	if same := parse(one).Changes(parse(one)); len(same) > 0 {
		t.Errorf("with itself it differs in %v", same)
	}
}
