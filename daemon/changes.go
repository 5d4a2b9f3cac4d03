package daemon

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

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

// recordRestart adds the changes since the last run to the history. The caller holds
// r.reloads.
func (r *reloader) recordRestart(at time.Time) {
	file := r.labels.File()
	before, err := os.ReadFile(r.snapshot)
	var changes []config.Change
	if err == nil {
		changes, err = file.ChangesSince(before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("changes since the last run unknown", zap.NamedError("err", err))
	}
	r.recordChanges(changes, api.AuthorRestart, at)
	if err != nil || len(changes) > 0 {
		r.keepSnapshot(file)
	}
}

// keepSnapshot stores a configuration for the next start.
func (r *reloader) keepSnapshot(file *config.Config) {
	if r.snapshot == "" {
		return
	}
	text, err := file.Snapshot()
	if err == nil {
		err = os.WriteFile(r.snapshot+".draft", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.snapshot+".draft", r.snapshot)
	}
	if err != nil {
		r.log.Warn("configuration not stored for the next start", zap.NamedError("err", err))
	}
}
