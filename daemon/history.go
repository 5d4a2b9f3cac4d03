package daemon

import (
	"context"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// History answers what the store has of an autoscaler's history, for the API. What
// is being written is not there yet.
func (d *Daemon) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	scale := d.clock.Scale()
	entries, err := d.store.History(ctx, name, scale.Steady(from), scale.Steady(to), limit)
	if err != nil {
		return nil, err
	}
	recorded := make([]api.Recorded, len(entries))
	for i, entry := range entries {
		recorded[i] = api.Recorded{
			Autoscaler: entry.Autoscaler, Time: scale.Wall(entry.Time), Written: entry.Written, Events: entry.Events,
			Victims: entry.Victims, Error: entry.Error, Decision: decisionShownBy(scale, entry.Decision),
		}
	}
	return recorded, nil
}
