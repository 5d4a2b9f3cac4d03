package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// A value of another type hides no other mistake of its table.
func TestMisfitHidesNothing(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			name: "daemon",
			text: `[daemon]
listen = 4720
sync_period = "2h"
compat = "loose"
`,
			want: `x.toml:2: daemon.listen = 4720: must be a string, not a whole number
x.toml:3: daemon.sync_period = "2h": must be whole seconds from "1s" to "1h"
x.toml:4: daemon.compat = "loose": must be "strict", or empty`,
		},
		{
			name: "autoscaler",
			text: `[fleets.local]
kind = "process"
services = { worker = { command = ["worker"] } }
[autoscalers.x]
target = { fleet = "local", service = "wroker", requests = { cpu = "much", memory = "0" } }
min_replicas = "5"
max_replicas = 3
on_foreign_change = "ignore"
metrics = [
  { type = "Resource", resource = 5, average_utilization = 0 },
  { type = "Resource", resource = "cpu", average_utilization = "60", window = "1m" },
]
behavior.scale_up = { policies = [{ type = "Percent", value = "ten", period = "2h" }], select_policy = "Least" }
guard = { drop = 50, confirm = 1000 }
`,
			want: `x.toml:5: autoscalers.x.target.requests.cpu = "much": "much" is not a quantity: want a number with an optional suffix n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, as "500m" or "1.5Gi"
x.toml:5: autoscalers.x.target.requests.memory = "0": must be greater than 0: utilization is a part of it
x.toml:5: autoscalers.x.target.service = "wroker": no service "wroker" is configured; the fleet has ["worker"]
x.toml:6: autoscalers.x.min_replicas = "5": must be a whole number, not a string
x.toml:7: autoscalers.x.max_replicas = 3: must be at least min_replicas, which is 5
x.toml:8: autoscalers.x.on_foreign_change = "ignore": must be "accept" or "restore"
x.toml:10: autoscalers.x.metrics[0].average_utilization = 0: must be at least 1
x.toml:10: autoscalers.x.metrics[0].resource = 5: must be a string, not a whole number
x.toml:11: autoscalers.x.metrics[1].average_utilization = "60": must be a whole number, not a string
x.toml:11: autoscalers.x.metrics[1].window = "1m": needs a source, which is not given
x.toml:13: autoscalers.x.behavior.scale_up.policies[0].period = "2h": must be 1 to 1800 seconds
x.toml:13: autoscalers.x.behavior.scale_up.policies[0].value = "ten": must be a whole number, not a string
x.toml:13: autoscalers.x.behavior.scale_up.select_policy = "Least": must be Max, Min or Disabled
x.toml:14: autoscalers.x.guard.confirm = 1000: must be from 0, which believes every reading, to 100
x.toml:14: autoscalers.x.guard.drop = 50: must be a percentage, as "50%"`,
		},
		{
			name: "source",
			text: `[sources.prom]
kind = "prometheus"
url = "ftp://127.0.0.1"
timeout = 5
`,
			want: `x.toml:3: sources.prom.url = "ftp://127.0.0.1": must be the address of a Prometheus server, as "http://127.0.0.1:9090"
x.toml:4: sources.prom.timeout = 5: must be a duration with its unit: write "5s"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("x.toml", []byte(test.text))
			if diff := cmp.Diff(test.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("mistakes differ (-want +got):\n%s", diff)
			}
		})
	}
}

// A value of another type is one mistake: what follows from it is none.
// Every key of every example gets a number, a text and an array.
func TestMisfitIsOneMistake(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("glob configs: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			skipOmitted(t, file)
			text, err := os.ReadFile(withWebConfig(t, file))
			if err != nil {
				t.Fatal(err)
			}
			var root map[string]any
			if err := toml.Unmarshal(text, &root); err != nil {
				t.Fatal(err)
			}
			misfitAll(t, root, root, "", 0)
		})
	}
}

// misfitAll puts values of other types in the place of every key of a table that
// is a part of root.
func misfitAll(t *testing.T, root, table map[string]any, path string, depth int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at, right := join(path, name), table[name]
		switch inner := right.(type) {
		case map[string]any:
			misfitAll(t, root, inner, at, depth+1)
		case []map[string]any:
			for i, each := range inner {
				misfitAll(t, root, each, element(at, i), depth+1)
			}
		}
		// What kind a table is of and whether there is one at all is of concern to others.
		if depth < 2 && path != daemonKey || depth == 2 && name == kindKey {
			continue
		}
		for _, wrong := range []any{int64(-7), "some text", []any{"text", int64(5)}} {
			table[name] = wrong
			checkMisfit(t, root, at, wrong)
		}
		table[name] = right
	}
}

// checkMisfit parses a configuration with a wrong value at a path.
func checkMisfit(t *testing.T, root map[string]any, at string, wrong any) {
	t.Helper()
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(root); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("misfit.toml", text.Bytes())
	mistakes, ok := errors.AsType[Errors](err)
	isMisfit := slices.ContainsFunc(mistakes, func(mistake Error) bool {
		return isWithin(mistake.Key, at) && strings.Contains(mistake.Detail, ", not ")
	})
	if !ok || !isMisfit {
		return // it is a value of the right type, if not a right one
	}
	checkFound(t, "misfit.toml", mistakes)
	for _, mistake := range mistakes {
		if !isWithin(mistake.Key, at) {
			t.Errorf("%s = %v: told as well: %v", at, wrong, mistake)
		}
	}
}
