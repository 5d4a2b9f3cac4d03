package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
)

// reloader puts configurations in force: at a reload, and when fleets discover. Its
// methods wait for each other.
type reloader struct {
	*inForce
	load     func() (*config.Config, error)
	notifier *notifier
	// swaps asks the scheduler to swap.
	swaps chan<- swapRequest
	// fixed is the [daemon] table as it was at start, for what only a start puts in
	// force.
	fixed config.Daemon
	// reloaded has a value once the sync period may be another one, for discoverLabels.
	reloaded chan struct{}
	// running is closed when the first generation is in force.
	running chan struct{}
	reloads sync.Mutex
}

// begin keeps other reloads out until r.reloads is unlocked. It waits for a daemon that is only
// starting, until ctx ends, and refuses where one stops.
func (r *reloader) begin(ctx context.Context) error {
	select {
	case <-r.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.reloads.Lock()
	if r.runContext.Err() != nil {
		r.reloads.Unlock()
		return errStopping
	}
	return nil
}

// Reload reads the configuration again, builds what it asks for, and swaps it
// in. It returns what is different now, or will be from the next start. An error leaves
// everything as it was.
func (r *reloader) Reload(ctx context.Context) ([]config.Change, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.reloads.Unlock()
	r.notifier.reloading()
	defer func() { r.notifier.ready() }()
	changes, err := r.reload(authorOf(ctx))
	r.metrics.Reload(err)
	r.refused.Set(err)
	if err != nil {
		r.log.Error("reload failed; the old configuration stays in force", author(ctx), zap.NamedError("err", err))
		return nil, err
	}
	r.log.Info("reloaded", author(ctx), zap.Int("autoscalers", len(r.current.Load().names)), zap.Int("changes", len(changes)))
	return changes, nil
}

// author is who asked for what is logged, where that is known.
func author(ctx context.Context) zap.Field {
	if name := api.Author(ctx); name != "" {
		return zap.String("author", name)
	}
	return zap.Skip()
}

// reload reads the configuration and puts it in force.
func (r *reloader) reload(author string) ([]config.Change, error) {
	c, err := r.load()
	if err != nil {
		return nil, err
	}
	changes := r.changesTo(c)
	if err := r.putInForce(c, author); err != nil {
		return nil, err
	}
	select {
	case r.reloaded <- struct{}{}:
	default: // it will look anyway
	}
	for _, change := range changes {
		if change.NextStart {
			r.log.Warn("a changed key takes effect at the next start only", zap.String("key", change.Key))
		}
		if change.Note != "" {
			r.log.Warn("what was paused is not configured any more", zap.String("key", change.Key), zap.String("pause", change.Note))
		}
	}
	return changes, nil
}

// changesTo returns what a configuration has otherwise than the one in force.
func (r *reloader) changesTo(c *config.Config) []config.Change {
	inForce := *r.labels.File()
	inForce.Daemon = inForce.Daemon.InForce(&r.fixed)
	changes := inForce.Changes(c)
	for scope, pause := range r.pauses.table.Load().inForce {
		removed := func(change config.Change) bool {
			return change.Kind == config.Removed && change.Key == config.TableKey(scope.Fleet, scope.Autoscaler)
		}
		if i := slices.IndexFunc(changes, removed); i >= 0 && !scope.Breaker && !pause.Ended(r.clock.Now()) {
			changes[i].Note = "it is " + pauseText(&pause, r.clock.Scale()) + ", which holds nothing under another name"
		}
	}
	return changes
}

// ReloadChanges returns what a reload would change, with the error that would refuse it.
// It does all that a reload does but for putting it in force.
func (r *reloader) ReloadChanges(ctx context.Context) ([]config.Change, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.reloads.Unlock()
	c, err := r.load()
	if err != nil {
		return nil, err
	}
	ch, err := r.build(r.labels.Merge(c).Config, r.current.Load())
	if err != nil {
		return nil, err
	}
	for _, a := range ch.added {
		r.metrics.Forget(a.name)
	}
	return r.changesTo(c), ch.adapters.Discard()
}

// discoverLabels has the fleets discover, at once and at each tick of the
// daemon's sync period, until the daemon stops.
func (r *reloader) discoverLabels(ctx context.Context) {
	for {
		asked := r.current.Load()
		if found := discovery.Ask(ctx, r.log, r.discoverers(asked.config, asked.Fleets)); len(found) > 0 {
			r.keepDiscovered(asked, found)
		}
		for looked, due := r.clock.Now(), false; !due; {
			next := nextTick(looked, r.current.Load().config.Daemon.SyncPeriod)
			select {
			case <-time.After(next.Sub(r.clock.Now())):
				due = true
			case <-r.reloaded: // perhaps with another period
			case <-ctx.Done():
				return
			}
		}
	}
}

// keepDiscovered keeps what fleets of a generation discovered and puts in force what
// that changes.
func (r *reloader) keepDiscovered(asked *generation, found map[string]discovery.Found) {
	r.reloads.Lock()
	defer r.reloads.Unlock()
	r.prune()
	g := r.current.Load()
	changed := false
	for name, found := range found {
		if g.Fleets[name] == asked.Fleets[name] && r.labels.Keep(name, found) {
			changed = true
		}
	}
	if !changed || r.runContext.Err() != nil {
		return
	}
	if err := r.putInForce(r.labels.File(), api.AuthorLabels); err != nil {
		r.log.Error("put discovered autoscalers in force; those before stay", zap.NamedError("err", err))
	}
}

// putInForce makes a configuration of files, together with the autoscalers that
// targets ask for, the one in force. It builds beside what runs, so that the
// scheduler has only to swap; once the swap is asked for it is not given up. An
// error leaves everything as it was. One goroutine at a time may call it. The changes are
// in the history once it returns.
func (r *reloader) putInForce(file *config.Config, author string) error {
	merged := r.labels.Merge(file)
	before, at := r.current.Load(), r.reloadTime()
	ch, err := r.build(merged.Config, before)
	if err != nil {
		return err
	}
	changes := before.config.Changes(merged.Config)
	request := swapRequest{change: ch, swapped: make(chan struct{})}
	select {
	case r.swaps <- request:
		<-request.swapped
		r.labels.Settle(merged)
		if recorded := r.recordChanges(changes, author, at); recorded != nil {
			select {
			case <-recorded.done:
			case <-r.runContext.Done():
			}
		}
		return nil
	case <-r.runContext.Done():
		return errors.Join(errStopping, ch.adapters.Discard())
	}
}

// orphanKept is how long the record of an autoscaler that the configuration does
// not name is kept, in case it was left out by mistake. No window is longer.
const orphanKept = 24 * time.Hour

// prune has old orphans deleted. The younger ones stay, for a reload that names them
// again; the store replays no passes for them, as there are none.
func (r *reloader) prune() {
	for name, record := range r.restored.Autoscalers {
		switch {
		case r.clock.Now().Sub(record.Through) > orphanKept:
			r.recorder.remove(name)
			delete(r.restored.Autoscalers, name)
		case record.Replay != nil:
			record.Replay = nil
			r.restored.Autoscalers[name] = record
			r.recorder.record(name, &record)
		}
	}
}
