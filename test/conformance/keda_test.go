package conformance

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/cmd/hpad/manifest"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/test/conformance/sim"
	"github.com/hpad/hpad/test/soak"
)

// TestKEDA converts ScaledObjects as "hpad convert" does, and runs the autoscalers beside the HPAs that
// KEDA creates from the same ScaledObjects. docs/convert.md lists the intended differences.
func TestKEDA(t *testing.T) {
	if *file != "" {
		t.Skip("-file is set")
	}
	r := newRunner(t, "")
	objects := r.convert(t, "testdata/keda.yaml")
	from := cmp.Or(*seed, fixedSeed)
	t.Logf("seed %d", from)
	var ours, theirs []*sim.Scenario
	for i, o := range objects {
		for round := range soak.Rounds(kedaRounds, 500) {
			s := o.scenario(from, i+round*len(objects))
			ours, theirs = append(ours, s), append(theirs, o.adapted(s))
		}
	}
	differences, same := r.compareTo(ours, theirs)
	for i := range differences {
		t.Error(differences[i].String())
	}
	t.Logf("%d evaluations of %d ScaledObjects agree", same, len(objects))
}

// kedaRounds is the number of scenarios of each ScaledObject in "make test".
const kedaRounds = 3

// scaledObject has the fields of a ScaledObject that determine its HPA.
type scaledObject struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		MinReplicaCount, MaxReplicaCount *int32
		Advanced                         struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
			}
			ScalingModifiers struct{ Formula, Target, MetricType string }
		}
		Triggers []kedaTrigger
	}
}

type kedaTrigger struct {
	Type, MetricType string
	Metadata         map[string]string
}

// suggestion matches a query that "hpad convert" suggests.
var suggestion = regexp.MustCompile(`(?m)^# query = .*$`)

// convert reads the ScaledObjects of a file and converts them with "hpad convert". A suggested query is
// replaced with one for the first metric of the HPA.
func (r *runner) convert(t *testing.T, path string) (objects []*scaledObject) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	policies, _, err := manifest.Origin{}.Read(path, text)
	if err != nil {
		t.Fatal(err)
	}
	r.converted = map[string]string{}
	for _, draft := range origin.Convert(policies, origin.Choices{Fleet: "f0", Kind: "world", Source: "s0"}) {
		converted := suggestion.ReplaceAllString(draft.TOML(), fmt.Sprintf(`query = 'w{a=%q,m="0"}'`, draft.Name))
		// The hold is a deviation of hpad, see docs/algorithm.md.
		r.converted[draft.Name] = strings.Replace(converted, "\nmax_replicas", "\noutage_hold = \"0s\"\nmax_replicas", 1)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := new(scaledObject)
		if err := yaml.Unmarshal([]byte(document), o); err != nil {
			t.Fatal(err)
		}
		if r.converted[o.Metadata.Name] == "" {
			t.Fatalf("%s is not converted", o.Metadata.Name)
		}
		objects = append(objects, o)
	}
	return objects
}

// hpa returns the HPA that KEDA v2.20 creates from a ScaledObject, according to the files
// controllers/keda/hpa.go, apis/keda/v1alpha1/scaledobject_types.go, and prometheus_scaler.go,
// cpu_memory_scaler.go and cron_scaler.go in pkg/scalers of github.com/kedacore/keda.
func (o *scaledObject) hpa() sim.Spec {
	spec := sim.Spec{Min: new(int32(1)), Max: 100, Behavior: behaviorOf(o.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior)}
	if given := o.Spec.MinReplicaCount; given != nil && *given > 0 {
		spec.Min = given
	}
	if given := o.Spec.MaxReplicaCount; given != nil {
		spec.Max = *given
	}
	for i, trigger := range o.Spec.Triggers {
		spec.Metrics = append(spec.Metrics, trigger.metric(i))
	}
	slices.SortStableFunc(spec.Metrics, func(a, b sim.Metric) int { return strings.Compare(a.Type, b.Type) })
	if m := o.Spec.Advanced.ScalingModifiers; m.Formula != "" {
		spec.Metrics = slices.DeleteFunc(spec.Metrics, func(metric sim.Metric) bool { return metric.Type != "Resource" })
		composite := external("composite-metric", m.MetricType, m.Target)
		composite.Decimals = 0 // the inputs of a formula in hpad are rounded to 0.001
		spec.Metrics = append(spec.Metrics, composite)
	}
	for direction, of := range map[string]func(*sim.Behavior) **sim.Rules{
		"in":  func(b *sim.Behavior) **sim.Rules { return &b.Down },
		"out": func(b *sim.Behavior) **sim.Rules { return &b.Up },
	} {
		if o.Metadata.Annotations["autoscaling.keda.sh/paused-scale-"+direction] == "true" {
			spec.Behavior = cmp.Or(spec.Behavior, &sim.Behavior{})
			rules := of(spec.Behavior)
			*rules = cmp.Or(*rules, &sim.Rules{})
			(*rules).Select = "Disabled"
		}
	}
	return spec
}

// metric returns the metric for trigger i.
func (trigger kedaTrigger) metric(i int) sim.Metric {
	data := trigger.Metadata
	switch trigger.Type {
	case "cpu", "memory":
		m := sim.Metric{Type: "Resource", Name: trigger.Type, Task: data["containerName"]}
		if m.Task != "" {
			m.Type = "ContainerResource"
		}
		if cmp.Or(trigger.MetricType, data["type"]) == "Utilization" {
			percent, _ := strconv.ParseInt(data["value"], 10, 32)
			m.Goal, m.Percent = "utilization", int32(percent)
		} else {
			m.Goal, m.Amount, m.Unit = "average", data["value"], unit(data["value"])
		}
		return m
	case "cron":
		return external(fmt.Sprintf("s%d-cron", i), trigger.MetricType, "1")
	case "kafka":
		return external(fmt.Sprintf("s%d-kafka", i), trigger.MetricType, cmp.Or(data["lagThreshold"], "10"))
	}
	return external(fmt.Sprintf("s%d-%s", i, trigger.Type), trigger.MetricType, cmp.Or(data["threshold"], data["value"]))
}

func external(name, metricType, target string) sim.Metric {
	m := sim.Metric{Type: "External", Name: name, Goal: "average", Amount: target, Unit: unit(target), Decimals: 3}
	if metricType == "Value" {
		m.Goal = "value"
	}
	return m
}

func unit(text string) float64 {
	quantity := resource.MustParse(text)
	return quantity.AsApproximateFloat64()
}

func behaviorOf(given *autoscalingv2.HorizontalPodAutoscalerBehavior) *sim.Behavior {
	if given == nil {
		return nil
	}
	return &sim.Behavior{Up: rulesOf(given.ScaleUp), Down: rulesOf(given.ScaleDown)}
}

func rulesOf(given *autoscalingv2.HPAScalingRules) *sim.Rules {
	if given == nil {
		return nil
	}
	rules := &sim.Rules{Window: given.StabilizationWindowSeconds}
	if given.SelectPolicy != nil {
		rules.Select = string(*given.SelectPolicy)
	}
	if given.Tolerance != nil {
		rules.Tolerance = given.Tolerance.String()
	}
	for _, p := range given.Policies {
		rules.Policies = append(rules.Policies, sim.Policy{Type: string(p.Type), Value: p.Value, Period: p.PeriodSeconds})
	}
	return rules
}

// kedaFamilies are the families of the scenarios, see sim.Generate.
var kedaFamilies = []string{"plain", "faults", "rates", "flapping", "restarts"}

// scenario returns a generated scenario of the ScaledObject in a cluster with default settings.
func (o *scaledObject) scenario(seed uint64, i int) *sim.Scenario {
	family := kedaFamilies[i%len(kedaFamilies)]
	s := sim.Generate("", seed, i, family)
	s.Name = fmt.Sprintf("keda/%s/%s/%d-%d", o.Metadata.Name, family, seed, i)
	s.Config = defaultConfig
	s.Fleets, s.Autoscalers = 1, s.Autoscalers[:1]
	s.Prometheus, s.Strict = false, false // strict compatibility rejects formulas, and empty = "zero"
	s.Ticks = min(s.Ticks, 60)
	s.Acts = slices.DeleteFunc(s.Acts, func(act sim.Act) bool { return act.At > s.Config.Period*sim.Dur(s.Ticks-1) })
	if o.Spec.Advanced.ScalingModifiers.Formula != "" {
		s.Relax = append(s.Relax, "metrics") // hpad also reports the inputs
	}
	if len(o.Metadata.Annotations) > 0 {
		s.Relax = append(s.Relax, "conditions") // those of KEDA name select_policy, and those of hpad the mode
	}
	a := &s.Autoscalers[0]
	a.Name, a.Spec, a.Fleet.ByConfig = o.Metadata.Name, o.hpa(), false
	a.Events = slices.DeleteFunc(a.Events, func(e sim.Event) bool { return !o.comparable(&e) })
	if empty := (sim.Event{Kind: "metric", How: "empty", At: sim.Sec(130), Until: sim.Sec(200)}); o.readsZero(&empty) {
		a.Events = slices.DeleteFunc(a.Events, func(e sim.Event) bool { return e.Kind == "metric" })
		a.Events = append(a.Events, empty)
		slices.SortStableFunc(a.Events, func(a, b sim.Event) int { return cmp.Compare(a.At, b.At) })
	}
	if o.toZero() {
		a.Fleet.Snap = 0 // a load that is rounded to 0 makes hpad scale to 0
	}
	return s
}

// toZero reports whether KEDA's operator scales the target to 0.
func (o *scaledObject) toZero() bool {
	return o.Spec.MinReplicaCount == nil || *o.Spec.MinReplicaCount == 0
}

// ignoresNulls reports whether KEDA reads 0 if the query of a trigger has no valid result.
func (o *scaledObject) ignoresNulls() bool {
	return slices.ContainsFunc(o.Spec.Triggers, func(trigger kedaTrigger) bool {
		return trigger.Type != "cpu" && trigger.Type != "memory" && trigger.Metadata["ignoreNullValues"] != "false"
	})
}

// comparable reports whether both controllers react to an event in the same way.
func (o *scaledObject) comparable(e *sim.Event) bool {
	switch e.Kind {
	case "spec", "create", "delete":
		return false
	case "set":
		return e.N > 0 || !o.toZero()
	case "metric":
		metrics := o.hpa().Metrics
		if int(e.N) >= len(metrics) {
			return false
		}
		if metrics[e.N].Type != "External" || e.How == "error" {
			return true
		}
		return e.How != "negative" && !o.ignoresNulls() || o.readsZero(e)
	}
	return true
}

// readsZero reports whether KEDA reads 0 while the query of its only trigger has no result.
func (o *scaledObject) readsZero(e *sim.Event) bool {
	return e.Kind == "metric" && e.How == "empty" && o.ignoresNulls() && len(o.Spec.Triggers) == 1 &&
		o.Spec.Triggers[0].Type == "prometheus" && !o.toZero()
}

// adapted returns the scenario as the HPA observes it through KEDA's metrics adapter: where a query has
// no result, the load is 0.
func (o *scaledObject) adapted(s *sim.Scenario) *sim.Scenario {
	next := clone(s)
	a := &next.Autoscalers[0]
	i := slices.IndexFunc(a.Events, func(e sim.Event) bool { return o.readsZero(&e) })
	if i < 0 {
		return next
	}
	a.Load = withoutLoad(a.Load, a.Events[i].At, a.Events[i].Until)
	a.Events = slices.Delete(a.Events, i, i+1)
	return next
}

// withoutLoad returns the load with 0 from one instant to another.
func withoutLoad(load []sim.Point, from, until sim.Dur) (points []sim.Point) {
	last := 0.0
	for _, p := range load {
		if p.At <= until {
			last = p.Load
		}
		if p.At < from {
			points = append(points, p)
		}
	}
	points = append(points, sim.Point{At: from}, sim.Point{At: until, Load: last})
	for _, p := range load {
		if p.At > until {
			points = append(points, p)
		}
	}
	return points
}

// TestKEDADifferences compares the counts of intended differences with those in docs/convert.md.
func TestKEDADifferences(t *testing.T) {
	page, err := os.ReadFile("../../docs/convert.md")
	if err != nil {
		t.Fatal(err)
	}
	minute := sim.Sec(60)
	fails := func(how string, from, until sim.Dur) []sim.Event {
		return []sim.Event{{Kind: "metric", How: how, At: from, Until: until}}
	}
	r := newRunner(t, "")
	objects := r.convert(t, "testdata/keda-differences.yaml")
	for i, test := range []struct {
		load                  []sim.Point // as hpad reads it, and adapted as the HPA reads it from KEDA
		adapted               []sim.Point
		events, adaptedEvents []sim.Event
		at                    []sim.Dur
		theirs, ours          string
	}{
		{
			load: []sim.Point{{Load: 4}, {At: 2 * minute}, {At: 20 * minute, Load: 6}},
			at:   []sim.Dur{6 * minute, 10 * minute, 29 * minute}, theirs: "4, 1, 6", ours: "4, 0, 6",
		},
		{ // KEDA reads 0
			load: []sim.Point{{Load: 4}}, events: fails("nan", 2*minute, 20*minute),
			adapted: []sim.Point{{Load: 4}, {At: 2 * minute}, {At: 20 * minute, Load: 4}},
			at:      []sim.Dur{6 * minute, 10 * minute, 29 * minute}, theirs: "4, 1, 4", ours: "4, 4, 4",
		},
		{ // KEDA reads desiredReplicas in the window
			adapted: []sim.Point{{}, {At: 2 * minute, Load: 12}, {At: 10 * minute}},
			at:      []sim.Dur{2 * minute, 3 * minute, 12 * minute, 16 * minute}, theirs: "4, 12, 12, 1", ours: "12, 12, 1, 1",
		},
		{ // The HPA and KEDA's operator have read four failures after 30 seconds.
			load: []sim.Point{{Load: 3}}, events: fails("error", 5*minute, 20*minute),
			adapted: []sim.Point{{Load: 3}, {At: 5*minute + minute/2, Load: 6}, {At: 20 * minute, Load: 3}}, adaptedEvents: fails("error", 5*minute, 5*minute+minute/2),
			at: []sim.Dur{5*minute + minute/2, 6 * minute, 22 * minute, 26 * minute}, theirs: "6, 6, 6, 3", ours: "3, 6, 6, 3",
		},
	} {
		o := objects[i]
		s := o.steady(test.load, test.events)
		other := clone(s)
		if test.adapted != nil {
			other.Autoscalers[0].Load, other.Autoscalers[0].Events = test.adapted, test.adaptedEvents
		}
		ours := play(t, s, r.url, r.converted)
		theirs := r.playUpstream("", []*sim.Scenario{other})[0]
		if got := counts(theirs, test.at); got != test.theirs || theirs.Error != "" {
			t.Errorf("%s: KEDA's HPA requests %s, want %s %s", s.Name, got, test.theirs, theirs.Error)
		}
		if got := counts(&ours, test.at); got != test.ours || ours.Error != "" {
			t.Errorf("%s: hpad requests %s, want %s %s", s.Name, got, test.ours, ours.Error)
		}
		if row := fmt.Sprintf("| %s | %s |", test.theirs, test.ours); !strings.Contains(string(page), row) {
			t.Errorf("%s: docs/convert.md has no row with %s", s.Name, row)
		}
	}
}

// steady returns a scenario of half an hour with instances that start at once.
func (o *scaledObject) steady(load []sim.Point, events []sim.Event) *sim.Scenario {
	return &sim.Scenario{
		Name: "keda/" + o.Metadata.Name, Config: defaultConfig, Ticks: 120,
		Autoscalers: []sim.Autoscaler{{
			Name: o.Metadata.Name, Spec: o.hpa(), Replicas: 1, Load: load, Events: events,
			Fleet: sim.Fleet{Tasks: []sim.Task{{Name: "app", Requests: map[string]int64{"cpu": 1000}}}, Every: sim.Sec(15), Window: sim.Sec(15)},
		}},
	}
}

// defaultConfig contains the default settings of the controller manager.
var defaultConfig = sim.Config{Tolerance: 0.1, CPUInit: sim.Sec(300), ReadyDelay: sim.Sec(30), Downscale: sim.Sec(300), Period: sim.Sec(15), ScaleToZero: true}

// counts returns the desired counts at some times.
func counts(played *sim.Played, at []sim.Dur) string {
	var found []string
	for _, at := range at {
		count := "?"
		for i := range played.Lines {
			if l := &played.Lines[i]; l.T <= at {
				count = fmt.Sprint(l.Want)
			}
		}
		found = append(found, count)
	}
	return strings.Join(found, ", ")
}
