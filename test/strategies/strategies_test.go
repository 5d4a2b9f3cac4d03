package strategies

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad/scaling"
	"github.com/hpad/hpad/test/internal/installed"
)

// plugins is the program that runs the strategies of nomad-autoscaler.
type plugins struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T) *plugins {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), installed.Path(t, "strategies-*/plugins", "test/install/strategies.sh"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // the context may have killed it
	})
	return &plugins{t: t, in: in, out: bufio.NewReader(out)}
}

// check is a check of a policy with its current value.
type check struct {
	Strategy string
	Config   map[string]string
	Value    float64
}

// count returns the count that the strategies request, within the bounds of the policy.
func (p *plugins) count(current int32, checks []check, low, high int32) int32 {
	p.t.Helper()
	line, err := json.Marshal(map[string]any{"Count": current, "Checks": checks})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	count, err := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil {
		p.t.Fatal(err)
	}
	return min(max(int32(count), low), high)
}

// converted is hpad's autoscaler for a policy.
type converted struct {
	spec     policy.Spec
	settings policy.Settings
	memory   policy.Memory
	status   policy.Status
}

// convert converts checks, as the scaling block of a job defines them.
func convert(t *testing.T, checks []check, low, high int64, cooldown string) *converted {
	t.Helper()
	body := map[string]any{"cooldown": cooldown, "evaluation_interval": "10s"}
	var blocks []any
	for i, c := range checks {
		keys := map[string]any{}
		for key, value := range c.Config {
			keys[key] = value
		}
		blocks = append(blocks, map[string]any{"check" + strconv.Itoa(i): []any{map[string]any{
			"source": "prometheus", "query": "value" + strconv.Itoa(i), "strategy": []any{map[string]any{c.Strategy: []any{keys}}},
		}}})
	}
	body["check"] = blocks
	p := scaling.Policy{Job: "web", Group: "app", Min: &low, Max: &high, Enabled: true, Body: body}
	autoscaler := p.Convert()
	if open := autoscaler.Open(); len(open) > 0 {
		t.Fatalf("open decisions: %v", open)
	}
	labels := map[string]string{}
	for key, value := range autoscaler.Labels() {
		labels[targets.LabelPrefix+key] = value
	}
	c, err := config.Parse("x.toml", []byte("[fleets.prod]\nkind = \"nomad\"\n[sources.prometheus]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	labeled, _, err := c.Labeled(targets.Ref{Fleet: "prod", Name: "web/app"}, labels)
	if err != nil {
		t.Fatal(err)
	}
	return &converted{spec: labeled.Spec, settings: c.Daemon.Settings()}
}

// step performs one pass and returns the new count. All instances are ready.
func (c *converted) step(now time.Time, current int32, values []float64) int32 {
	observation := policy.Observation{SpecReplicas: current, StatusReplicas: current}
	for i := range current {
		observation.Instances = append(observation.Instances, policy.Instance{
			ID: strconv.Itoa(int(i)), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, StartedAt: now.Add(-time.Hour), ReadinessChanged: now.Add(-time.Hour),
		})
	}
	for _, value := range values {
		observation.Metrics = append(observation.Metrics, policy.Reading{ValuesMilli: []int64{int64(math.Trunc(value * 1000))}})
	}
	decision := policy.Decide(c.settings, c.spec, c.memory, c.status, observation, now)
	outcome := policy.Outcome{}
	if decision.Write {
		outcome = policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
	}
	settled := policy.Settle(decision, outcome, now)
	c.memory, c.status = settled.Memory, settled.Status
	return decision.DesiredReplicas
}

func valuesOf(checks []check) (values []float64) {
	for _, c := range checks {
		if c.Strategy != "fixed-value" { // becomes a bound
			values = append(values, c.Value)
		}
	}
	return values
}

// TestSteps compares single decisions without history. Without the stabilization window that replaces
// the cooldown, each decision is equal.
func TestSteps(t *testing.T) {
	p := start(t)
	random := rand.New(rand.NewPCG(46, 1))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, draw := range map[string]func() []check{
		"target-value": func() []check {
			return []check{{"target-value", map[string]string{"target": strconv.Itoa(1 + random.IntN(90))}, float64(random.IntN(200_000)) / 1000}}
		},
		"target-value with threshold": func() []check {
			return []check{{"target-value", map[string]string{"target": "50", "threshold": "0.2"}, float64(random.IntN(100_000)) / 1000}}
		},
		"pass-through": func() []check {
			return []check{{"pass-through", nil, float64(random.IntN(60))}}
		},
		"two checks": func() []check {
			return []check{
				{"target-value", map[string]string{"target": "70"}, float64(random.IntN(200_000)) / 1000},
				{"target-value", map[string]string{"target": "20"}, float64(random.IntN(60_000)) / 1000},
			}
		},
		"with a floor": func() []check {
			return []check{{"target-value", map[string]string{"target": "70"}, float64(random.IntN(200_000)) / 1000}, {"fixed-value", map[string]string{"value": "4"}, 0}}
		},
	} {
		different := 0
		for range 500 {
			checks := draw()
			hpad := convert(t, checks, 0, 50, "5m")
			hpad.spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
			current := max(int32(1+random.IntN(50)), *hpad.spec.MinReplicas) // R25.4c raises a lower count to the minimum first
			if want, got := p.count(current, checks, *hpad.spec.MinReplicas, 50), hpad.step(now, current, valuesOf(checks)); got != want {
				if different++; different <= 3 {
					t.Errorf("%s: %v at %d replicas: hpad wants %d, nomad-autoscaler %d", name, checks, current, got, want)
				}
			}
		}
		if different > 0 {
			t.Errorf("%s: %d of 500 decisions differ", name, different)
		}
	}
}

// TestDay runs both autoscalers for a day of varying load, and compares the result with the table in
// docs/nomad.md. The load is a total, and the value of the check is the load per instance.
func TestDay(t *testing.T) {
	p := start(t)
	const (
		low, high, interval = 2, 60, 10 * time.Second
		cooldown            = 5 * time.Minute
	)
	checks := []check{{Strategy: "target-value", Config: map[string]string{"target": "70"}}}
	hpad := convert(t, checks, low, high, cooldown.String())
	random := rand.New(rand.NewPCG(46, 2))
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var counts [2]int32
	var changes, short [2]int
	var sums [2]float64
	counts[0], counts[1] = low, low
	var blocked time.Time
	steps := 0
	for now := begin; now.Before(begin.Add(24 * time.Hour)); now = now.Add(interval) {
		hour := now.Sub(begin).Hours()
		load := 1500 - 1200*math.Cos(2*math.Pi*hour/24) + 200*random.Float64()
		if hour >= 15 && hour < 15.5 { // a burst
			load += 1000
		}
		steps++
		next := counts
		if !now.Before(blocked) {
			checks[0].Value = load / float64(counts[0])
			if next[0] = p.count(counts[0], checks, low, high); next[0] != counts[0] {
				blocked = now.Add(cooldown)
			}
		}
		next[1] = hpad.step(now, counts[1], []float64{load / float64(counts[1])})
		for i := range counts {
			if float64(counts[i])*70 < load {
				short[i]++
			}
			sums[i] += float64(counts[i])
			if next[i] != counts[i] {
				changes[i]++
			}
		}
		counts = next
	}
	page, err := os.ReadFile("../../docs/nomad.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"nomad-autoscaler", "hpad"} {
		row := fmt.Sprintf("| %s | %d | %.1f | %.0f %% |", name, changes[i], sums[i]/float64(steps), 100*float64(short[i])/float64(steps))
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/nomad.md needs the row\n%s", row)
		}
	}
}
