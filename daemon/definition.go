package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// definition is the configuration of an autoscaler with its fleet and sources. It is immutable; a
// reload makes a new one.
type definition struct {
	*config.Autoscaler
	settings policy.Settings
	rules    policy.WindowRules
	strict   bool
	kind     string
	fleet    *adapters.Fleet
	// drainer drains instances before their removal, through drainFleet; both may be nil.
	drainer    drain.Drainer
	drainFleet targets.Fleet
	// inputs has an entry for each metric of the spec.
	inputs  []input
	graphed graph.Subject
	// fingerprint identifies the configuration, also across restarts.
	fingerprint string
}

// input is the origin of the readings of a metric.
type input struct {
	observe.Input
	// source is nil for a metric of the fleet's samples.
	source *adapters.Source
}

func define(c *config.Autoscaler, daemon config.Daemon, fleet *adapters.Fleet, sources map[string]*adapters.Source) *definition {
	d := &definition{
		Autoscaler: c,
		settings:   settingsOf(c, daemon),
		rules:      policy.RulesFor(daemon.Settings(), c.Spec),
		strict:     daemon.Strict(),
		kind:       fleet.Kind,
		fleet:      fleet,
	}
	d.inputs = make([]input, len(c.Inputs))
	for i := range c.Inputs {
		d.inputs[i] = input{Input: observe.NewInput(&c.Inputs[i]), source: sources[c.Inputs[i].Source]}
	}
	d.graphed = graph.Subject{Name: c.Name, Metrics: graphNames(c.Spec.Metrics)}
	text, err := json.Marshal(c)
	if err == nil { // always, since it is plain data
		sum := sha256.Sum256(text)
		d.fingerprint = base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return d
}

// redefine returns the definition of an autoscaler: the earlier one if nothing changed, so that a
// change of one autoscaler does not copy all others. Earlier may be nil.
func redefine(earlier *definition, c *config.Autoscaler, daemon config.Daemon, set adapters.Set) (*definition, error) {
	fleet, by := set.Fleets[c.Target.Fleet], drainFleet(c, set.Fleets)
	if earlier != nil && earlier.fleet == fleet && earlier.drainFleet == by && earlier.strict == daemon.Strict() &&
		earlier.settings == settingsOf(c, daemon) && earlier.rules == policy.RulesFor(daemon.Settings(), c.Spec) &&
		!slices.ContainsFunc(earlier.inputs, func(in input) bool { return in.source != set.Sources[in.Source] }) &&
		reflect.DeepEqual(earlier.Autoscaler, c) {
		return earlier, nil
	}
	d := define(c, daemon, fleet, set.Sources)
	d.drainFleet = by
	var err error
	d.drainer, err = newDrainer(c, by, earlier)
	return d, err
}

// newDrainer returns the drainer of an autoscaler, or nil. An unchanged one is reused.
func newDrainer(c *config.Autoscaler, by targets.Fleet, earlier *definition) (drain.Drainer, error) {
	if c.Drain == nil {
		return nil, nil
	}
	if earlier != nil && earlier.drainer != nil && reflect.DeepEqual(earlier.Drain, c.Drain) && earlier.drainFleet == by {
		return earlier.drainer, nil
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

// settingsOf returns the settings of the daemon with those of the autoscaler.
func settingsOf(c *config.Autoscaler, daemon config.Daemon) policy.Settings {
	settings := daemon.Settings()
	settings.Mode = c.Mode
	if c.Initialization != nil && !daemon.Strict() {
		settings.CPUInitializationPeriod = *c.Initialization
	}
	return settings
}

// SameSpec reports whether two definitions make the same decisions.
func (d *definition) SameSpec(other *definition) bool {
	return d.fingerprint == other.fingerprint && d.settings == other.settings
}

// needsSamples reports whether a metric uses the fleet's samples.
func (d *definition) needsSamples() bool {
	return d.settings.Mode != policy.ModeOff && slices.ContainsFunc(d.inputs, func(in input) bool { return in.source == nil })
}

// longestMemory is the longest window or period: the time for which a loss of state has an effect.
func (d *definition) longestMemory() time.Duration {
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

// graphNames returns a unique name for each metric.
func graphNames(metrics []policy.MetricSpec) []string {
	names := make([]string, 0, len(metrics))
	for i := range metrics {
		m := &metrics[i]
		name := m.Name
		if of := cmp.Or(m.Task, m.Object); of != "" {
			name += " of " + of
		}
		for n, alone := 2, name; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s (%d)", alone, n)
		}
		names = append(names, name)
	}
	return names
}
