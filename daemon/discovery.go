package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/targets"
)

// discoverLabels has the fleets discover, at once and at each tick of the
// daemon's sync period, until the daemon stops.
func (d *Daemon) discoverLabels(ctx context.Context) {
	for {
		asked := d.current.Load()
		if found := discovery.Ask(ctx, d.log, d.discoverers(asked)); len(found) > 0 {
			d.keepDiscovered(asked, found)
		}
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

// discoverers returns the fleets of a generation that are to discover.
func (d *Daemon) discoverers(g *generation) []discovery.Fleet {
	var fleets []discovery.Fleet
	for name, h := range g.Fleets {
		if g.config.Fleets[name].Discover && h.Discoverer != nil {
			fleets = append(fleets, discovery.Fleet{
				Name: name, Problem: &h.Undiscovered,
				Ask: func(ctx context.Context) ([]targets.Discovered, error) {
					return d.discoverFleet(ctx, h, readTimeout(g.config.Daemon.SyncPeriod))
				},
			})
		}
	}
	return fleets
}

// discoverFleet asks one fleet. It does not wait for one that does not heed the
// context.
func (d *Daemon) discoverFleet(ctx context.Context, h *adapters.Fleet, timeout time.Duration) ([]targets.Discovered, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, readLimit(timeout))
	defer cancel()
	type answer struct {
		found []targets.Discovered
		err   error
	}
	answered := make(chan answer, 2) // the call's own and that it is too late
	h.Discoveries.Run(ctx, 1, func(ctx context.Context, _ int) {
		h.Uses.Begin()
		defer h.Uses.End()
		started := time.Now()
		var a answer
		a.err = trouble.Guard(func() (err error) {
			a.found, err = h.Discoverer.Discover(ctx)
			return withLimit(ctx, err)
		})
		d.metrics.FleetCall(h.Name, callDiscover, time.Since(started), a.err)
		answered <- a
	}, func(_ int, err error) { answered <- answer{err: err} })
	a := <-answered
	return a.found, a.err
}

// keepDiscovered keeps what fleets of a generation discovered and puts in force what
// that changes.
func (d *Daemon) keepDiscovered(asked *generation, found map[string]discovery.Found) {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	d.prune()
	g := d.current.Load()
	changed := false
	for name, found := range found {
		if g.Fleets[name] == asked.Fleets[name] && d.labels.Keep(name, found) {
			changed = true
		}
	}
	if !changed || d.runContext.Err() != nil {
		return
	}
	if err := d.putInForce(d.labels.File()); err != nil {
		d.log.Error("put discovered autoscalers in force; those before stay", zap.NamedError("err", err))
	}
}

// putInForce makes a configuration of files, together with the autoscalers that
// targets ask for, the one in force. It builds beside what runs, so that the
// scheduler has only to swap; once the swap is asked for it is not given up. An
// error leaves everything as it was. One goroutine at a time may call it.
func (d *Daemon) putInForce(file *config.Config) error {
	merged := d.labels.Merge(file)
	ch, err := d.build(merged.Config, d.current.Load())
	if err != nil {
		return err
	}
	request := swapRequest{change: ch, swapped: make(chan struct{})}
	select {
	case d.swaps <- request:
		<-request.swapped
		d.labels.Settle(merged)
		return nil
	case <-d.runContext.Done():
		return errors.Join(errStopping, ch.adapters.Discard())
	}
}
