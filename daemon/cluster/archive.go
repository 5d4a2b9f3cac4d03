package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
)

// archived returns the history that this member recorded of fleets that it does not run now.
// The parameters are those of [state.Store.History].
func (c *Cluster) archived(ctx context.Context, name string, from, to time.Time, limit int) ([]state.Entry, error) {
	c.archiving.Lock()
	defer c.archiving.Unlock()
	var all []state.Entry
	for _, fleet := range c.Fleets() {
		if c.runOf(fleet) != nil || name != "" && c.FleetOf(name) != fleet {
			continue
		}
		archive, err := c.archive(fleet)
		if err != nil {
			return nil, err
		}
		if archive == nil {
			continue
		}
		entries, err := archive.History(ctx, name, from, to, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// archive returns the stored history of a fleet that does not run here; nil if this member
// never ran it. The caller locks archiving.
func (c *Cluster) archive(fleet string) (state.Store, error) {
	archive := c.archives[fleet]
	if _, err := os.Stat(c.dir(fleet)); archive == nil && err == nil {
		if archive, err = state.Open(c.dir(fleet), state.Options{}); err != nil {
			return nil, fmt.Errorf("open the history of fleet %q: %w", fleet, err)
		}
		c.archives[fleet] = archive
	}
	return archive, nil
}

// histories returns the stores with everything that this member recorded. The caller locks
// archiving.
func (c *Cluster) histories() ([]state.Store, error) {
	all := []state.Store{c.options.Daemon.Store}
	for _, fleet := range c.Fleets() {
		var store state.Store
		if r := c.runOf(fleet); r != nil {
			r.mu.Lock()
			store = r.store
			r.mu.Unlock()
		} else {
			archive, err := c.archive(fleet)
			if err != nil {
				return nil, err
			}
			store = archive
		}
		if store != nil {
			all = append(all, store)
		}
	}
	return all, nil
}

// closeArchive closes the history of a fleet, before a daemon opens it.
func (c *Cluster) closeArchive(fleet string) {
	c.archiving.Lock()
	defer c.archiving.Unlock()
	if archive := c.archives[fleet]; archive != nil {
		delete(c.archives, fleet)
		if err := archive.Close(); err != nil {
			c.log.Warn("close the history of a fleet", zap.String("fleet", fleet), zap.NamedError("err", err))
		}
	}
}
