package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// autoscalerTable is the TOML table [autoscalers.NAME].
type autoscalerTable struct {
	// Target is the object to scale: a fleet, and the keys that identify the target in it.
	Target map[string]any `toml:"target"`
	// Victims is the order in which a scale-down removes instances with the same readiness, for
	// fleets that remove instances by name; by default, "platform", which leaves the choice to the
	// platform, or "oldest" with a drain. The other values are "newest", "unhealthy-first",
	// "least-cpu" and "empty-nomad-nodes". hpad never removes protected instances.
	Victims drain.Order `toml:"victims"`
	// Drain moves work away from instances before they are removed; by default, instances are not
	// drained.
	Drain map[string]any `toml:"drain"`
	// Schedules replace the bounds and the mode in time windows. The highest minimum, the lowest
	// maximum and the first mode of the active schedules apply. Not with compat = "strict".
	Schedules []schedule.Config `toml:"schedules" strict:"an HPA has no schedules"`
	scalingTable
}

// scalingTable holds the keys of an autoscaler that labels can also set.
type scalingTable struct {
	// MinReplicas is the lower bound, at least 0; 0 requires scale_to_zero and an Object or
	// External metric.
	MinReplicas *int32 `toml:"min_replicas"`
	// MaxReplicas is the upper bound, at least 1 and at least MinReplicas.
	MaxReplicas int32 `toml:"max_replicas"`
	// InitialReplicas is the count of a target that is at 0 because it has never been started:
	// 0 to max_replicas; a higher min_replicas applies, and 0 lets the metrics start it. By default, such a
	// target stays at 0 until a user starts it. Not with compat = "strict".
	InitialReplicas *int32 `toml:"initial_replicas" strict:"an HPA does not start a target that has 0 replicas"`
	// Mode is the scope of actions: "recommend" decides and records but never scales, "up-only" and
	// "down-only" disable the other direction (like select_policy = "Disabled"), "off" only reads
	// the target; by default, "on".
	Mode policy.Mode `toml:"mode" values:"on recommend up-only down-only off"`
	// SyncPeriod is the evaluation period: whole seconds, 1s to 1h; by default, the daemon's.
	SyncPeriod *time.Duration `toml:"sync_period" min:"1s" max:"1h" whole:"1s" must:"whole seconds from \"1s\" to \"1h\""`
	// OnForeignChange is the reaction to a change of the count by another writer: "accept" or
	// "restore".
	OnForeignChange OnForeignChange `toml:"on_foreign_change" values:"accept restore"`
	// Initialization replaces the daemon's cpu_initialization_period for this target; at least 0.
	Initialization *time.Duration `toml:"initialization" min:"0s"`
	// OutageHold is the longest time for which the metrics may not lower the count while instances
	// exist and none is ready; at least 0, 0 disables it, by default, 10m. Ignored with
	// compat = "strict".
	OutageHold *time.Duration `toml:"outage_hold" min:"0s"`
	// UnreadyAfter is the time after which an instance that is not ready is reported; by default, 1m.
	// 0 turns this off.
	UnreadyAfter *time.Duration `toml:"unready_after" min:"0s"`
	// Guard defines which readings are suspect and must be confirmed; by default, the default of
	// the fleet's kind: cloud groups have one, other kinds do not.
	Guard *Guard `toml:"guard"`
	// Metrics are the inputs for the count; by default, cpu at 80 % of the request.
	Metrics []metricTable `toml:"metrics"`
	// Combine is the method that combines the metrics: "max", or a formula over the names of all
	// metrics, such as "0.7 * queue + 0.3 * latency", whose result is scaled to its own target; by
	// default, "max". A formula is not allowed with compat = "strict".
	Combine string `toml:"combine"`
	// AverageValue is the target value per instance for a formula; greater than 0.
	AverageValue *quantity.OrNumber `toml:"average_value"`
	// Value is the target of a formula as a whole. The formula must fall when instances are added;
	// greater than 0.
	Value *quantity.OrNumber `toml:"value"`
	// Utilization is the target for a formula whose value is a percentage; at least 1.
	Utilization *int32 `toml:"utilization"`
	// Behavior contains the scaling rules of each direction; by default, the defaults of an HPA
	// without behavior.
	Behavior *behaviorTable `toml:"behavior"`
}

// targetTable holds the keys that the targets of all kinds of fleets share.
type targetTable struct {
	// Fleet is the name of a fleet.
	Fleet string `toml:"fleet"`
	// Requests are the resources that each instance requests, if the fleet does not report them;
	// greater than 0.
	Requests map[string]quantity.OrNumber `toml:"requests"`
	// Endpoints publishes the addresses of the ready instances for a proxy; by default, they are
	// only available through the API.
	Endpoints *endpoints.Config `toml:"endpoints"`
}

var targetFields = settings.FieldsOf(reflect.TypeFor[targetTable]())

// readAutoscalers decodes and validates the autoscalers.
func (l *loader) readAutoscalers(c *Config) {
	owners, taken := newOwners(c.Fleets), map[string]targets.Ref{}
	for _, name := range slices.Sorted(maps.Keys(l.tables[autoscalersKey])) {
		if l.stopped() {
			return
		}
		t := l.tables[autoscalersKey][name]
		a, ok := t.readAutoscaler(c)
		if a.Target.Name != "" {
			if owner := owners.Of(a.Target, nil); owner != "" {
				t.recordOwned(a.Target, l.tables[autoscalersKey][owner], taken[owner])
				continue
			}
			owners.Add(a.Target, name)
			taken[name] = a.Target
		}
		if ok {
			c.Autoscalers[name] = &a
		}
	}
}

// recordOwned records an error: the autoscaler in the table owner already has the target, possibly
// through another fleet on the same engine.
func (t *table) recordOwned(ref targets.Ref, owner *table, owned targets.Ref) {
	engine := ""
	if owned.Fleet != ref.Fleet {
		engine = fmt.Sprintf(" through fleet %q, which is on the same engine as fleet %q", owned.Fleet, ref.Fleet)
	}
	t.record("target", "", fmt.Sprintf("is already the target of autoscaler %q in %s%s; two autoscalers cannot scale the same target (%s)",
		owner.name, owner.where("target"), engine, ref))
}

// readAutoscaler decodes and validates one autoscaler and reports whether it is valid. It sets the
// target even if other keys are invalid.
func (t *table) readAutoscaler(c *Config) (a Autoscaler, ok bool) {
	before, warned := len(t.loader.errs), len(t.loader.warnings)
	var given autoscalerTable
	t.decode("", reflect.ValueOf(&given).Elem(), t.raw)
	t.checkStrict(&given)
	a = Autoscaler{Name: t.name, Written: WrittenOf(t.raw)}
	t.readTarget(c, given.Target, &a)
	t.readScaling(c, given.scalingTable, given.Schedules, &a)
	t.readVictims(given.Victims, &a)
	t.readDrain(given.Drain, &a)
	t.readSchedules(c, given.Schedules, &a)
	a.Warnings = slices.Clone(t.loader.warnings[warned:])
	return a, len(t.loader.errs) == before
}

const onMode = "on"

// readScaling validates the keys of scalingTable.
func (t *table) readScaling(c *Config, given scalingTable, schedules []schedule.Config, a *Autoscaler) {
	t.checkTags("", &given)
	a.SyncPeriod = c.Daemon.SyncPeriod
	if given.SyncPeriod != nil {
		a.SyncPeriod = *given.SyncPeriod
	}
	a.OnForeignChange = cmp.Or(given.OnForeignChange, AcceptForeignChange)
	if given.Mode != onMode {
		a.Mode = given.Mode
	}
	a.Initialization, a.OutageHold, a.UnreadyAfter = given.Initialization, given.OutageHold, given.UnreadyAfter
	a.Guard = guardOf(given.Guard, kinds.Fleets[c.Fleets[a.Target.Fleet].Kind].Guarded)
	spec := policy.Spec{MinReplicas: given.MinReplicas, MaxReplicas: given.MaxReplicas, InitialReplicas: given.InitialReplicas}
	for i, metric := range given.Metrics {
		spec.Metrics = append(spec.Metrics, metric.spec(i))
		metric.validate(t, element("metrics", i))
	}
	if given.Behavior != nil {
		spec.Behavior = given.Behavior.spec(t)
	}
	if formula, ok := t.readFormula(given); ok {
		spec.Metrics = append(spec.Metrics, formula)
	}
	a.Spec = policy.Default(spec)
	t.addSpec(given, policy.Validate(a.Spec, c.Daemon.ScaleToZero))
	a.Inputs = t.readInputs(c, given.Metrics, schedules, *a)
	if a.Spec.Metrics[len(a.Spec.Metrics)-1].Formula != "" {
		t.lintFormula(c, given, a.Spec)
	}
	t.checkReach(c.Fleets[a.Target.Fleet], *a)
	if a.Spec.MinReplicas != nil && *a.Spec.MinReplicas == a.Spec.MaxReplicas && len(schedules) == 0 {
		t.warn("max_replicas", "equals min_replicas, so the count never changes: increase it, or use a schedule")
	}
}

const maxCombine = "max"

// readFormula returns the metric of a formula, and false if the metrics are combined without a
// formula.
func (t *table) readFormula(given scalingTable) (policy.MetricSpec, bool) {
	value := milliOf(given.Value)
	if given.Utilization != nil {
		value = new(1000 * int64(*given.Utilization))
	}
	for key, set := range map[string]bool{"average_value": given.AverageValue != nil, "value": given.Value != nil, "utilization": given.Utilization != nil} {
		if set && (given.Combine == "" || given.Combine == maxCombine) {
			t.addWritten(key, "requires a formula in combine; set the target of a single metric in [[metrics]]")
		}
	}
	switch {
	case given.Combine == "" || given.Combine == maxCombine:
		return policy.MetricSpec{}, false
	case t.loader.strict:
		t.addWritten("combine", `must be "max" with compat = "strict": an HPA uses the highest proposal of its metrics`)
		return policy.MetricSpec{}, false
	case len(given.Metrics) == 0:
		t.addWritten("combine", "requires metrics with the names in the formula")
		return policy.MetricSpec{}, false
	case given.Value != nil && given.Utilization != nil:
		t.addWritten("utilization", "must not be given together with value")
	}
	target := policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: value, AverageValueMilli: milliOf(given.AverageValue)}
	target.Binary = isBinary(given.Value) || isBinary(given.AverageValue)
	if target.AverageValueMilli != nil {
		target.Type = policy.AverageValueTarget
	}
	return policy.MetricSpec{Type: policy.ExternalMetric, Name: "formula", Formula: given.Combine, Target: target}, true
}

// checkReach warns if max_replicas exceeds the largest count that the target supports, or leaves no
// capacity for a replacement.
func (t *table) checkReach(fleet Fleet, a Autoscaler) {
	bounder, ok := fleet.Config.(targets.TargetBounder)
	if !ok {
		return
	}
	most, of := bounder.MostReplicas(a.Target.Name)
	surger, surges := fleet.Config.(targets.Surger)
	switch {
	case most <= 0:
	case a.Spec.MaxReplicas > most:
		t.warnUnworkable("max_replicas", fmt.Sprintf("cannot be reached: must be at most %d, %s", most, of))
	case surges && a.Spec.MaxReplicas > most-surger.Surge(a.Target.Name):
		surge := surger.Surge(a.Target.Name)
		t.warn("max_replicas", fmt.Sprintf("a replacement at this count needs %d instances (max_surge = %d), and %d is %s: add ports, reduce max_replicas, or set max_unavailable",
			a.Spec.MaxReplicas+surge, surge, most, of))
	}
}

func (t *table) readTarget(c *Config, raw map[string]any, a *Autoscaler) {
	if raw == nil {
		t.add("target", "", `is required: a fleet and a target in it, such as { fleet = "local", service = "worker" }`)
		return
	}
	var shared targetTable
	t.decodeKeys("target", raw, reflect.ValueOf(&shared).Elem(), nil, func(name string) bool { return !targetFields.Has(name) })
	a.Requests = t.readRequests("target.requests", shared.Requests)
	t.readEndpoints(c, shared.Endpoints, a)
	fleet := shared.Fleet
	a.Target.Fleet = fleet
	if fleet == "" {
		t.add("target.fleet", "", "is required: the name of one of the fleets")
		return
	}
	_, kind, ok := t.loader.kindOfFleet(fleet)
	if !t.known("target.fleet", fleet, fleetsKey) || !ok { // known has already recorded the error
		return
	}
	target := kind.Target()
	if !t.readOwn("target", raw, targetFields, target) {
		return
	}
	if defaulter, ok := c.Fleets[fleet].Config.(targets.TargetDefaulter); ok {
		defaulter.DefaultTarget(target)
	}
	a.Target = targets.Ref{Fleet: fleet, Name: target.Name()}
	detail, own := checkTarget(c.Fleets[fleet], a.Target.Name), slices.DeleteFunc(slices.Collect(maps.Keys(raw)), targetFields.Has)
	switch {
	case detail == "":
	case len(own) == 1:
		t.addWritten(join("target", own[0]), detail)
	default:
		t.add("target", "", detail)
	}
}

func (t *table) readRequests(at string, given map[string]quantity.OrNumber) []policy.Amount {
	var requests []policy.Amount
	for _, resource := range slices.Sorted(maps.Keys(given)) {
		key := join(at, resource)
		if given[resource].Milli() <= 0 {
			t.addWritten(key, "must be greater than 0, because utilization is a percentage of it")
			continue
		}
		amount := given[resource]
		t.lintAmount(key, resource, &amount)
		requests = append(requests, amount.Amount(resource))
	}
	return requests
}

// addSpec records the errors of policy.Validate with the keys of the file.
func (t *table) addSpec(given scalingTable, mistakes []settings.FieldError) {
	for _, mistake := range mistakes {
		key := fileKey(given, mistake.Field)
		if parent, last := cutLast(key); key == "" || mistake.Value == "" && strings.HasPrefix(last, "average_") && t.hasMistypedTarget(parent) {
			continue
		}
		detail := mistake.Detail
		if strings.HasSuffix(key, ".stabilization_window") || strings.HasSuffix(key, ".period") {
			detail += " seconds"
		}
		value := mistake.Value
		switch {
		case !t.doc.has(under(t.path, key)):
			if value == "0" || value == "" && strings.HasPrefix(detail, "must be ") {
				detail = "is required and " + detail
			}
			value = ""
		case t.doc.textOf(under(t.path, key)) != "":
			value = t.doc.textOf(under(t.path, key))
		}
		t.add(key, value, detail)
	}
}

// fileKey returns the key in the file for a field of the spec, or "" if the error is recorded
// under a different key.
func fileKey(given scalingTable, field string) string {
	if rules, ok := strings.CutSuffix(field, ".stabilization_window_seconds"); ok {
		return rules + ".stabilization_window"
	}
	if rules, ok := strings.CutSuffix(field, ".period_seconds"); ok {
		return rules + ".period"
	}
	metric, rest, found := strings.Cut(field, "].")
	if !found || !strings.HasPrefix(metric, "metrics[") {
		return field
	}
	i, err := strconv.Atoi(strings.TrimPrefix(metric, "metrics["))
	switch {
	case err != nil:
		return field
	case i >= len(given.Metrics):
		return formulaKey(given, rest)
	}
	return fileMetricKey(given.Metrics[i], element("metrics", i), rest)
}

// formulaKey returns the key in the file for a field of the formula's metric.
func formulaKey(given scalingTable, field string) string {
	switch key := strings.TrimPrefix(field, "target."); {
	case key == "formula":
		return "combine"
	case key == "value" && given.Utilization != nil:
		return "utilization"
	default:
		return key
	}
}
