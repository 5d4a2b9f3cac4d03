package daemon

import (
	"context"

	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/targets"
)

// discoverers returns the fleets that discover targets.
func (d *Daemon) discoverers(g *round.Generation) []discovery.Fleet {
	var fleets []discovery.Fleet
	for name, h := range g.Fleets {
		if g.Config.Fleets[name].Discover && h.Discoverer != nil {
			fleets = append(fleets, discovery.Fleet{
				Name: name, Problem: &h.Undiscovered,
				Ask: func(ctx context.Context) ([]targets.Discovered, error) {
					return d.env.Discover(ctx, h, g.Config.Daemon.SyncPeriod)
				},
			})
		}
	}
	return fleets
}
