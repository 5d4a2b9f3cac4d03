package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/targets"
)

// TestConfigs checks that every example is valid, and that an example that is named like a kind
// contains that kind.
func TestConfigs(t *testing.T) {
	for name := range kindNames() {
		if _, err := os.Stat("../../configs/" + name + ".toml"); err != nil {
			t.Errorf("kind %q has no example: %v", name, err)
		}
	}
	files, err := filepath.Glob("../../configs/*.toml")
	if err != nil || len(files) < 3 {
		t.Fatalf("glob configs: %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			skipOmitted(t, file)
			c, err := Load(t.Context(), withWebConfig(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Autoscalers) == 0 || len(c.Fleets) == 0 {
				t.Errorf("%d autoscalers and %d fleets, want some", len(c.Autoscalers), len(c.Fleets))
			}
			used := map[string]bool{}
			for _, fleet := range c.Fleets {
				used[fleet.Kind] = true
			}
			for _, source := range c.Sources {
				used[exampleOf(source.Kind)] = true
			}
			if name := strings.TrimSuffix(filepath.Base(file), ".toml"); kindNames()[name] && !used[name] {
				t.Errorf("the example does not contain kind %q", name)
			}
			for _, warning := range c.Warnings() {
				t.Errorf("warning for an example: %v", warning)
			}
			checkRedactedLoads(t, c)
		})
	}
}

// exampleOf returns the name of the example of a kind of source. Some kinds of fleets have the same name.
func exampleOf(source string) string {
	if _, ok := kinds.Fleets[source]; ok {
		return "source-" + source
	}
	return source
}

// kindNames returns the names of the examples of all kinds of fleets and sources.
func kindNames() map[string]bool {
	names := map[string]bool{}
	for name := range kinds.Fleets {
		names[name] = true
	}
	for name := range kinds.Sources {
		names[exampleOf(name)] = true
	}
	return names
}

var webConfigLine = regexp.MustCompile(`(?m)^web_config *= *"[^"]*"`)

// withWebConfig returns an example file, or a copy that refers to an existing web config.
func withWebConfig(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !webConfigLine.Match(text) {
		return file
	}
	dir := t.TempDir()
	web, adapted := filepath.Join(dir, "web.yml"), filepath.Join(dir, filepath.Base(file))
	users := "basic_auth_users:\n  members: $2a$10$8aNGuMKHOtsoMLusVlAiRemGxZnEJJYeRTeLiIwrC1XvHkrNyOXa.\n"
	for path, content := range map[string][]byte{web: []byte(users), adapted: webConfigLine.ReplaceAll(text, fmt.Appendf(nil, "web_config = %q", web))} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return adapted
}

// omittedIn returns the fleet kind in a configuration that this build omits, or "".
func omittedIn(text []byte) string {
	for name := range kinds.Omitted() {
		if regexp.MustCompile(`(?m)^kind *= "` + name + `"`).Match(text) {
			return name
		}
	}
	return ""
}

func skipOmitted(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if kind := omittedIn(text); kind != "" {
		t.Skipf("the kind %q is not part of this build", kind)
	}
}

// TestOmitted checks the error for a fleet kind that a build tag removed.
func TestOmitted(t *testing.T) {
	setKind(t, "awsasg", nil)
	_, err := Parse("hpad.toml", []byte("[fleets.a]\nkind = \"awsasg\"\n[fleets.c]\nkind = \"rainy\"\n"))
	for _, want := range []string{
		`hpad.toml:2: fleets.a.kind = "awsasg": is not part of this build of hpad (tag noaws)`,
		`hpad.toml:4: fleets.c.kind = "rainy": is not a kind of fleet; the kinds of fleets are awsasg, `,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
}

// setKind replaces a kind of fleet until the test ends; nil removes it.
func setKind(t *testing.T, name string, kind *targets.Kind) {
	before, known := kinds.Fleets[name]
	delete(kinds.Fleets, name)
	if kind != nil {
		kinds.Fleets[name] = *kind
	}
	t.Cleanup(func() {
		if delete(kinds.Fleets, name); known {
			kinds.Fleets[name] = before
		}
	})
}

// checkRedactedLoads checks that the redacted configuration can be loaded and is equal to c.
func checkRedactedLoads(t *testing.T, c *Config) {
	t.Helper()
	again, err := Parse("redacted.toml", []byte(c.Redacted()))
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Redacted())
	}
	again.Files = c.Files
	if !reflect.DeepEqual(c, again) {
		t.Errorf("differs (-loaded +written and loaded):\n%s", cmp.Diff(c, again, cmp.Exporter(func(reflect.Type) bool { return true })))
	}
}

const fleetText = `
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command = ["/usr/bin/worker"]
[fleets.local.services.other]
command = ["/usr/bin/other"]
`

func TestTolerance(t *testing.T) { // R6
	three := 300.0
	for text, want := range map[string]float64{`0.3`: three * 1e-3, `"0.3"`: three * 1e-3, `"300m"`: three * 1e-3, `0`: 0, `2`: 2, `1e-3`: 1 * 1e-3} {
		c, err := Parse("hpad.toml", fmt.Appendf(nil, "[daemon]\ntolerance = %s\n%s[autoscalers.a]\ntarget = { fleet = \"local\", service = \"worker\" }\nmax_replicas = 2\nbehavior.scale_up.tolerance = %s\n", text, fleetText, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := *c.Autoscalers["a"].Spec.Behavior.ScaleUp.Tolerance; got != want {
			t.Errorf("tolerance = %s is parsed as %v, want %v", text, got, want)
		}
		if text == `0.3` && c.Daemon.Tolerance != 0.3 {
			t.Errorf("tolerance = 0.3 of [daemon] is parsed as %v, want the nearest float", c.Daemon.Tolerance)
		}
	}
}

func TestDefaultsOfAutoscaler(t *testing.T) { // R9, R10, R11
	c, err := Parse("hpad.toml", []byte(fleetText+"[autoscalers.a]\ntarget = { fleet = \"local\", service = \"worker\", requests = { cpu = 1 } }\nmax_replicas = 2\n[autoscalers.b]\ntarget = { fleet = \"local\", service = \"other\", requests = { cpu = 1 } }\nmax_replicas = 2\n[autoscalers.b.behavior]\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Autoscalers["a"], c.Autoscalers["b"]
	if *a.Spec.MinReplicas != 1 || len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Target.AverageUtilization != 80 || a.Spec.Behavior != nil {
		t.Errorf("a's spec = %+v, want 1 replica, cpu at 80 %% and no behavior", a.Spec)
	}
	if len(a.Inputs) != 1 || a.Inputs[0].Source != "" {
		t.Errorf("a's inputs = %+v, want the fleet's own samples", a.Inputs)
	}
	if b.Spec.Behavior == nil || b.Spec.Behavior.ScaleUp == nil || len(b.Spec.Behavior.ScaleUp.Policies) != 2 {
		t.Errorf("b's behavior = %+v, want an empty one filled in", b.Spec.Behavior)
	}
	checkRedactedLoads(t, c)
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadTogether(t *testing.T) {
	dir := write(t, map[string]string{
		"hpad.toml":            "[daemon]\nsync_period = \"30s\"\n",
		"conf.d/20-apps.toml":  "[autoscalers.worker]\ntarget = { fleet = \"local\", service = \"worker\" }\nmax_replicas = 2\n",
		"conf.d/10-fleet.toml": fleetText,
		"conf.d/README":        "no TOML",
	})
	c, err := Load(t.Context(), filepath.Join(dir, "hpad.toml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "hpad.toml"), filepath.Join(dir, "conf.d/10-fleet.toml"), filepath.Join(dir, "conf.d/20-apps.toml")}
	if diff := cmp.Diff(want, c.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := c.Autoscalers["worker"].SyncPeriod; got != 30*time.Second {
		t.Errorf("sync period = %v, want the daemon's, 30s", got)
	}
}

func TestLoadMistakes(t *testing.T) {
	worker := "[autoscalers.worker]\ntarget = { fleet = \"local\", service = \"worker\" }\nmax_replicas = 2\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no such file": {
			want: []string{"hpad.toml: read the configuration: no such file or directory; create it, or use another file"},
		},
		"defined in two files": {
			files: map[string]string{
				"hpad.toml":     "[daemon]\n" + fleetText + "[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1\"\n",
				"conf.d/a.toml": worker,
				"conf.d/b.toml": "[daemon]\n" + worker + "[fleets.local]\nkind = \"process\"\n[sources.prom]\nkind = \"prometheus\"\n",
			},
			want: []string{
				"conf.d/b.toml:1: daemon: is already defined in hpad.toml:1; keep one [daemon] table",
				"conf.d/b.toml:2: autoscalers.worker: is already defined in conf.d/a.toml:1; names must be unique",
				"conf.d/b.toml:5: fleets.local: is already defined in hpad.toml:3; only its services can be in several files",
				"conf.d/b.toml:7: sources.prom: is already defined in hpad.toml:9; names must be unique",
			},
		},
		"service of two files": {
			files: map[string]string{
				"hpad.toml":     fleetText + "[fleets.local.services.one]\ncommand = [\"true\"]\n",
				"conf.d/a.toml": "[fleets.local.services.two]\ncommand = [\"true\"]\nreplicas = -1\n",
				"conf.d/b.toml": "# B\n[fleets.local.services.one]\ncommand = [\"true\"]\n[fleets.local.services.two]\ncommand = [\"true\"]\n",
			},
			want: []string{
				"conf.d/a.toml:3: fleets.local.services.two.replicas = -1: must be at least 0",
				"conf.d/b.toml:2: fleets.local.services.one: is already defined in hpad.toml:8; names must be unique",
				"conf.d/b.toml:4: fleets.local.services.two: is already defined in conf.d/a.toml:1; names must be unique",
			},
		},
		"keys of a fleet in two files": {
			files: map[string]string{
				"hpad.toml":     fleetText,
				"conf.d/a.toml": "[fleets.local]\nkind = \"process\"\n[fleets.local.services.two]\ncommand = [\"true\"]\n",
			},
			want: []string{"conf.d/a.toml:1: fleets.local: is already defined in hpad.toml:2; only its services can be in several files"},
		},
		"services without their fleet": {
			files: map[string]string{
				"hpad.toml":     "",
				"conf.d/a.toml": "[fleets.local.services.one]\ncommand = [\"true\"]\n",
				"conf.d/b.toml": "[fleets.local.services.two]\ncommand = [\"true\"]\n",
			},
			want: []string{"conf.d/a.toml:1: fleets.local.kind: is required: the kinds of fleets are awsasg, azurevmss, compose, exec, gcemig, http, nomad, process, swarm, systemd"},
		},
		"target of two files": {
			files: map[string]string{
				"hpad.toml":     fleetText + worker,
				"conf.d/a.toml": strings.Replace(worker, "worker]", "again]", 1),
			},
			want: []string{`hpad.toml:9: autoscalers.worker.target: is already the target of autoscaler "again" in conf.d/a.toml:2; two autoscalers cannot scale the same target (local/worker)`},
		},
		"begins with a byte order mark": { // the line number is still correct
			files: map[string]string{"hpad.toml": "\xef\xbb\xbf" + fleetText + strings.Replace(worker, "= 2", "= -2", 1)},
			want:  []string{"hpad.toml:10: autoscalers.worker.max_replicas = -2: must be at least 1"},
		},
		"one file is no TOML": { // then names are not reported as missing
			files: map[string]string{
				"hpad.toml":     worker,
				"conf.d/a.toml": "fleets.local\n",
				"conf.d/b.toml": "[autoscalers.b]\nmax_replica = 2\n",
			},
			want: []string{
				"conf.d/a.toml:1: not valid TOML: ",
				"conf.d/b.toml:1: autoscalers.b.target: is required: a fleet",
				`conf.d/b.toml:2: autoscalers.b.max_replica: unknown key; did you mean "max_replicas"?`,
			},
		},
		"conf.d is a file": {
			files: map[string]string{"hpad.toml": "", "conf.d": ""},
			want:  []string{"conf.d: list the directory: not a directory"},
		},
		"file is a directory": {
			files: map[string]string{"hpad.toml/x": ""},
			want:  []string{"hpad.toml: read the configuration: is a directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, test.files)
			_, err := Load(t.Context(), filepath.Join(dir, "hpad.toml"))
			mistakes, ok := errors.AsType[Errors](err)
			if !ok || len(mistakes) != len(test.want) {
				t.Fatalf("Load() =\n%v\nwant\n%s", err, strings.Join(test.want, "\n"))
			}
			for i, mistake := range mistakes {
				got := strings.ReplaceAll(mistake.Error(), dir+"/", "")
				if !strings.HasPrefix(got, test.want[i]) {
					t.Errorf("error %d:\n%s\nwant\n%s", i, got, test.want[i])
				}
			}
		})
	}
}

func TestNoSamples(t *testing.T) {
	setKind(t, "process", &targets.Kind{Config: kinds.Fleets["process"].Config, Target: kinds.Fleets["process"].Target})
	_, err := Parse("hpad.toml", []byte(fleetText+"[autoscalers.a]\ntarget = { fleet = \"local\", service = \"worker\" }\nmax_replicas = 2\n"))
	want := `hpad.toml:8: autoscalers.a.metrics.source: is required: a fleet of kind "process" does not measure the use of resources`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestNextChange tests a ramp that begins before the previous window ends.
func TestNextChange(t *testing.T) {
	rule, mistakes := schedule.Compile(schedule.Config{Name: "day", Zone: "UTC", From: "08:00", To: "20:30", Ramp: 12 * time.Hour, MinReplicas: new(int32(5))})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	a := Autoscaler{Spec: policy.Spec{MinReplicas: new(int32(1)), MaxReplicas: 10}, Schedules: schedule.Rules{rule}}
	if next := a.NextChange(time.Now(), time.Now().Add(schedule.Horizon)); !next.IsZero() {
		t.Errorf("the schedule is always active, but the next change is at %s", next)
	}
}

// TestSchedules tests errors and warnings of schedules.
func TestSchedules(t *testing.T) {
	const head = "[fleets.local]\nkind = \"process\"\n[fleets.local.services.web]\ncommand = [\"/bin/true\"]\n" +
		"[autoscalers.web]\ntarget = { fleet = \"local\", service = \"web\" }\nmax_replicas = 10\n"
	const daily = "[[autoscalers.web.schedules]]\nzone = \"UTC\"\nfrom = \"08:00\"\n"
	for text, want := range map[string]string{
		daily + "name = \"a\"\nmin_replicas = 11\n":                                                        "hpad.toml:12: autoscalers.web.schedules[0].min_replicas = 11: must be at most max_replicas, which is 10",
		daily + "name = \"a\"\nmin_replicas = 2\nramp = \"780m\"\n":                                        "schedules[0].ramp = \"780m\": must be",
		daily + "name = \"a\"\nmin_replicas = 2\nto = \"24:00\"\n":                                         "schedules[0].to = \"24:00\": is not valid: leave it out",
		daily + "name = \"a\"\nmin_replicas = 2\nto = 18:00:00\n":                                          "schedules[0].to = 18:00:00: must be a string: write it in quotes",
		"min_replicas = 2\n" + daily + "name = \"a\"\nmax_replicas = 1\n":                                  "max_replicas = 1: must be at least min_replicas, which is 2; or set min_replicas in this schedule",
		daily + "name = \"a\"\nmin_replicas = 0\n":                                                         "schedules[0].min_replicas = 0: requires an Object or External metric",
		daily + "name = \"a\"\nmax_replicas = 0\n":                                                         "schedules[0].max_replicas = 0: stops the target, which requires min_replicas = 0 in this schedule",
		daily + "name = \"a\"\nmax_replicas = -1\nmin_replicas = 0\n":                                      "schedules[0].max_replicas = -1: must be at least 1",
		"[daemon]\nscale_to_zero = false\n" + daily + "name = \"a\"\nmax_replicas = 0\nmin_replicas = 0\n": "because scaling to zero is disabled",
		daily + "name = \"a\"\nmode = \"paused\"\n":                                                        "schedules[0].mode",
		daily + "name = \"a\"\nmode = \"off\"\ncron = \"0 0 * * *\"\n":                                     "needs exactly one kind of window",
		daily + "name = \"a\"\nmode = \"off\"\n" + daily + "name = \"a\"\n":                                "schedules[1].name = \"a\": is already the name",
		"[daemon]\ncompat = \"strict\"\n" + daily + "name = \"a\"\nmode = \"off\"\n":                       `autoscalers.web.schedules: is not allowed with compat = "strict"`,
	} {
		if _, err := Parse("hpad.toml", []byte(head+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror: %v\nwant:  %s", text, err, want)
		}
	}
	if _, err := Parse("hpad.toml", []byte(head+daily+"name = \"night\"\nmin_replicas = 0\nmax_replicas = 0\n")); err != nil {
		t.Error(err)
	}
	c, err := Parse("hpad.toml", []byte(head+daily+"name = \"a\"\nmin_replicas = 8\n"+daily+"name = \"b\"\nmax_replicas = 3\n"+
		strings.Replace(daily, "from = \"08:00\"", "start = \"2020-01-01\"\nend = \"2020-01-02\"", 1)+"name = \"c\"\nmode = \"off\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	warnings := fmt.Sprint(c.Warnings())
	for _, want := range []string{"; a and b: ", "08:00 to ", `schedules[2].end = "2020-01-02": is in the past`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in the warnings %s", want, warnings)
		}
	}
}

// TestScheduleWarnings tests warnings of valid schedules, and schedules that must not warn.
func TestScheduleWarnings(t *testing.T) {
	const head = "[fleets.local]\nkind = \"process\"\n[fleets.local.services.web]\ncommand = [\"/bin/true\"]\n" +
		"[autoscalers.web]\ntarget = { fleet = \"local\", service = \"web\" }\nmin_replicas = 2\nmax_replicas = 10\n"
	const table = "[[autoscalers.web.schedules]]\nname = \"a\"\n"
	for text, want := range map[string]string{
		table + "zone = \"UTC\"\nfrom = \"00:00\"\nto = \"23:59\"\nmin_replicas = 3\n":                   "to = \"23:59\": is the end of the window, which leaves a gap of a minute before the full hour: leave it out",
		table + "zone = \"UTC\"\nfrom = \"08:00\"\nto = \"17:59\"\nmin_replicas = 3\n":                   "use the next full hour",
		table + "zone = \"UTC\"\nfrom = \"06:30\"\nto = \"06:29\"\nmin_replicas = 3\n":                   `gap of a minute each day: use "06:30"`,
		table + "zone = \"UTC\"\nstart = \"2099-11-26\"\nend = \"2099-11-26 23:59\"\nmin_replicas = 3\n": `use "2099-11-26", which includes the whole day`,
		table + "zone = \"UTC\"\ncron = \"0 0 * * *\"\nduration = \"1439m\"\nmin_replicas = 3\n":         `use "24h"`,
		table + "zone = \"EST\"\nfrom = \"08:00\"\nmin_replicas = 3\n":                                   `zone = "EST": has no summer time: use "America/New_York"`,
		table + "zone = \"MST\"\nfrom = \"08:00\"\nmin_replicas = 3\n":                                   `use "America/Denver"`,
		table + "zone = \"Etc/GMT\"\nfrom = \"08:00\"\nmin_replicas = 3\n":                               `use "Europe/London"`,
		table + "zone = \"Etc/GMT+5\"\nfrom = \"08:00\"\nmin_replicas = 3\n":                             "it is UTC-05:00",
		table + "zone = \"UTC\"\nfrom = \"08:00\"\nmin_replicas = 2\n":                                   "schedules[0]: has no effect",
		table + "zone = \"UTC\"\nfrom = \"08:00\"\nmax_replicas = 10\nmode = \"on\"\n":                   "schedules[0]: has no effect",
		"mode = \"off\"\n" + table + "zone = \"UTC\"\nfrom = \"08:00\"\nmin_replicas = 3\n":              "set mode in a schedule",
		table + "zone = \"EST5EDT\"\nfrom = \"08:00\"\nmin_replicas = 3\n":                               "",
		table + "zone = \"CET\"\nfrom = \"08:00\"\nto = \"18:00\"\nmin_replicas = 3\n":                   "",
		table + "zone = \"UTC\"\ncron = \"*/10 * * * *\"\nduration = \"5m\"\nmin_replicas = 3\n":         "",
		table + "zone = \"UTC\"\nfrom = \"08:00\"\nmin_replicas = 2\n" +
			"[[autoscalers.web.schedules]]\nname = \"b\"\nzone = \"UTC\"\nfrom = \"06:00\"\nmin_replicas = 1\n": "",
	} {
		c, err := Parse("hpad.toml", []byte(head+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		switch warnings := fmt.Sprint(c.Warnings()); {
		case want == "" && strings.Contains(warnings, "schedules"), !strings.Contains(warnings, want):
			t.Errorf("%s\nwarnings: %s\nwant: %q", text, warnings, want)
		}
	}
}
