package policy_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "3000", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// world contains all inputs of one pass.
type world struct {
	Settings    policy.Settings
	Spec        policy.Spec
	Memory      policy.Memory
	Status      policy.Status
	Observation policy.Observation
	Now         time.Time
}

func (w *world) decide() policy.Decision {
	return policy.Decide(w.Settings, w.Spec, w.Memory, w.Status, w.Observation, w.Now)
}

func (w *world) text(t *rapid.T) string {
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatalf("marshal the world: %v", err)
	}
	return string(text)
}

func chance(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(1, n).Draw(t, label) == 1
}

// drawBefore draws a time up to slightly more than an hour before now. Times are whole seconds, so
// that some windows end exactly at an entry.
func drawBefore(t *rapid.T, now time.Time, label string) time.Time {
	return now.Add(-time.Duration(rapid.IntRange(0, 4000).Draw(t, label)) * time.Second)
}

func drawWorld(t *rapid.T) *world {
	w := &world{Now: start.Add(48 * time.Hour)}
	w.Settings = policy.Settings{
		Tolerance:               rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "tolerance"),
		DownscaleStabilization:  time.Duration(rapid.IntRange(0, 600).Draw(t, "downscale")) * time.Second,
		CPUInitializationPeriod: 5 * time.Minute,
		InitialReadinessDelay:   30 * time.Second,
		ScaleToZero:             rapid.Bool().Draw(t, "scale to zero"),
		OutageHold:              rapid.SampledFrom([]time.Duration{0, 10 * time.Minute}).Draw(t, "outage hold"),
	}
	w.Spec = drawSpec(t, w.Settings.ScaleToZero)
	w.Memory = drawMemory(t, w.Now)
	if rapid.Bool().Draw(t, "own zero") {
		w.Status.Conditions = []policy.Condition{
			{Type: policy.AbleToScale, Status: policy.ConditionTrue, Since: w.Now.Add(-time.Hour), Reason: "SucceededRescale"},
			{Type: policy.ScaledToZero, Status: policy.ConditionTrue, Since: w.Now.Add(-time.Hour), Reason: "ScaledToZero"},
		}
	}
	if rapid.Bool().Draw(t, "earlier notice") {
		w.Status.Conditions = append(w.Status.Conditions, policy.Condition{
			Type: "InsufficientCapacity", Status: policy.ConditionTrue, Since: w.Now.Add(-time.Hour), Reason: "Told",
		})
	}
	w.Observation = drawObservation(t, &w.Spec, w.Now)
	return w
}

func drawSpec(t *rapid.T, scaleToZero bool) policy.Spec {
	spec := policy.Spec{MaxReplicas: rapid.Int32Range(1, 60).Draw(t, "max")}
	for range rapid.IntRange(1, 3).Draw(t, "metrics") {
		spec.Metrics = append(spec.Metrics, drawMetric(t))
	}
	spec.MinReplicas = new(rapid.Int32Range(0, spec.MaxReplicas).Draw(t, "min"))
	if rapid.Bool().Draw(t, "behavior") {
		spec.Behavior = &policy.Behavior{ScaleUp: drawRules(t, "up"), ScaleDown: drawRules(t, "down")}
	}
	spec = policy.Default(spec)
	if len(policy.Validate(spec, scaleToZero)) > 0 {
		*spec.MinReplicas = 1
	}
	if mistakes := policy.Validate(spec, scaleToZero); len(mistakes) > 0 {
		t.Fatalf("the generated spec is invalid: %v", mistakes)
	}
	return spec
}

func drawMetric(t *rapid.T) policy.MetricSpec {
	goal := rapid.Int64Range(1, 100_000).Draw(t, "goal")
	switch rapid.IntRange(0, 4).Draw(t, "metric") {
	case 0:
		return cpuUtilization(int32(rapid.IntRange(1, 200).Draw(t, "percent")))
	case 1:
		metric := perInstance("memory", goal)
		metric.Type, metric.Task = policy.ContainerResourceMetric, "app"
		return metric
	case 2:
		return perInstance("rps", goal)
	case 3:
		return policy.MetricSpec{
			Type: policy.ObjectMetric, Name: "latency", Object: "route/main",
			Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: &goal},
		}
	default:
		return queueMetric(goal)
	}
}

func drawRules(t *rapid.T, label string) *policy.ScalingRules {
	if chance(t, 4, label+" default") {
		return nil
	}
	rules := &policy.ScalingRules{
		SelectPolicy: rapid.SampledFrom([]policy.SelectPolicy{policy.MaxChange, policy.MinChange, policy.DisabledChange}).Draw(t, label+" select"),
	}
	if rapid.Bool().Draw(t, label+" window") {
		rules.StabilizationWindowSeconds = new(rapid.Int32Range(0, 3600).Draw(t, label+" window"))
	}
	for range rapid.IntRange(1, 3).Draw(t, label+" policies") {
		rules.Policies = append(rules.Policies, policy.ScalingPolicy{
			Type:          rapid.SampledFrom([]policy.PolicyType{policy.InstancesPolicy, policy.PercentPolicy}).Draw(t, label+" type"),
			Value:         rapid.Int32Range(1, 150).Draw(t, label+" value"),
			PeriodSeconds: rapid.Int32Range(1, 1800).Draw(t, label+" period"),
		})
	}
	if rapid.Bool().Draw(t, label+" tolerance set") {
		rules.Tolerance = new(rapid.SampledFrom([]float64{0, 0.05, 0.3}).Draw(t, label+" tolerance"))
	}
	return rules
}

func drawMemory(t *rapid.T, now time.Time) policy.Memory {
	var memory policy.Memory
	for range rapid.IntRange(0, 5).Draw(t, "recommendations") {
		memory.Recommendations = append(memory.Recommendations, policy.Recommendation{
			Replicas: rapid.Int32Range(0, 80).Draw(t, "recommended"), Time: drawBefore(t, now, "recommended at"), Held: rapid.Bool().Draw(t, "held"),
		})
	}
	if rapid.Bool().Draw(t, "outage") {
		memory.NoReadySince = drawBefore(t, now, "outage since")
	}
	drawEvents := func(label string) (events []policy.ScaleEvent) {
		for range rapid.IntRange(0, 4).Draw(t, label) {
			events = append(events, policy.ScaleEvent{
				Change: rapid.Int32Range(0, 20).Draw(t, label+" change"), Time: drawBefore(t, now, label+" ago"),
				Outdated: rapid.Bool().Draw(t, label+" outdated"),
			})
		}
		return events
	}
	memory.ScaleUpEvents, memory.ScaleDownEvents = drawEvents("up events"), drawEvents("down events")
	return memory
}

func drawObservation(t *rapid.T, spec *policy.Spec, now time.Time) policy.Observation {
	o := policy.Observation{
		SpecReplicas:   rapid.Int32Range(0, 70).Draw(t, "current"),
		StatusReplicas: rapid.Int32Range(0, 70).Draw(t, "status replicas"),
	}
	if chance(t, 12, "unreadable") {
		o.ReadError = "down"
		o.ReadReason = rapid.SampledFrom([]string{"", "JobNotFound"}).Draw(t, "read reason")
		o.Unscalable = rapid.Bool().Draw(t, "unscalable")
	}
	for range rapid.IntRange(0, 2).Draw(t, "notices") {
		o.Notices = append(o.Notices, policy.Notice{
			Condition: rapid.SampledFrom([]policy.ConditionType{"InsufficientCapacity", "TemplateOld", "", policy.ScaledToZero, policy.AbleToScale}).Draw(t, "notice"),
			Reason:    "PlatformNotice", Message: "a notice from the platform",
		})
	}
	if chance(t, 6, "hold") {
		o.Hold = &policy.Hold{Reason: "RolloutInProgress", Message: "a rollout is in progress"}
	}
	if chance(t, 6, "restore") {
		o.Restore = &policy.Restoration{Replicas: rapid.Int32Range(0, 70).Draw(t, "restore"), Foreign: o.SpecReplicas, Since: now}
	}
	if chance(t, 4, "platform min set") {
		o.PlatformMin = new(rapid.Int32Range(0, 40).Draw(t, "platform min"))
	}
	if chance(t, 4, "platform max set") {
		o.PlatformMax = new(rapid.Int32Range(0, 40).Draw(t, "platform max"))
	}
	for range rapid.IntRange(0, 8).Draw(t, "instances") {
		o.Instances = append(o.Instances, drawInstance(t, now))
	}
	for i := range spec.Metrics {
		o.Metrics = append(o.Metrics, drawReading(t, &spec.Metrics[i], len(o.Instances), now))
	}
	return o
}

func drawInstance(t *rapid.T, now time.Time) policy.Instance {
	instance := policy.Instance{
		ID:        rapid.StringMatching(`[a-z]{1,4}`).Draw(t, "id"),
		Phase:     policy.Phase(rapid.SampledFrom([]int{2, 2, 2, 2, 0, 1, 3, 4}).Draw(t, "phase")),
		Readiness: policy.Readiness(rapid.SampledFrom([]int{1, 1, 1, 0, 2, 3}).Draw(t, "readiness")),
		Deleting:  chance(t, 10, "deleting"),
		Tasks:     []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: rapid.Int64Range(0, 4000).Draw(t, "request")}}}},
	}
	if !chance(t, 10, "no start") {
		instance.StartedAt = drawBefore(t, now, "started")
	}
	instance.ReadinessChanged = drawBefore(t, now, "ready since")
	if chance(t, 20, "no request") {
		instance.Tasks[0].Requests = nil
	}
	return instance
}

func drawReading(t *rapid.T, metric *policy.MetricSpec, instances int, now time.Time) policy.Reading {
	var reading policy.Reading
	if rapid.IntRange(0, 4).Draw(t, "partial") == 0 {
		reading.Partial = "store unavailable"
	}
	if chance(t, 5, "failed") {
		reading.Error = "source down"
		return reading
	}
	value := rapid.Int64Range(0, 1_000_000)
	switch metric.Type {
	case policy.ObjectMetric:
		reading.ValueMilli = new(value.Draw(t, "value"))
	case policy.ExternalMetric:
		reading.ValuesMilli = rapid.SliceOfN(value, 0, 3).Draw(t, "values")
	default:
		for range rapid.IntRange(0, instances+1).Draw(t, "samples") {
			reading.Samples = append(reading.Samples, policy.Sample{
				Milli: rapid.Int64Range(0, 10_000).Draw(t, "sample"), OK: !chance(t, 5, "missing"),
				At: now.Add(-time.Second * time.Duration(rapid.IntRange(0, 60).Draw(t, "age"))), Window: 30 * time.Second,
			})
		}
	}
	return reading
}

// slowRates independently calculates the counts that R65 to R68 allow when scaling up and down.
func slowRates(w *world) (up, down float64) {
	current := float64(w.Observation.SpecReplicas)
	if w.Spec.Behavior == nil { // R57, R59
		return max(2*current, 4), 0
	}
	base := func(p policy.ScalingPolicy) float64 {
		n := current
		for _, e := range w.Memory.ScaleUpEvents {
			if w.Now.Sub(e.Time) < time.Duration(p.PeriodSeconds)*time.Second {
				n -= float64(e.Change)
			}
		}
		for _, e := range w.Memory.ScaleDownEvents {
			if w.Now.Sub(e.Time) < time.Duration(p.PeriodSeconds)*time.Second {
				n += float64(e.Change)
			}
		}
		return n
	}
	var ups, downs []float64
	for _, p := range w.Spec.Behavior.ScaleUp.Policies {
		if p.Type == policy.InstancesPolicy {
			ups = append(ups, base(p)+float64(p.Value))
		} else {
			ups = append(ups, math.Ceil(base(p)*(1+float64(p.Value)/100)))
		}
	}
	for _, p := range w.Spec.Behavior.ScaleDown.Policies {
		if p.Type == policy.InstancesPolicy {
			downs = append(downs, base(p)-float64(p.Value))
		} else {
			downs = append(downs, math.Trunc(base(p)*(1-float64(p.Value)/100)))
		}
	}
	return pick(w.Spec.Behavior.ScaleUp.SelectPolicy, ups, current, true), pick(w.Spec.Behavior.ScaleDown.SelectPolicy, downs, current, false)
}

func pick(selected policy.SelectPolicy, limits []float64, current float64, largest bool) float64 {
	if selected == policy.DisabledChange {
		return current
	}
	if selected == policy.MinChange {
		largest = !largest
	}
	best := limits[0]
	for _, limit := range limits {
		if largest {
			best = max(best, limit)
		} else {
			best = min(best, limit)
		}
	}
	return best
}

func checkDecision(t *rapid.T, w *world, d policy.Decision) {
	current, desired := w.Observation.SpecReplicas, d.DesiredReplicas
	if d.Case != policy.CaseUnreadable && d.Write != (desired != current && w.Observation.Hold == nil) {
		t.Fatalf("Write = %v for %d -> %d, hold %v", d.Write, current, desired, w.Observation.Hold)
	}
	if desired == current || d.Case == policy.CaseUnreadable {
		if d.Write {
			t.Fatalf("Write = true for case %s, want false", d.Case)
		}
		return
	}
	least, most := *w.Spec.MinReplicas, w.Spec.MaxReplicas
	if least <= current && current <= most && (desired < least || desired > most) {
		t.Fatalf("%d -> %d is outside %d to %d", current, desired, least, most)
	}
	if desired > max(most, current) || desired < min(least, current) {
		t.Fatalf("%d -> %d is outside %d to %d", current, desired, least, most)
	}
	for i, reading := range w.Observation.Metrics { // R47
		if desired < current && d.Case != policy.CaseAboveMax && d.Case != policy.CaseRestored && (reading.Error != "" || reading.Partial != "" || d.Metrics[i].Error != "") {
			t.Fatalf("%d -> %d although metric %d failed or its result is partial", current, desired, i)
		}
	}
	if bound := w.Observation.PlatformMax; desired > current && bound != nil && desired > *bound {
		t.Fatalf("%d -> %d exceeds the platform's maximum of %d", current, desired, *bound)
	}
	if bound := w.Observation.PlatformMin; desired < current && bound != nil && desired < *bound {
		t.Fatalf("%d -> %d is below the platform's minimum of %d", current, desired, *bound)
	}
	fromZeroToMin := current == 0 && desired <= least // R53 and R57 ignore the rates
	if d.Case == policy.CaseMetrics && !fromZeroToMin {
		up, down := slowRates(w)
		if float64(desired) > max(up, float64(current)) || float64(desired) < min(down, float64(current)) {
			t.Fatalf("%d -> %d exceeds the rates, which allow %v to %v", current, desired, down, up)
		}
	}
}

func checkMemory(t *rapid.T, w *world, next policy.Memory, read bool) {
	if read && len(next.Recommendations) == 0 || len(next.Recommendations) > max(len(w.Memory.Recommendations), 1)+1 {
		t.Fatalf("number of recommendations changed from %d to %d", len(w.Memory.Recommendations), len(next.Recommendations))
	}
	for _, r := range next.Recommendations {
		if r.Replicas < 0 || r.Time.After(w.Now) {
			t.Fatalf("invalid recommendation %+v", r)
		}
	}
	for _, events := range [][]policy.ScaleEvent{next.ScaleUpEvents, next.ScaleDownEvents} {
		for _, e := range events {
			if e.Change < 0 || e.Time.After(w.Now) {
				t.Fatalf("invalid scale event %+v", e)
			}
		}
	}
}

func checkSettlement(t *rapid.T, w *world, d policy.Decision, outcome policy.Outcome) {
	s := policy.Settle(d, outcome, w.Now)
	checkMemory(t, w, s.Memory, d.Case != policy.CaseUnreadable)
	ups, downs := len(s.Memory.ScaleUpEvents), len(s.Memory.ScaleDownEvents)
	if outcome.Kind != policy.Written {
		if !reflect.DeepEqual(s.Memory.ScaleUpEvents, w.Memory.ScaleUpEvents) || !reflect.DeepEqual(s.Memory.ScaleDownEvents, w.Memory.ScaleDownEvents) {
			t.Fatal("scale events changed although nothing was written") // R71
		}
		if !s.Status.LastScaleTime.Equal(w.Status.LastScaleTime) {
			t.Fatal("the last scale time changed although nothing was written")
		}
		return
	}
	if ups > len(w.Memory.ScaleUpEvents)+1 || downs > len(w.Memory.ScaleDownEvents)+1 {
		t.Fatalf("after one write: %d scale-up and %d scale-down events", ups, downs)
	}
	if s.Status.DesiredReplicas != outcome.Reached || !s.Status.LastScaleTime.Equal(w.Now) || !s.StatusChanged { // R74
		t.Fatalf("status after a write to %d: %+v", outcome.Reached, s.Status)
	}
}

func checkNotices(t *rapid.T, w *world, d policy.Decision) {
	silent := *w
	silent.Observation.Notices = nil
	other := silent.decide()
	if !reflect.DeepEqual(d.Memory, other.Memory) {
		t.Fatalf("notices changed the memory:\n%+v\n%+v", d.Memory, other.Memory)
	}
	same, without := d.Explained(), other.Explained()
	same.Notices = nil
	if !reflect.DeepEqual(same, without) {
		t.Fatalf("notices changed the decision:\n%+v\n%+v", same, without)
	}
	for _, kind := range []policy.ConditionType{
		policy.AbleToScale, policy.ScalingActive, policy.ScalingLimited, policy.ScaledToZero, policy.ForeignWriter,
	} {
		if a, b := findCondition(d.Status, kind), findCondition(other.Status, kind); a != b {
			t.Fatalf("notices changed the condition %s: %+v, %+v", kind, a, b)
		}
	}
}

func findCondition(status policy.Status, kind policy.ConditionType) policy.Condition {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return policy.Condition{}
}

func decisionProperty(t *rapid.T) {
	w := drawWorld(t)
	before := w.text(t)
	d := w.decide()
	if again := w.decide(); !reflect.DeepEqual(d, again) {
		t.Fatalf("the second decision differs:\n%+v\n%+v", d, again)
	}
	checkDecision(t, w, d)
	checkNotices(t, w, d)
	checkMemory(t, w, d.Memory, d.Case != policy.CaseUnreadable)
	if _, err := json.Marshal(d); err != nil {
		t.Fatalf("marshal the decision: %v", err)
	}
	w.next(d)
	checkSettlement(t, w, d, policy.Outcome{})
	if d.Write {
		copied, _ := json.Marshal(d.Status)
		reached := rapid.Int32Range(min(d.CurrentReplicas, d.DesiredReplicas), max(d.CurrentReplicas, d.DesiredReplicas)).Draw(t, "reached")
		checkSettlement(t, w, d, policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas})
		checkSettlement(t, w, d, policy.Outcome{Kind: policy.Written, Reached: reached, Error: "out of ports"})
		checkSettlement(t, w, d, policy.Outcome{Kind: policy.WriteFailed, Error: "refused"})
		checkSettlement(t, w, d, policy.Outcome{Kind: policy.WriteHeld, Hold: &policy.Hold{Reason: "Busy", Message: "busy"}})
		if after, _ := json.Marshal(d.Status); string(copied) != string(after) {
			t.Fatalf("Settle modified the decision's status:\n%s\n%s", copied, after)
		}
	}
	if after := w.text(t); before != after {
		t.Fatalf("the arguments were modified:\n%s\n%s", before, after)
	}
}

func TestDecisionProperties(t *testing.T) { rapid.Check(t, decisionProperty) }

func FuzzDecision(f *testing.F) { f.Fuzz(rapid.MakeFuzz(decisionProperty)) }

func drawWildWorld(t *rapid.T) *world {
	w := drawWorld(t)
	w.Settings.Tolerance = rapid.Float64().Draw(t, "wild tolerance")
	wild32, wild64 := rapid.Int32(), rapid.Int64()
	w.Observation.SpecReplicas, w.Observation.StatusReplicas = wild32.Draw(t, "wild current"), wild32.Draw(t, "wild status")
	if rapid.Bool().Draw(t, "wild bounds") {
		w.Spec.MaxReplicas, w.Spec.MinReplicas = wild32.Draw(t, "wild max"), new(wild32.Draw(t, "wild min"))
	}
	for i := range w.Spec.Metrics {
		target := &w.Spec.Metrics[i].Target
		target.ValueMilli = rapid.Ptr(wild64, true).Draw(t, "wild value")
		target.AverageValueMilli = rapid.Ptr(wild64, true).Draw(t, "wild average")
		target.AverageUtilization = rapid.Ptr(wild32, true).Draw(t, "wild percent")
		reading := &w.Observation.Metrics[i]
		reading.ValuesMilli = rapid.SliceOfN(wild64, 0, 3).Draw(t, "wild values")
		reading.ValueMilli = rapid.Ptr(wild64, true).Draw(t, "wild reading")
		for j := range reading.Samples {
			reading.Samples[j].Milli = wild64.Draw(t, "wild sample")
		}
	}
	for i := range w.Observation.Instances {
		for j := range w.Observation.Instances[i].Tasks[0].Requests {
			w.Observation.Instances[i].Tasks[0].Requests[j].Milli = wild64.Draw(t, "wild request")
		}
	}
	if rapid.Bool().Draw(t, "fewer readings") {
		w.Observation.Metrics = w.Observation.Metrics[:len(w.Observation.Metrics)-1]
	}
	if rapid.Bool().Draw(t, "no metrics") {
		w.Spec.Metrics = nil
	}
	return w
}

func wildProperty(t *rapid.T) {
	w := drawWildWorld(t)
	d := w.decide()
	if _, err := json.Marshal(d); err != nil {
		t.Fatalf("marshal the decision: %v", err)
	}
	if d.Recommendation != nil && *d.Recommendation < 0 {
		t.Fatalf("invalid recommendation %d", *d.Recommendation)
	}
	if _, err := json.Marshal(w.next(d)); err != nil {
		t.Fatalf("marshal the result of LookAhead: %v", err)
	}
	s := policy.Settle(d, policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}, w.Now)
	for _, events := range [][]policy.ScaleEvent{s.Memory.ScaleUpEvents, s.Memory.ScaleDownEvents} {
		for _, e := range events {
			if e.Change < 0 {
				t.Fatalf("invalid scale event %+v", e)
			}
		}
	}
}

func TestWildProperties(t *testing.T) { rapid.Check(t, wildProperty) }

func FuzzWildDecision(f *testing.F) { f.Fuzz(rapid.MakeFuzz(wildProperty)) }
