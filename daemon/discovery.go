package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/targets"
)

// discoverLabels has the fleets discover, at once and at each tick of the
// daemon's sync period, until the daemon stops.
func (d *Daemon) discoverLabels(ctx context.Context) {
	for {
		d.discoverOnce(ctx, d.current.Load())
		for looked, due := d.clock.Now(), false; !due; {
			next := nextTick(looked, d.current.Load().config.Daemon.SyncPeriod)
			select {
			case <-time.After(next.Sub(d.clock.Now())):
				due = true
			case <-d.reloaded: // perhaps with another period
			case <-ctx.Done():
				return
			}
		}
	}
}

// discoverOnce asks every fleet that discovers, all at once, and takes in the
// answers.
func (d *Daemon) discoverOnce(ctx context.Context, g *generation) {
	timeout := readTimeout(g.config.Daemon.SyncPeriod)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, readLimit(timeout))
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[*fleetHandle]found{}
	for name, h := range g.fleets {
		if !g.config.Fleets[name].Discover || h.discoverer == nil {
			continue
		}
		asking.Go(func() {
			found, err := d.discoverFleet(ctx, h)
			if d.runContext.Err() != nil {
				return
			}
			d.reportDiscovery(h, err)
			var partial *targets.PartialDiscoveryError
			if errors.As(err, &partial) {
				found.unread, err = partial.Unread, nil
			}
			if err == nil {
				mu.Lock()
				answers[h] = found
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	if len(answers) > 0 {
		d.takeIn(answers)
	}
}

// discoverFleet asks one fleet. It does not wait for one that does not heed the
// context.
func (d *Daemon) discoverFleet(ctx context.Context, h *fleetHandle) (found, error) {
	type answer struct {
		found found
		err   error
	}
	answered := make(chan answer, 1)
	h.discoveries.run(ctx, 1, func(ctx context.Context, _ int) {
		h.uses.begin()
		defer h.uses.end()
		started := time.Now()
		var a answer
		a.err = trouble.Guard(func() (err error) {
			a.found.targets, err = h.discoverer.Discover(ctx)
			return withLimit(ctx, err)
		})
		d.metrics.FleetCall(h.name, callDiscover, time.Since(started), a.err)
		select {
		case answered <- a:
		default: // too late
		}
	}, func(_ int, err error) {
		select {
		case answered <- answer{err: err}:
		default:
		}
	})
	a := <-answered
	return a.found, a.err
}

// found is what a fleet discovered.
type found struct {
	targets []targets.Discovered
	// unread says of a name whether nothing is known about its target; nil says no.
	unread func(name string) bool
}

// takeIn takes in what fleets discovered and puts in force what it changes.
func (d *Daemon) takeIn(answers map[*fleetHandle]found) {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	d.prune()
	g := d.current.Load()
	changed := false
	for h, found := range answers {
		if g.fleets[h.name] == h && d.discovery.note(h.name, found) {
			changed = true
		}
	}
	if !changed || d.runContext.Err() != nil {
		return
	}
	if err := d.putInForce(d.discovery.file); err != nil {
		d.log.Error("put discovered autoscalers in force; those before stay", zap.NamedError("err", err))
	}
}

// reportDiscovery keeps whether a fleet can discover, and logs when that changes.
func (d *Daemon) reportDiscovery(h *fleetHandle, err error) {
	if err != nil {
		err = fmt.Errorf("discover targets by their labels: %w", err)
	}
	news, fields := h.undiscovered.Set(err)
	fields = append([]zap.Field{zap.String("fleet", h.name)}, fields...)
	switch {
	case news && err != nil:
		d.log.Warn("targets cannot be discovered; those known stay", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("targets can be discovered again", fields...)
	}
	if news {
		d.logPanic("fleet", h.name, err)
	}
}
