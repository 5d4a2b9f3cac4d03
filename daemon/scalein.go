package daemon

import (
	"context"
	"reflect"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// configureScaleIn tells the fleets of a generation how the instances of their
// targets are taken.
func (g *generation) configureScaleIn() {
	options := map[*adapters.Fleet]map[targets.Ref]drain.Options{}
	for _, a := range g.autoscalers {
		def := a.definition.Load()
		if def.fleet.ScaleIn == nil {
			continue
		}
		if options[def.fleet] == nil {
			options[def.fleet] = map[targets.Ref]drain.Options{}
		}
		options[def.fleet][def.Target] = a.scaleInOptions(def)
	}
	for _, h := range g.Fleets {
		if h.ScaleIn != nil {
			h.ScaleIn.Configure(options[h])
		}
	}
}

// scaleInOptions answers how the instances of the autoscaler's target are taken.
func (a *autoscaler) scaleInOptions(def *definition) drain.Options {
	options := drain.Options{Victims: def.Victims, Drainer: def.drainer}
	if def.Drain != nil {
		options.Deadline, options.Expiry, options.Interval = def.Drain.Deadline, def.Drain.OnDeadline, def.Drain.Interval
	}
	if def.cpuMetric() >= 0 {
		options.CPU = func(context.Context, targets.Ref) (map[string]int64, error) {
			if use := a.cpuUse.Load(); use != nil {
				return *use, nil
			}
			return nil, nil // nothing was measured yet
		}
	}
	return options
}

// newDrainer answers what takes the work of an autoscaler's instances away; nil
// where nothing does. One that an earlier definition has goes on where nothing
// about it changed.
func (g *generation) newDrainer(c config.Autoscaler, earlier *definition) (drain.Drainer, error) {
	if c.Drain == nil {
		return nil, nil
	}
	if earlier != nil && earlier.drainer != nil && reflect.DeepEqual(earlier.Drain, c.Drain) && earlier.drainsBy == g.drainsBy(c) {
		return earlier.drainer, nil
	}
	return c.Drain.Config.Build(g.drainsBy(c))
}

// closeDrainer lets go of what a drainer that nobody uses any more holds: idle
// connections. Drains under way may still call it.
func (d *Daemon) closeDrainer(def *definition) {
	if def.drainer == nil {
		return
	}
	if err := adapters.Close(def.drainer); err != nil {
		d.log.Error("close the drain of autoscaler "+def.Name, zap.NamedError("err", err))
	}
}

// drainsBy returns the fleet by whose means an autoscaler's drain works; nil where it
// names none.
func (g *generation) drainsBy(c config.Autoscaler) targets.Fleet {
	if c.Drain == nil {
		return nil
	}
	namer, ok := c.Drain.Config.(drain.FleetNamer)
	if !ok {
		return nil
	}
	name, _ := namer.DrainFleet()
	if g.Fleets[name] == nil {
		return nil
	}
	return g.Fleets[name].Inner
}
