package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets"
)

// change is the transition to a new generation.
type change struct {
	next *round.Generation
	// added lists the new autoscalers. changed lists the autoscalers with a changed configuration,
	// which are evaluated immediately (R23).
	added, changed []*round.Autoscaler
	// definitions maps the remaining autoscalers to their new definitions.
	definitions map[*round.Autoscaler]*round.Definition
	removed     []*round.Autoscaler
	adapters    *adapters.Change
	receivers   notify.Set
}

// build builds the next generation without affecting the active generation. After an error, it
// closes all new adapters.
func (d *Daemon) build(c *config.Config) (*change, error) {
	previous := d.scheduler.Current()
	made, err := d.adapters.Build(c, previous.Set)
	if err != nil {
		return nil, err
	}
	ch := &change{adapters: made, definitions: map[*round.Autoscaler]*round.Definition{}, next: round.NewGeneration(c, made.Set)}
	if ch.receivers, err = d.env.Receivers.Make(c.Notifications, d.env.Log); err == nil {
		err = d.buildAutoscalers(ch, previous)
	}
	if err != nil {
		return nil, errors.Join(err, made.Discard())
	}
	return ch, nil
}

// maybeManual is the time after a loss of state in which the count 0 of a new autoscaler's target
// may have been set by an operator.
const maybeManual = time.Hour

func (d *Daemon) buildAutoscalers(ch *change, previous *round.Generation) error {
	c := ch.next.Config
	digest := c.Digests()
	lost := records.LostParts(records.RecentLosses(d.options.Store.Losses(), maybeManual, d.env.Clock))[string(state.MemoryPart)]
	for _, name := range ch.next.Names {
		if fleet := c.Autoscalers[name].Target.Fleet; ch.next.Fleets[fleet] == nil {
			return fmt.Errorf("autoscaler %q: there is no fleet %q", name, fleet)
		}
		for _, in := range c.Autoscalers[name].Inputs {
			if in.Source != "" && ch.next.Sources[in.Source] == nil {
				return fmt.Errorf("autoscaler %q: there is no source %q", name, in.Source)
			}
		}
		a := previous.Autoscalers[name]
		var earlier *round.Definition
		if a != nil {
			earlier = a.Definition()
		}
		def, err := round.Redefine(earlier, c.Autoscalers[name], digest(c.Autoscalers[name]), c.Daemon, ch.next.Set)
		if err != nil {
			return fmt.Errorf("autoscaler %q: drain: %w", name, err)
		}
		switch {
		case a == nil:
			var stored *state.Record
			if record, ok := d.restored.Autoscalers[name]; ok {
				stored = &record
			}
			a = d.env.NewAutoscaler(def, stored, lost)
			ch.added = append(ch.added, a)
		case def != earlier:
			ch.definitions[a] = def
			if !def.SameSpec(earlier) {
				ch.changed = append(ch.changed, a)
			}
		}
		ch.next.Add(a, def)
	}
	for name, a := range previous.Autoscalers {
		if ch.next.Autoscalers[name] == nil {
			ch.removed = append(ch.removed, a)
		}
	}
	return nil
}

// swap returns a swap that activates ch when the scheduler performs it.
func (d *Daemon) swap(ch *change) *round.Swap {
	return &round.Swap{Next: ch.next, Apply: func() []*round.Autoscaler { return d.apply(ch) }, Done: make(chan struct{})}
}

func (d *Daemon) apply(ch *change) (due []*round.Autoscaler) {
	for a, def := range ch.definitions {
		if earlier := a.Redefine(def); earlier.Drainer != def.Drainer {
			d.closeDrainer(earlier)
		}
	}
	for _, a := range ch.removed {
		if orphan := a.Remove(d.env.Recorder); orphan != nil {
			d.restored.Autoscalers[a.Name] = *orphan
		}
		d.env.Metrics.Forget(a.Name)
		d.closeDrainer(a.Definition())
	}
	ch.next.ConfigureScaleIn()
	d.env.Metrics.Configured(slices.Collect(maps.Keys(ch.next.Fleets)), slices.Collect(maps.Keys(ch.next.Sources)))
	d.env.Metrics.ShowSeries(ch.next.Config.Daemon.AutoscalerSeries)
	d.adapters.Swap(ch.adapters)
	d.env.Receivers.Swap(ch.receivers)
	d.applyEndpoints(ch.next)
	for _, a := range ch.changed {
		a.EndQuarantine()
	}
	d.logWarnings(ch)
	due = ch.changed
	now := d.env.Clock.Now()
	for _, a := range ch.added {
		delete(d.restored.Autoscalers, a.Name)
		if a.DueAtOnce(d.restored.LastRound, now) {
			due = append(due, a)
		}
	}
	return due
}

// closeDrainer closes the idle connections of a drainer that new passes no longer use. Active
// drains can still call it.
func (d *Daemon) closeDrainer(def *round.Definition) {
	if def.Drainer == nil {
		return
	}
	if err := adapters.Close(def.Drainer); err != nil {
		d.env.Log.Error("cannot close drainer", zap.String("autoscaler", def.Name), zap.NamedError("err", err))
	}
}

// logWarnings logs the warnings of the configuration of new and changed autoscalers.
func (d *Daemon) logWarnings(ch *change) {
	for _, a := range slices.Concat(ch.added, ch.changed) {
		for _, warning := range a.Definition().Warnings {
			message := "suspicious configuration"
			if warning.Unworkable {
				message = "unworkable configuration"
			}
			d.env.Log.Warn(message, zap.String("autoscaler", a.Name), zap.NamedError("err", warning))
		}
	}
}

// readTarget returns the instances of a target, for a source that scrapes them.
func (d *Daemon) readTarget(ctx context.Context, fleet, target string) (targets.Reading, error) {
	g := d.scheduler.Current()
	h := g.Fleets[fleet]
	if h == nil {
		return targets.Reading{}, fmt.Errorf("there is no fleet %q", fleet)
	}
	h.Uses.Begin()
	defer h.Uses.End()
	return h.Read(ctx, targets.Ref{Fleet: fleet, Name: target}, g.Config.Daemon.SyncPeriod)
}
