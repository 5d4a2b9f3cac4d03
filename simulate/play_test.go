package simulate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/simulate"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// game is a small daemon with one target. It makes passes as daemon/round does, and records them.
type game struct {
	policy simulate.Policy
	// load returns the load in units at an instant. Resource metrics use it in cores.
	load    func(time.Time) float64
	startup time.Duration
	step    time.Duration
	ticks   int
	// before is called before each pass and can change the observation, for example add a pause.
	// It returns false if hpad does not run.
	before func(i int, g *game, o *policy.Observation) bool

	replicas  int32
	instances []policy.Instance
	memory    policy.Memory
	status    policy.Status
	restore   *policy.PendingRestoration
	expected  int32
	serial    int
	now       time.Time
}

const request = 500 // milli-cores of each instance

// resize starts and stops instances until their number is the count.
func (g *game) resize() {
	for int32(len(g.instances)) < g.replicas {
		g.serial++
		g.instances = append(g.instances, policy.Instance{
			ID: strconv.Itoa(g.serial), Phase: policy.PhaseRunning, Readiness: policy.ReadinessFalse,
			StartedAt: g.now, ReadinessChanged: g.now, Requests: []policy.Amount{{Resource: "cpu", Milli: request}},
		})
	}
	g.instances = g.instances[:g.replicas]
	for i := range g.instances {
		if in := &g.instances[i]; in.Readiness == policy.ReadinessFalse && g.now.Sub(in.StartedAt) >= g.startup {
			in.Readiness, in.ReadinessChanged = policy.ReadinessTrue, g.now
		}
	}
}

func (g *game) ready() (n int) {
	for i := range g.instances {
		if g.instances[i].Readiness == policy.ReadinessTrue {
			n++
		}
	}
	return n
}

// read returns the readings of all metrics.
func (g *game) read() []policy.Reading {
	readings := make([]policy.Reading, len(g.policy.Spec.Metrics))
	load, ready := g.load(g.now), g.ready()
	for i := range readings {
		metric, reading := &g.policy.Spec.Metrics[i], &readings[i]
		switch {
		case metric.Formula != "":
		case metric.Type == policy.ExternalMetric && metric.Target.ValueMilli != nil:
			reading.ValuesMilli = []int64{int64(1000 * load / float64(max(1, ready)))}
		case metric.Type == policy.ExternalMetric:
			reading.ValuesMilli = []int64{int64(1000 * load)}
		default:
			for j := range g.instances {
				sample := policy.Sample{OK: g.instances[j].Readiness == policy.ReadinessTrue, At: g.now, Window: 15 * time.Second}
				sample.Milli = (int64(1000*load) + int64(j)) / int64(max(1, ready)) // the sum is the load
				reading.Samples = append(reading.Samples, sample)
			}
		}
	}
	return readings
}

// play makes all passes and returns their recording.
func (g *game) play(t rapid.TB) *simulate.Recording {
	recording := &simulate.Recording{Name: "web", Origin: simulate.FromGraphs, Step: g.step}
	metrics := g.policy.Spec.Metrics
	for i, name := range simulate.MetricNames(metrics) {
		if metrics[i].Formula == "" {
			recording.Metrics = append(recording.Metrics, name)
		}
	}
	var rules schedule.Rules
	for _, c := range g.policy.Schedules {
		rule, errs := schedule.Compile(c)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		rules = append(rules, rule)
	}
	g.expected = g.replicas
	for i := range g.ticks {
		g.now = start.Add(time.Duration(i) * g.step)
		g.resize()
		spec, settings := g.policy.Spec, g.policy.Settings
		if len(rules) > 0 {
			spec, settings.Mode, _ = rules.At(g.now, schedule.Unscheduled(spec, settings.Mode)).Apply(spec, settings.Mode)
		}
		observation := policy.Observation{SpecReplicas: g.replicas, StatusReplicas: g.replicas, Instances: slices.Clone(g.instances), Metrics: g.read()}
		if g.before != nil && !g.before(i, g, &observation) {
			continue
		}
		g.replicas = observation.SpecReplicas
		g.restore = g.restore.Under(&spec, g.policy.RestoreForeign)
		if observation.ReadError == "" && g.replicas != g.expected {
			observation.Foreign = &policy.ForeignChange{From: g.expected}
			if g.policy.RestoreForeign && !g.status.Disabled() {
				g.restore = policy.RestoreForeign(g.restore, &spec, g.expected, g.replicas, g.now)
			}
		}
		observation.Restore = g.restore.Shown()
		in := policy.Inputs{Settings: settings, Spec: spec, Memory: g.memory, Status: g.status, Observation: observation, Now: g.now}
		decision := in.Decide()
		outcome := policy.Outcome{}
		if decision.Write {
			outcome = policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
			g.replicas = decision.DesiredReplicas
		}
		settlement := policy.Settle(decision, outcome, g.now)
		g.memory, g.status = settlement.Memory, settlement.Status
		g.restore = g.restore.After(&decision, outcome, false)
		if observation.ReadError == "" {
			g.expected = g.replicas
		}
		recording.Ticks = append(recording.Ticks, simulate.Record(&in, &decision, outcome, false, false))
	}
	return recording
}

func spec(low, high int32, metrics ...policy.MetricSpec) policy.Spec {
	return policy.Default(policy.Spec{MinReplicas: &low, MaxReplicas: high, Metrics: metrics})
}

func utilization(percent int32) policy.MetricSpec {
	return policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &percent}}
}

func average(name string, units float64) policy.MetricSpec {
	milli := int64(1000 * units)
	return policy.MetricSpec{Type: policy.ExternalMetric, Name: name, Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &milli}}
}

func value(name string, units float64) policy.MetricSpec {
	milli := int64(1000 * units)
	return policy.MetricSpec{Type: policy.ExternalMetric, Name: name, Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: &milli}}
}

func policyOf(label string, s policy.Spec) simulate.Policy {
	return simulate.Policy{Label: label, Spec: s, SyncPeriod: 15 * time.Second, Settings: policy.Settings{
		Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute, ScaleToZero: true, OutageHold: 10 * time.Minute,
		CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second,
	}}
}

// waves returns a wave between low and high, with noise.
func waves(low, high float64, period time.Duration, seed uint64) func(time.Time) float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	return func(t time.Time) float64 {
		phase := 2 * math.Pi * float64(t.Sub(start)) / float64(period)
		return low + (high-low)*(0.5-0.5*math.Cos(phase))*(0.9+0.2*random.Float64())
	}
}
