package round

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Definition is the configuration of an autoscaler with its fleet and sources. It is immutable; a
// reload makes a new one.
type Definition struct {
	*config.Autoscaler
	Settings policy.Settings
	rules    policy.WindowRules
	strict   bool
	Kind     string
	Fleet    *adapters.Fleet
	// Drainer drains instances before their removal, using drainFleet. Both may be nil.
	Drainer    drain.Drainer
	drainFleet targets.Fleet
	// metrics is Spec.Metrics with compiled formulas.
	metrics []policy.MetricSpec
	// MetricInputs contains an entry for each metric of the spec.
	MetricInputs []input
	graphed      graph.Subject
	// graphedTarget identifies the target and the kind of its fleet in the graph.
	graphedTarget uint32
	// Fingerprint identifies the configuration, even after a restart.
	Fingerprint string
	// Digest is the result of [config.Config.Digests].
	Digest string
}

// input identifies the source and the query of a metric.
type input struct {
	observe.Input
	// From is nil if the metric is a formula or uses the fleet's samples.
	From *adapters.Source
}

func define(c *config.Autoscaler, daemon config.Daemon, fleet *adapters.Fleet, sources map[string]*adapters.Source) *Definition {
	d := &Definition{
		Autoscaler: c,
		Settings:   c.Settings(daemon),
		rules:      policy.RulesFor(daemon.Settings(), c.Spec),
		metrics:    policy.Compile(c.Spec.Metrics),
		strict:     daemon.Strict(),
		Kind:       fleet.Kind,
		Fleet:      fleet,
	}
	d.MetricInputs = make([]input, len(c.Inputs))
	for i := range c.Inputs {
		d.MetricInputs[i] = input{Input: observe.NewInput(&c.Inputs[i]), From: sources[c.Inputs[i].Source]}
	}
	d.graphedTarget = hashOf(fleet.Kind, c.Target.Fleet, c.Target.Name)
	d.graphed = graph.Subject{Name: c.Name, Metrics: simulate.MetricNames(c.Spec.Metrics)}
	text, err := json.Marshal(c)
	if err == nil { // always nil, because the configuration is plain data
		sum := sha256.Sum256(text)
		d.Fingerprint = base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return d
}

// Redefine returns the definition of an autoscaler. If the configuration is unchanged, it returns
// the argument earlier, so that a change to one autoscaler does not copy all other definitions. The
// argument earlier may be nil. The argument digest is the autoscaler's digest.
func Redefine(earlier *Definition, c *config.Autoscaler, digest string, daemon config.Daemon, set adapters.Set) (*Definition, error) {
	fleet, by := set.Fleets[c.Target.Fleet], drainFleet(c, set.Fleets)
	if earlier != nil && earlier.Digest == digest && earlier.Fleet == fleet && earlier.drainFleet == by && earlier.strict == daemon.Strict() &&
		earlier.Settings == c.Settings(daemon) && earlier.rules == policy.RulesFor(daemon.Settings(), c.Spec) &&
		!slices.ContainsFunc(earlier.MetricInputs, func(in input) bool { return in.From != set.Sources[in.Source] }) &&
		reflect.DeepEqual(earlier.Autoscaler, c) {
		return earlier, nil
	}
	d := define(c, daemon, fleet, set.Sources)
	d.drainFleet, d.Digest = by, digest
	var err error
	d.Drainer, err = newDrainer(c, by, earlier)
	return d, err
}

// newDrainer returns the drainer of an autoscaler, or nil. An unchanged drainer is reused.
func newDrainer(c *config.Autoscaler, by targets.Fleet, earlier *Definition) (drain.Drainer, error) {
	if c.Drain == nil {
		return nil, nil
	}
	if earlier != nil && earlier.Drainer != nil && reflect.DeepEqual(earlier.Drain, c.Drain) && earlier.drainFleet == by {
		return earlier.Drainer, nil
	}
	return c.Drain.Config.Build(by)
}

// drainFleet returns the fleet that the drain of an autoscaler names, or nil.
func drainFleet(c *config.Autoscaler, fleets map[string]*adapters.Fleet) targets.Fleet {
	if c.Drain == nil {
		return nil
	}
	namer, ok := c.Drain.Config.(drain.FleetNamer)
	if !ok {
		return nil
	}
	name, _ := namer.DrainFleet()
	if fleets[name] == nil {
		return nil
	}
	return fleets[name].Inner
}

// At returns the definition with the bounds and the mode that its schedules set at a wall-clock
// time.
func (d *Definition) At(wall time.Time) *Definition {
	scheduled, _ := d.Autoscaler.At(wall)
	if scheduled == d.Autoscaler {
		return d
	}
	next := *d
	next.Autoscaler, next.Settings.Mode = scheduled, scheduled.Mode
	return &next
}

// measures reports whether passes can read metrics: the mode, or the mode of a schedule, is not
// off.
func (d *Definition) measures() bool {
	return d.Settings.Mode != policy.ModeOff || slices.ContainsFunc(d.Schedules, func(r schedule.Rule) bool {
		return r.Mode != "" && r.Mode != policy.ModeOff
	})
}

// SameSpec reports whether two definitions lead to the same decisions.
func (d *Definition) SameSpec(other *Definition) bool {
	return d.Fingerprint == other.Fingerprint && d.Settings == other.Settings
}

// measuresInstances reports whether a metric uses the times of instances.
func (d *Definition) measuresInstances() bool {
	return slices.ContainsFunc(d.Spec.Metrics, func(m policy.MetricSpec) bool {
		return m.Type != policy.ObjectMetric && m.Type != policy.ExternalMetric
	})
}

// needsSamples reports whether a metric uses the fleet's samples.
func (d *Definition) needsSamples() bool {
	return d.measures() && slices.ContainsFunc(d.MetricInputs, func(in input) bool { return in.From == nil && in.Query == "" })
}

// longestMemory returns the longest window or period. A loss of state affects decisions for this
// time.
func (d *Definition) longestMemory() time.Duration {
	longest := max(d.rules.Up, d.rules.Down)
	if d.Spec.Behavior == nil {
		return longest
	}
	for _, rules := range []*policy.ScalingRules{d.Spec.Behavior.ScaleUp, d.Spec.Behavior.ScaleDown} {
		if rules == nil {
			continue
		}
		for _, p := range rules.Policies {
			longest = max(longest, time.Duration(p.PeriodSeconds)*time.Second)
		}
	}
	return longest
}
