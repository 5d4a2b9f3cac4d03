package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/settings"
)

// maxKeptChanges bounds the changes in one entry of the history.
const maxKeptChanges = 10

// recordChanges adds changes of the configuration to the history of each affected
// autoscaler. It returns the last commit; nil if no autoscaler is affected.
func (f *inForce) recordChanges(changes []config.Change, author string, at time.Time) (last *commit) {
	for name, affecting := range config.Affected(changes, f.current.Load().config.Autoscalers) {
		shown := min(len(affecting), maxKeptChanges)
		reload := &settings.Reload{Author: author, Changes: affecting[:shown:shown], More: len(affecting) - shown}
		last = f.recorder.record(name, nil, state.Entry{Autoscaler: name, Time: at, Reload: reload})
	}
	return last
}

// reloadTime returns the time of a change of the configuration. It is before the first pass
// that the change causes, which would otherwise replace its entry.
func (f *inForce) reloadTime() time.Time { return f.clock.Now().Add(-time.Nanosecond) }

// authorOf returns the author of a reload.
func authorOf(ctx context.Context) string { return cmp.Or(api.Author(ctx), "an unknown user") }
