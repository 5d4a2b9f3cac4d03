package daemon

import (
	"context"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/targets"
)

// discoverers returns the fleets of a configuration that are to discover.
func (e *environment) discoverers(c *config.Config, fleetsInUse map[string]*adapters.Fleet) []discovery.Fleet {
	var fleets []discovery.Fleet
	for name, h := range fleetsInUse {
		if c.Fleets[name].Discover && h.Discoverer != nil {
			fleets = append(fleets, discovery.Fleet{
				Name: name, Problem: &h.Undiscovered,
				Ask: func(ctx context.Context) ([]targets.Discovered, error) {
					return e.discoverFleet(ctx, h, readTimeout(c.Daemon.SyncPeriod))
				},
			})
		}
	}
	return fleets
}

// discoverFleet asks one fleet. It does not wait for one that does not heed the
// context.
func (e *environment) discoverFleet(ctx context.Context, h *adapters.Fleet, timeout time.Duration) ([]targets.Discovered, error) {
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
		e.metrics.FleetCall(h.Name, callDiscover, time.Since(started), a.err)
		answered <- a
	}, func(_ int, err error) { answered <- answer{err: err} })
	a := <-answered
	return a.found, a.err
}
