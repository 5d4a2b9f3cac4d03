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

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// autoscalerTable is [autoscalers.NAME] as it is written.
type autoscalerTable struct {
	// Target is what is scaled: a fleet, and what names a target there.
	Target map[string]any `toml:"target"`
	// Victims is the order in which instances that are equally ready are removed by a
	// scale-down, for fleets that remove instances by name; left out, "platform", which
	// lets the platform choose, or "oldest" with a drain. Protected instances are never
	// removed.
	Victims drain.Order `toml:"victims,omitempty"`
	// Drain takes the work of instances away before they are removed; left out,
	// nothing does.
	Drain map[string]any `toml:"drain"`
	scalingTable
}

// scalingTable is how a target is scaled, as it is written.
type scalingTable struct {
	// MinReplicas is the lower bound, at least 0; 0 needs scale_to_zero and an Object
	// or External metric.
	MinReplicas *int32 `toml:"min_replicas"`
	// MaxReplicas is the upper bound, at least 1 and at least MinReplicas.
	MaxReplicas int32 `toml:"max_replicas"`
	// Mode is how much it does by itself: "recommend" decides and records and never acts,
	// "up-only" and "down-only" are select_policy = "Disabled" for the other direction,
	// "off" reads the target alone; left out, "on".
	Mode policy.Mode `toml:"mode,omitempty" values:"on recommend up-only down-only off"`
	// SyncPeriod is how often it is evaluated: whole seconds, 1s to 1h; left out, the
	// daemon's.
	SyncPeriod *time.Duration `toml:"sync_period" min:"1s" max:"1h" whole:"1s" must:"whole seconds from \"1s\" to \"1h\""`
	// OnForeignChange says what happens when somebody else changes the count.
	OnForeignChange OnForeignChange `toml:"on_foreign_change" values:"accept restore"`
	// Initialization takes the place of the daemon's cpu_initialization_period for
	// this target; at least 0.
	Initialization *time.Duration `toml:"initialization" min:"0s"`
	// Guard says which readings are not believed at once; left out, that of the
	// fleet's kind: cloud groups have one, others none.
	Guard *Guard `toml:"guard"`
	// Metrics are what the count is computed from; left out, cpu at 80 % of what is
	// requested.
	Metrics []metricTable `toml:"metrics"`
	// Behavior are the rules of how fast and how late the count follows; left out,
	// those of an HPA without behavior.
	Behavior *behaviorTable `toml:"behavior"`
}

// targetTable is what every target has, whatever the kind of its fleet.
type targetTable struct {
	// Fleet is the name of a fleet.
	Fleet string `toml:"fleet"`
	// Requests are what each instance requests, by resource, where the fleet cannot
	// tell; greater than 0.
	Requests map[string]quantity.OrNumber `toml:"requests"`
}

// targetFields are the keys of every target.
var targetFields = settings.FieldsOf(reflect.TypeFor[targetTable]())

// readAutoscalers decodes and validates the autoscalers.
func (l *loader) readAutoscalers(c *Config) {
	owners, taken := newOwners(c.Fleets), map[string]targets.Ref{}
	for _, name := range slices.Sorted(maps.Keys(l.tables[autoscalersKey])) {
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

// recordOwned records that another autoscaler has the target already, maybe by a
// fleet that is the same engine.
func (t *table) recordOwned(ref targets.Ref, owner *table, owned targets.Ref) {
	engine := ""
	if owned.Fleet != ref.Fleet {
		engine = fmt.Sprintf(", by fleet %q, which is the same engine as fleet %q", owned.Fleet, ref.Fleet)
	}
	t.record("target", "", fmt.Sprintf("is the target of autoscaler %q in %s already%s; two autoscalers cannot scale the same target (%s)",
		owner.name, owner.where("target"), engine, ref))
}

// readAutoscaler decodes and validates one autoscaler, and reports whether it is
// valid. Its target is set even where something else is mistaken.
func (t *table) readAutoscaler(c *Config) (a Autoscaler, ok bool) {
	before, warned := len(t.loader.errs), len(t.loader.warnings)
	var given autoscalerTable
	t.decode("", reflect.ValueOf(&given).Elem(), t.raw)
	a = Autoscaler{Name: t.name}
	t.readTarget(c, given.Target, &a)
	t.readScaling(c, given.scalingTable, &a)
	t.readVictims(given.Victims, &a)
	t.readDrain(given.Drain, &a)
	a.Warnings = slices.Clone(t.loader.warnings[warned:])
	return a, len(t.loader.errs) == before
}

// onMode is the word of policy.ModeOn.
const onMode = "on"

// readScaling validates how an autoscaler's target is scaled.
func (t *table) readScaling(c *Config, given scalingTable, a *Autoscaler) {
	t.checkTags("", &given)
	a.SyncPeriod = c.Daemon.SyncPeriod
	if given.SyncPeriod != nil {
		a.SyncPeriod = *given.SyncPeriod
	}
	a.OnForeignChange = cmp.Or(given.OnForeignChange, AcceptForeignChange)
	if given.Mode != onMode {
		a.Mode = given.Mode
	}
	a.Initialization = given.Initialization
	a.Guard = guardOf(given.Guard, kinds.Fleets[c.Fleets[a.Target.Fleet].Kind].Guarded)
	spec := policy.Spec{MinReplicas: given.MinReplicas, MaxReplicas: given.MaxReplicas}
	for i, metric := range given.Metrics {
		spec.Metrics = append(spec.Metrics, metric.spec(i))
		metric.validate(t, element("metrics", i))
	}
	if given.Behavior != nil {
		spec.Behavior = given.Behavior.spec(t)
	}
	a.Spec = policy.Default(spec)
	t.addSpec(given, policy.Validate(a.Spec, c.Daemon.ScaleToZero))
	a.Inputs = t.readInputs(c, given.Metrics, *a)
	t.checkReach(c.Fleets[a.Target.Fleet], *a)
}

// checkReach warns of an upper bound that the target cannot come up to.
func (t *table) checkReach(fleet Fleet, a Autoscaler) {
	bounder, ok := fleet.Config.(targets.TargetBounder)
	if !ok {
		return
	}
	if most, of := bounder.MostReplicas(a.Target.Name); most > 0 && a.Spec.MaxReplicas > most {
		t.warnUnworkable("max_replicas", fmt.Sprintf("cannot be reached: must be at most %d, %s", most, of))
	}
}

// readTarget decodes and validates the target table.
func (t *table) readTarget(c *Config, raw map[string]any, a *Autoscaler) {
	if raw == nil {
		t.add("target", "", `is required: the fleet and what to scale in it, as { fleet = "local", service = "worker" }`)
		return
	}
	var shared targetTable
	t.decodeKeys("target", raw, reflect.ValueOf(&shared).Elem(), nil, func(name string) bool { return !targetFields.Has(name) })
	a.Requests = t.readRequests("target.requests", shared.Requests)
	fleet := shared.Fleet
	a.Target.Fleet = fleet
	if fleet == "" {
		t.add("target.fleet", "", "is required: the name of one of the fleets")
		return
	}
	_, kind, ok := t.loader.kindOfFleet(fleet)
	if !t.known("target.fleet", fleet, fleetsKey) || !ok { // or the fleet has a mistake itself
		return
	}
	target := kind.Target()
	if !t.readOwn("target", raw, targetFields, target) {
		return
	}
	a.target = target
	if defaulter, ok := c.Fleets[fleet].Config.(targets.TargetDefaulter); ok {
		defaulter.DefaultTarget(a.target)
	}
	a.Target = targets.Ref{Fleet: fleet, Name: a.target.Name()}
	detail, own := checkTarget(c.Fleets[fleet], a.Target.Name), slices.DeleteFunc(slices.Collect(maps.Keys(raw)), targetFields.Has)
	switch {
	case detail == "":
	case len(own) == 1:
		t.addWritten(join("target", own[0]), detail)
	default:
		t.add("target", "", detail)
	}
}

// readRequests returns the requests of each instance, by resource.
func (t *table) readRequests(at string, given map[string]quantity.OrNumber) []policy.Amount {
	var requests []policy.Amount
	for _, resource := range slices.Sorted(maps.Keys(given)) {
		key := join(at, resource)
		if given[resource].Milli() <= 0 {
			t.addWritten(key, "must be greater than 0: utilization is a part of it")
			continue
		}
		requests = append(requests, given[resource].Amount(resource))
	}
	return requests
}

// addSpec records the mistakes that policy found in a spec, under the keys that
// the file has for its fields.
func (t *table) addSpec(given scalingTable, mistakes []settings.FieldError) {
	for _, mistake := range mistakes {
		key := fileKey(given, mistake.Field)
		if key == "" {
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

// fileKey returns the key of the file for a field of a spec, and "" for a field
// that follows from others, whose mistake is recorded.
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
	if err != nil || i >= len(given.Metrics) {
		return field
	}
	return fileMetricKey(given.Metrics[i], element("metrics", i), rest)
}
