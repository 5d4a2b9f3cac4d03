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

// definition is the immutable part of an autoscaler: what its configuration
// says, wired to the fleet and the sources it names. A reload makes a new one.
type definition struct {
	*config.Autoscaler
	settings policy.Settings
	rules    policy.WindowRules
	strict   bool
	kind     string
	fleet    *adapters.Fleet
	// drainer takes the work of instances away; nil when nothing does. DrainsBy is
	// the fleet that it asks, nil when none.
	drainer  drain.Drainer
	drainsBy targets.Fleet
	// inputs has one entry per metric of the spec, in order.
	inputs []input
	// drawn is it as drawings have it.
	drawn graph.Subject
	// fingerprint is another one once the configuration changed, also across restarts.
	fingerprint string
}

// input is where the readings of one metric come from.
type input struct {
	observe.Input
	// source is nil where the fleet's own samples feed the metric.
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
	d.drawn = graph.Subject{Name: c.Name, Metrics: drawnNames(c.Spec.Metrics)}
	text, err := json.Marshal(c)
	if err == nil { // Config is plain data: it always marshals.
		sum := sha256.Sum256(text)
		d.fingerprint = base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return d
}

// redefine returns the definition of an autoscaler, with what drains its instances. The
// earlier one stays where it says the same, so that where one of many autoscalers changed
// the others are not made anew; nil where there is none.
func redefine(earlier *definition, c *config.Autoscaler, daemon config.Daemon, set adapters.Set) (*definition, error) {
	fleet, by := set.Fleets[c.Target.Fleet], drainsBy(c, set.Fleets)
	if earlier != nil && earlier.fleet == fleet && earlier.drainsBy == by && earlier.strict == daemon.Strict() &&
		earlier.settings == settingsOf(c, daemon) && earlier.rules == policy.RulesFor(daemon.Settings(), c.Spec) &&
		!slices.ContainsFunc(earlier.inputs, func(in input) bool { return in.source != set.Sources[in.Source] }) &&
		reflect.DeepEqual(earlier.Autoscaler, c) {
		return earlier, nil
	}
	d := define(c, daemon, fleet, set.Sources)
	d.drainsBy = by
	var err error
	d.drainer, err = newDrainer(c, by, earlier)
	return d, err
}

// newDrainer returns what takes the work of an autoscaler's instances away; nil where
// nothing does. One that an earlier definition has goes on where nothing about it
// changed.
func newDrainer(c *config.Autoscaler, by targets.Fleet, earlier *definition) (drain.Drainer, error) {
	if c.Drain == nil {
		return nil, nil
	}
	if earlier != nil && earlier.drainer != nil && reflect.DeepEqual(earlier.Drain, c.Drain) && earlier.drainsBy == by {
		return earlier.drainer, nil
	}
	return c.Drain.Config.Build(by)
}

// drainsBy returns the fleet by whose means an autoscaler's drain works; nil where it
// names none.
func drainsBy(c *config.Autoscaler, fleets map[string]*adapters.Fleet) targets.Fleet {
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

// settingsOf returns the daemon's settings with what the autoscaler has of its
// own.
func settingsOf(c *config.Autoscaler, daemon config.Daemon) policy.Settings {
	settings := daemon.Settings()
	settings.Mode = c.Mode
	if c.Initialization != nil && !daemon.Strict() {
		settings.CPUInitializationPeriod = *c.Initialization
	}
	return settings
}

// needsSamples reports whether a metric reads the fleet's own samples.
func (d *definition) needsSamples() bool {
	return d.settings.Mode != policy.ModeOff && slices.ContainsFunc(d.inputs, func(in input) bool { return in.source == nil })
}

// longestMemory is how long after a loss the autoscaler may still miss what was lost:
// its longest window or period.
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

// drawnNames returns a name for each metric, none twice.
func drawnNames(metrics []policy.MetricSpec) []string {
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
