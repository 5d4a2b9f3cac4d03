package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// simulatedDaemon is a daemon with the recording of one autoscaler of a configuration.
type simulatedDaemon struct {
	*apitest.Daemon
	config *config.Config
}

func (d *simulatedDaemon) Policies(name string, variants []config.Variant) ([]simulate.Policy, error) {
	return status.PoliciesOf(d.config, d.config.Autoscalers[name], variants)
}

func (d *simulatedDaemon) Recording(_ context.Context, _ string, _, _ time.Time) (simulate.Recording, error) {
	return d.Passes, nil
}

// twoDays returns the recording of an autoscaler that scales by cpu: a daily load with short peaks,
// and instances that start within 45 seconds.
func twoDays(p simulate.Policy) simulate.Recording {
	const step, ticks, request, startup = 15 * time.Second, 2 * 5760, 500, 45 * time.Second
	recording := simulate.Recording{Name: "web", Origin: simulate.FromGraphs, Metrics: []string{"cpu"}, Step: step}
	var memory policy.Memory
	var current policy.Status
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	replicas := 8
	started := slices.Repeat([]time.Time{begin.Add(-startup)}, replicas)
	for i := range ticks {
		now := begin.Add(time.Duration(i) * step)
		for len(started) < replicas {
			started = append(started, now)
		}
		started = started[:replicas]
		hours := now.Sub(now.Truncate(24 * time.Hour)).Hours()
		load := 2500 - 1800*math.Cos(2*math.Pi*hours/24) + 200*math.Sin(float64(i)/7)
		if i%480 < 40 { // ten minutes each two hours
			load *= 1.5
		}
		o := policy.Observation{SpecReplicas: int32(replicas), StatusReplicas: int32(replicas), Metrics: make([]policy.Reading, 1)}
		ready := 0
		for _, at := range started {
			if now.Sub(at) >= startup {
				ready++
			}
		}
		for j, at := range started {
			in := policy.Instance{ID: fmt.Sprint(j), Phase: policy.PhaseRunning, Readiness: policy.ReadinessFalse, StartedAt: at.Add(-time.Hour), Requests: []policy.Amount{{Resource: "cpu", Milli: request}}}
			sample := policy.Sample{At: now, OK: now.Sub(at) >= startup, Milli: int64(load) / int64(ready)}
			if sample.OK {
				in.Readiness = policy.ReadinessTrue
			}
			o.Instances, o.Metrics[0].Samples = append(o.Instances, in), append(o.Metrics[0].Samples, sample)
		}
		in := policy.Inputs{Settings: p.Settings, Spec: p.Spec, Memory: memory, Status: current, Observation: o, Now: now}
		decision, outcome := in.Decide(), policy.Outcome{}
		if decision.Write {
			outcome = policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
			replicas = int(decision.DesiredReplicas)
		}
		recording.Ticks = append(recording.Ticks, simulate.Record(&in, &decision, outcome, false, false))
		settled := policy.Settle(decision, outcome, now)
		memory, current = settled.Memory, settled.Status
	}
	return recording
}

var consoles = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestSimulatePage runs the examples of docs/simulate.md and compares their output with the page. With
// -update, it writes the output to the page.
func TestSimulatePage(t *testing.T) {
	page := readDoc(t, "simulate.md")
	text := regexp.MustCompile("(?ms)^```toml\n(.*?)^```$").FindStringSubmatch(page)[1]
	file := filepath.Join(t.TempDir(), "hpad.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	daemon := &simulatedDaemon{Daemon: &apitest.Daemon{TOML: c.Redacted()}, config: c}
	daemon.Passes = twoDays(c.Autoscalers["web"].Policy(c.Daemon, "active"))
	socket := serveDaemon(t, daemon)
	load, err := os.ReadFile("../../simulate/testdata/nab/elb.csv")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for n, block := range consoles.FindAllStringSubmatch(page, -1) {
		commands, outputs := sessionOf(block[1])
		script, files := "", "-- hpad.toml --\n"+text+"-- elb.csv --\n"+string(load)
		for i, command := range commands {
			script += fmt.Sprintf("exec sh command%d\nshows out%d want%d %d %d\n", i, i, i, n, i)
			files += fmt.Sprintf("-- command%d --\n%s\n-- want%d --\n%s", i, "{ "+command+"; } >out"+fmt.Sprint(i)+" 2>&1 || true", i, outputs[i])
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.txtar", n)), []byte(script+files), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	shown := map[string]string{}
	compare := func(ts *testscript.TestScript, _ bool, args []string) {
		mu.Lock()
		defer mu.Unlock()
		shown[args[2]] += "$ " + strings.TrimSuffix(strings.TrimPrefix(ts.ReadFile("command"+args[3]), "{ "), "; } >out"+args[3]+" 2>&1 || true\n") + "\n" + ts.ReadFile(args[0])
		if want, got := ts.ReadFile(args[1]), ts.ReadFile(args[0]); want != got && !golden.FlagUpdate() {
			ts.Fatalf("docs/simulate.md shows:\n%s\nprinted:\n%s", want, got)
		}
	}
	t.Run("examples", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: dir,
			Setup: func(env *testscript.Env) error {
				env.Setenv("TZ", "UTC")
				env.Setenv("HPAD_SOCKET", socket)
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"shows": compare},
		})
	})
	// Suggestions are valid tables.
	_, table, _ := strings.Cut(page, "\n[autoscalers.web]\nmax")
	table, _, _ = strings.Cut("[autoscalers.web]\nmax"+table, "```")
	fleets, _, _ := strings.Cut(text, "[autoscalers.web]")
	if _, err := config.Parse("hpad.toml", []byte(fleets+table)); err != nil || !strings.Contains(table, "min_replicas") {
		t.Errorf("the suggestion is not valid: %v\n%s", err, table)
	}
	if golden.FlagUpdate() {
		n := -1
		page = consoles.ReplaceAllStringFunc(page, func(string) string {
			n++
			return "```console\n" + shown[fmt.Sprint(n)] + "```"
		})
		if err := os.WriteFile("../../docs/simulate.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
