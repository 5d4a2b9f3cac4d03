package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// generation is everything that one configuration leads to. A reload builds the
// next one beside it, with the adapters and autoscalers that stay, and swaps.
// Apart from rosters, which the scheduler owns, it is immutable.
type generation struct {
	adapters.Set
	config      *config.Config
	autoscalers map[string]*autoscaler
	// names are the autoscalers' names in order.
	names []string
	// periods holds the autoscalers of each sync period, by name.
	periods map[time.Duration][]*autoscaler
	rosters map[string]*roster
	// longestMemory is the longest window or period of any autoscaler.
	longestMemory time.Duration
}

// change is what swapping in a generation does.
type change struct {
	next *generation
	// added are autoscalers that were not running, changed those whose
	// configuration changed: to be evaluated at once (R23).
	added, changed []*autoscaler
	// definitions are those that autoscalers which stay get, where it is another one.
	definitions map[*autoscaler]*definition
	removed     []*autoscaler
	// adapters is what becomes of the fleets and sources.
	adapters *adapters.Change
	// receivers are those of notifications.
	receivers notify.Set
}

// swapRequest asks the scheduler to swap in a generation; swapped is closed once that
// is done.
type swapRequest struct {
	change  *change
	swapped chan struct{}
}

// inForce is what is in force, and what is known besides.
type inForce struct {
	environment
	store state.Store
	// adapters keeps the fleets and sources.
	adapters *adapters.Keeper
	current  atomic.Pointer[generation]
	// restored is what was loaded at start, or left by autoscalers whose target is gone,
	// and has not been running since, and labels what targets ask for by them. Once the
	// daemon runs, both are the reloader's, which waits for swaps; but for what labels
	// shows.
	restored state.Snapshot
	labels   *discovery.Labels
	// refused is why the last reload was.
	refused trouble.Problem
}

// build makes the next generation. Nothing that runs is touched, and on an error
// nothing that was made is left over.
func (f *inForce) build(c *config.Config, previous *generation) (*change, error) {
	made, err := f.adapters.Build(c, previous.Set)
	if err != nil {
		return nil, err
	}
	ch := &change{adapters: made, definitions: map[*autoscaler]*definition{}, next: &generation{
		Set:         made.Set,
		config:      c,
		autoscalers: map[string]*autoscaler{},
		names:       slices.Sorted(maps.Keys(c.Autoscalers)),
		periods:     map[time.Duration][]*autoscaler{},
		rosters:     map[string]*roster{},
	}}
	if ch.receivers, err = f.receivers.Make(c.Notifications, f.log); err == nil {
		err = f.buildAutoscalers(ch, previous)
	}
	if err != nil {
		return nil, errors.Join(err, made.Discard())
	}
	return ch, nil
}

func (f *inForce) buildAutoscalers(ch *change, previous *generation) error {
	c := ch.next.config
	for _, name := range ch.next.names {
		fleet := ch.next.Fleets[c.Autoscalers[name].Target.Fleet]
		if fleet == nil {
			return fmt.Errorf("autoscaler %q: there is no fleet %q", name, c.Autoscalers[name].Target.Fleet)
		}
		for _, in := range c.Autoscalers[name].Inputs {
			if in.Source != "" && ch.next.Sources[in.Source] == nil {
				return fmt.Errorf("autoscaler %q: there is no source %q", name, in.Source)
			}
		}
		a := previous.autoscalers[name]
		var earlier *definition
		if a != nil {
			earlier = a.definition.Load()
		}
		def, err := redefine(earlier, c.Autoscalers[name], c.Daemon, ch.next.Set)
		if err != nil {
			return fmt.Errorf("autoscaler %q: drain: %w", name, err)
		}
		switch {
		case a == nil:
			a = newAutoscaler(def, f.restore(name), f.metrics.Autoscaler(name), f.clock.Now())
			if a.published.Load().record.Through.IsZero() { // what was before it began is none of its business
				a.stepsTold = f.steps.Load().count
			}
			ch.added = append(ch.added, a)
		case def != earlier:
			ch.definitions[a] = def
			if earlier.fingerprint != def.fingerprint || earlier.settings != def.settings {
				ch.changed = append(ch.changed, a)
			}
		}
		ch.next.autoscalers[name] = a
		ch.next.longestMemory = max(ch.next.longestMemory, def.longestMemory())
		ch.next.periods[def.SyncPeriod] = append(ch.next.periods[def.SyncPeriod], a)
	}
	for name, a := range previous.autoscalers {
		if ch.next.autoscalers[name] == nil {
			ch.removed = append(ch.removed, a)
		}
	}
	return nil
}

// dueAtOnce reports whether an autoscaler that was not running is evaluated without
// waiting for its tick: a new or changed one is (R23), and one that missed a
// tick; one that a restart interrupted between two ticks goes on as if it had
// not been. An open intention was committed with the Through of a pass that never ended.
func (f *inForce) dueAtOnce(a *autoscaler, now time.Time) bool {
	def := a.definition.Load()
	record := &a.published.Load().record
	if record.Fingerprint != def.fingerprint || record.Intention != nil {
		return true
	}
	last := f.restored.LastRound
	if through := record.Through; through.After(last) {
		last = through
	}
	return !now.Before(nextTick(last, def.SyncPeriod))
}

// swap makes a generation the one in force, and returns the autoscalers that are to be
// evaluated at once.
func (f *inForce) swap(ch *change) (fresh []*autoscaler) {
	for a, def := range ch.definitions {
		if earlier := a.definition.Swap(def); earlier.drainer != def.drainer {
			f.closeDrainer(earlier)
		}
	}
	for _, a := range ch.removed {
		if orphan := a.remove(f.recorder); orphan != nil {
			f.restored.Autoscalers[a.name] = *orphan
		}
		f.metrics.Forget(a.name)
		f.closeDrainer(a.definition.Load())
	}
	ch.next.configureScaleIn()
	f.current.Store(ch.next)
	f.metrics.Configured(slices.Collect(maps.Keys(ch.next.Fleets)), slices.Collect(maps.Keys(ch.next.Sources)))
	f.metrics.ShowSeries(ch.next.config.Daemon.AutoscalerSeries)
	f.adapters.Swap(ch.adapters)
	f.receivers.Swap(ch.receivers)
	for _, a := range ch.changed {
		a.pardon()
	}
	f.warnOf(ch)
	fresh = ch.changed
	for _, a := range ch.added {
		delete(f.restored.Autoscalers, a.name)
		if f.dueAtOnce(a, f.clock.Now()) {
			fresh = append(fresh, a)
		}
	}
	return fresh
}

// configureScaleIn configures in the fleets of a generation how the instances of their
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
		options[def.fleet][def.Target] = def.scaleInOptions(&a.cpuUse)
	}
	for _, h := range g.Fleets {
		if h.ScaleIn != nil {
			h.ScaleIn.Configure(options[h])
		}
	}
}

// closeDrainer lets go of what a drainer that nobody uses any more holds: idle
// connections. Drains under way may still call it.
func (f *inForce) closeDrainer(def *definition) {
	if def.drainer == nil {
		return
	}
	if err := adapters.Close(def.drainer); err != nil {
		f.log.Error("close the drain of autoscaler "+def.Name, zap.NamedError("err", err))
	}
}

// warnOf logs what new and changed autoscalers hardly mean, and what they can never do.
func (f *inForce) warnOf(ch *change) {
	for _, a := range slices.Concat(ch.added, ch.changed) {
		for _, warning := range a.definition.Load().Warnings {
			message := "a configuration is allowed and hardly meant"
			if warning.Unworkable {
				message = "an autoscaler cannot work as it is configured"
			}
			f.log.Warn(message, zap.String("autoscaler", a.name), zap.NamedError("err", warning))
		}
	}
}

// keptRosters bounds the rosters of a generation, which are as large as the number of
// their autoscalers.
const keptRosters = 16

// rosterFor returns everything that has one of the periods.
func (g *generation) rosterFor(periods []time.Duration) *roster {
	var key strings.Builder
	var all []*autoscaler
	for _, period := range periods {
		key.WriteString(period.String() + " ")
	}
	if r, ok := g.rosters[key.String()]; ok {
		return r
	}
	for _, period := range periods {
		all = append(all, g.periods[period]...)
	}
	r := newRoster(all)
	if len(g.rosters) >= keptRosters { // many periods, and so many sets that are due together
		clear(g.rosters)
	}
	g.rosters[key.String()] = r
	return r
}

// restore returns what the store knew of an autoscaler when the daemon started;
// nil when nothing, or when the autoscaler has been running since.
func (f *inForce) restore(name string) *state.Record {
	record, ok := f.restored.Autoscalers[name]
	if !ok {
		return nil
	}
	return &record
}

// losses returns what of the state was lost so lately that it still bears on decisions
// of a generation.
func (f *inForce) losses(g *generation) []recentLoss {
	return recentLosses(f.store.Losses(), g.longestMemory, f.clock)
}

// reportLosses logs at each start what is still shown.
func (f *inForce) reportLosses() {
	for _, loss := range f.losses(f.current.Load()) {
		f.log.Warn("state lost lately", zap.String("part", string(loss.Part)), zap.Time("at", loss.At),
			zap.Time("told_until", loss.until), zap.String("err", loss.Message))
	}
}

// readTarget returns the instances of a target, for a source that scrapes them.
func (f *inForce) readTarget(ctx context.Context, fleet, target string) (targets.Reading, error) {
	g := f.current.Load()
	h := g.Fleets[fleet]
	if h == nil {
		return targets.Reading{}, fmt.Errorf("there is no fleet %q", fleet)
	}
	h.Uses.Begin()
	defer h.Uses.End()
	return h.Read(ctx, targets.Ref{Fleet: fleet, Name: target}, g.config.Daemon.SyncPeriod)
}

// has reports whether there is what an act is about.
func (g *generation) has(scope policy.Scope) bool {
	return (scope.Autoscaler == "" || g.autoscalers[scope.Autoscaler] != nil) && (scope.Fleet == "" || g.Fleets[scope.Fleet] != nil)
}

// status is what readers see of a daemon.
type status struct{ *inForce }
