package process

import (
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets/probe"
)

func decode(t *testing.T, text string) *Config {
	t.Helper()
	config := new(Config)
	meta, err := toml.Decode(text, config)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Fatalf("unknown keys: %v", unknown)
	}
	config.SetDefaults()
	return config
}

func TestConfig(t *testing.T) {
	config := decode(t, `
resource_interval = "1s"
[services.worker]
command = ["/usr/bin/worker"]
args = ["-v"]
env = { GREETING = "hello" }
dir = "/tmp"
ports = "9100-9199"
replicas = 3
readiness = { http = "/ready", interval = "2s", timeout = "500ms", failure_threshold = 5 }
stop_grace_period = "20s"
restart_backoff_min = "2s"
restart_backoff_max = "30s"
requests = { cpu = "500m", memory = "256Mi" }
[services.plain]
command = ["plain"]
`)
	if errs := config.Validate(); errs != nil {
		t.Errorf("Validate() = %v", errs)
	}
	worker, plain := config.Services["worker"], config.Services["plain"]
	if got := worker.Requests["cpu"]; got.Milli() != 500 {
		t.Errorf("cpu request = %v", got)
	}
	if worker.StopGracePeriod != 20*time.Second || *worker.Replicas != 3 || worker.Readiness.Timeout != 500*time.Millisecond {
		t.Errorf("worker = %+v", worker)
	}
	want := Service{
		Command: []string{"plain"}, Replicas: new(int32(1)), StopGracePeriod: 10 * time.Second,
		RestartBackoffMin: time.Second, RestartBackoffMax: time.Minute, MaxSurge: new(int32(1)), ProgressDeadline: 10 * time.Minute,
		Readiness: Readiness{Interval: time.Second, Limits: probe.Limits{Timeout: time.Second, FailureThreshold: 3}},
	}
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Errorf("service with only a command (-want +got):\n%s", diff)
	}
	if got := config.CheckTarget("worker"); got != "" {
		t.Errorf(`CheckTarget("worker") = %q`, got)
	}
	if got, want := config.CheckTarget("wroker"), `no service "wroker" is configured; the fleet contains ["plain" "worker"]`; got != want {
		t.Errorf("CheckTarget() = %q, want %q", got, want)
	}
	if got := decode(t, "").CheckTarget("worker"); !strings.Contains(got, "the fleet contains no services") {
		t.Errorf("CheckTarget() without services = %q", got)
	}
	if got := decode(t, ""); got.ResourceInterval != 15*time.Second || got.Validate() != nil {
		t.Errorf("empty table = %+v, errors %v", got, got.Validate())
	}
}

func TestConfigMistakes(t *testing.T) {
	for _, test := range []struct {
		name, text, want string
	}{
		{"no command", `[services.w]`, `services.w.command: is required`},
		{"empty program", "[services.w]\ncommand = ['']", `services.w.command: is required`},
		{"name", "[services.'a/b']\ncommand = ['w']", `services.a/b = "a/b": a service's name must consist of`},
		{"NUL", "[services.w]\ncommand = ['w', \"a\\u0000b\"]", `services.w.command = "a\x00b": must not contain a NUL`},
		{"variable", "[services.w]\ncommand = ['w']\nenv = { 'A=B' = 'x' }", `services.w.env.A=B: a variable's name`},
		{"reserved variable", "[services.w]\ncommand = ['w']\nenv = { HPAD_PORT = '1' }", `services.w.env.HPAD_PORT: names that begin with HPAD_`},
		{"ports", "[services.w]\ncommand = ['w']\nports = '9199-9100'", `services.w.ports = "9199-9100": must be a range of ports`},
		{"shared ports", "[services.a]\ncommand = ['w']\nports = '100-110'\n[services.b]\ncommand = ['w']\nports = '110-120'", `services.b.ports = "110-120": overlaps with "100-110" of service "a"`},
		{"too many replicas", "[services.w]\ncommand = ['w']\nports = '100-101'\nreplicas = 3", `services.w.replicas = 3: must be at most 2, the number of ports`},
		{"back-off order", "[services.w]\ncommand = ['w']\nrestart_backoff_min = '10s'\nrestart_backoff_max = '5s'", `services.w.restart_backoff_max = "5s": must be at least restart_backoff_min, which is 10s`},
		{"no replacement", "[services.w]\ncommand = ['w']\nmax_surge = 0", `services.w.max_surge = 0: max_surge or max_unavailable must be at least 1`},
		{"two probes", "[services.w]\ncommand = ['w']\nports = '100'\nreadiness = { tcp = true, http = '/' }", `services.w.readiness.tcp: cannot be combined with http`},
		{"probe without ports", "[services.w]\ncommand = ['w']\nreadiness = { tcp = true }", `services.w.readiness: needs ports`},
		{"probe path", "[services.w]\ncommand = ['w']\nports = '100'\nreadiness = { http = 'ready' }", `services.w.readiness.http = "ready": must be a path`},
		{"request", "[services.w]\ncommand = ['w']\nrequests = { cpu = '-1' }", `services.w.requests.cpu = "-1": must be at least 0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := decode(t, test.text).Validate()
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), test.want) {
				t.Errorf("Validate() = %v, want one error that begins with %q", errs, test.want)
			}
		})
	}
	all := decode(t, "resource_interval = '1ms'\n[services.b]\n[services.a]\nports = 'x'")
	var fields []string
	for _, e := range all.Validate() {
		fields = append(fields, e.Field)
	}
	want := []string{"resource_interval", "services.a.ports", "services.a.command", "services.b.command"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields of all errors (-want +got):\n%s", diff)
	}
}
