package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// generation is everything that one configuration leads to. A reload builds the
// next one beside it, with the adapters and autoscalers that stay, and swaps.
// Apart from rosters, which the scheduler owns, it is immutable.
type generation struct {
	config      *config.Config
	fleets      map[string]*fleetHandle
	sources     map[string]*sourceHandle
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
	// definitions are those that autoscalers which stay get.
	definitions map[*autoscaler]*definition
	removed     []*autoscaler
	// adapters are the new adapters with those they replace.
	adapters []replacement
	// retired are adapters that nothing replaces.
	retired []retiree
}

// swapRequest asks the scheduler to swap in a generation; swapped is closed once that
// is done.
type swapRequest struct {
	change  *change
	swapped chan struct{}
}

// replacement is a new adapter, and the one of the same name and kind that it
// replaces, if any.
type replacement struct {
	subject string
	adapter any
	problem *trouble.Problem
	life    life
	older   *retiree
}

// retiree is an adapter that a new generation no longer uses.
type retiree struct {
	subject string
	adapter any
	uses    *uses
	life    life
}

// life is how far an adapter is in its life, so that reloads in quick succession
// do with each adapter one thing after the other.
type life struct {
	// begun is closed once it has started, or will not be any more.
	begun chan struct{}
	// over is closed when a reload replaced it.
	over chan struct{}
}

func newLife() life { return life{begun: make(chan struct{}), over: make(chan struct{})} }

// build makes the next generation. Nothing that runs is touched, and on an error
// nothing that was made is left over.
func (d *Daemon) build(c *config.Config, previous *generation) (_ *change, err error) {
	next := &generation{
		config:      c,
		fleets:      map[string]*fleetHandle{},
		sources:     map[string]*sourceHandle{},
		autoscalers: map[string]*autoscaler{},
		names:       slices.Sorted(maps.Keys(c.Autoscalers)),
		periods:     map[time.Duration][]*autoscaler{},
		rosters:     map[string]*roster{},
	}
	ch := &change{next: next, definitions: map[*autoscaler]*definition{}}
	defer func() {
		if err != nil {
			for _, made := range ch.adapters {
				err = errors.Join(err, closeAdapter(made.adapter))
			}
		}
	}()
	if err := d.buildFleets(ch, previous); err != nil {
		return nil, err
	}
	if err := d.buildSources(ch, previous); err != nil {
		return nil, err
	}
	if err := d.buildAutoscalers(ch, previous); err != nil {
		return nil, err
	}
	return ch, nil
}

func (d *Daemon) buildFleets(ch *change, previous *generation) error {
	for _, name := range slices.Sorted(maps.Keys(ch.next.config.Fleets)) {
		c := ch.next.config.Fleets[name]
		older := previous.fleets[name]
		if older != nil && older.same(c) {
			ch.next.fleets[name] = older
			continue
		}
		fleet, err := c.Config.Build(name, targets.Env{
			Store: d.store.Fleet(name), Meter: d.metrics.Platform(name), Process: &d.process, Output: d.options.Output, Now: d.clock.Now, DryRun: d.options.DryRun,
			Earlier: func(target string) (int32, bool) {
				return d.earlierCount(targets.Ref{Fleet: name, Name: target})
			},
		})
		if err != nil {
			return fmt.Errorf("fleet %q: %w", name, err)
		}
		h := newFleetHandle(c, fleet, d.wrapFleet(name, fleet), ch.next.config.Daemon.ConcurrentSyncs)
		ch.next.fleets[name] = h
		r := replacement{subject: "fleet " + name, adapter: h.fleet, problem: &h.problem, life: h.life}
		if older != nil && older.kind == c.Kind {
			r.older = older.retiree()
		}
		ch.adapters = append(ch.adapters, r)
	}
	for name, older := range previous.fleets {
		if next := ch.next.fleets[name]; next == nil || (next != older && next.kind != older.kind) {
			ch.retired = append(ch.retired, *older.retiree())
		}
	}
	return nil
}

func (d *Daemon) buildSources(ch *change, previous *generation) error {
	for _, name := range slices.Sorted(maps.Keys(ch.next.config.Sources)) {
		c := ch.next.config.Sources[name]
		older := previous.sources[name]
		if older != nil && older.same(c) {
			ch.next.sources[name] = older
			continue
		}
		source, err := c.Config.Build(name, sources.Env{
			StateDir: ch.next.config.Daemon.StateDir, Clock: d.clock, Discover: d.discover,
			Answers: d.budgets.answers, Samples: d.budgets.samples,
		})
		if err != nil {
			return fmt.Errorf("source %q: %w", name, err)
		}
		h := newSourceHandle(c, source)
		ch.next.sources[name] = h
		r := replacement{subject: "source " + name, adapter: source, problem: &h.problem, life: h.life}
		if older != nil && older.kind == c.Kind {
			r.older = older.retiree()
		}
		ch.adapters = append(ch.adapters, r)
	}
	for name, older := range previous.sources {
		if next := ch.next.sources[name]; next == nil || (next != older && next.kind != older.kind) {
			ch.retired = append(ch.retired, *older.retiree())
		}
	}
	return nil
}

func (d *Daemon) buildAutoscalers(ch *change, previous *generation) error {
	c := ch.next.config
	for _, name := range ch.next.names {
		fleet := ch.next.fleets[c.Autoscalers[name].Target.Fleet]
		if fleet == nil {
			return fmt.Errorf("autoscaler %q: there is no fleet %q", name, c.Autoscalers[name].Target.Fleet)
		}
		for _, in := range c.Autoscalers[name].Inputs {
			if in.Source != "" && ch.next.sources[in.Source] == nil {
				return fmt.Errorf("autoscaler %q: there is no source %q", name, in.Source)
			}
		}
		def := define(c.Autoscalers[name], c.Daemon, fleet, ch.next.sources)
		a := previous.autoscalers[name]
		var earlier *definition
		if a != nil {
			earlier = a.definition.Load()
		}
		var err error
		if def.drainer, err = ch.next.newDrainer(def.Autoscaler, earlier); err != nil {
			return fmt.Errorf("autoscaler %q: drain: %w", name, err)
		}
		def.drainsBy = ch.next.drainsBy(def.Autoscaler)
		if a == nil {
			a = newAutoscaler(def, d.restore(name), d.metrics.Autoscaler(name), d.clock.Now())
			if a.saved.through.IsZero() { // what was before it began is none of its business
				a.stepsTold = d.steps.Load().count
			}
			ch.added = append(ch.added, a)
		} else {
			ch.definitions[a] = def
			if old := a.definition.Load(); old.fingerprint != def.fingerprint || !reflect.DeepEqual(old.settings, def.settings) {
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

// dueAtOnce says whether an autoscaler that was not running is evaluated without
// waiting for its tick: a new or changed one is (R23), and one that missed a
// tick; one that a restart interrupted between two ticks goes on as if it had
// not been.
func (d *Daemon) dueAtOnce(a *autoscaler, now time.Time) bool {
	def := a.definition.Load()
	if a.saved.fingerprint != def.fingerprint {
		return true
	}
	last := d.restored.LastRound
	if through := a.published.Load().tick; through.After(last) {
		last = through
	}
	return !now.Before(nextTick(last, def.SyncPeriod))
}

// swap makes a generation the one in force.
func (s *scheduler) swap(ch *change) {
	d, now := s.d, s.d.clock.Now()
	for a, def := range ch.definitions {
		if earlier := a.definition.Swap(def); earlier.drainer != def.drainer {
			d.closeDrainer(earlier)
		}
	}
	for _, a := range ch.removed {
		if orphan := a.remove(d.recorder); orphan != nil {
			d.restored.Autoscalers[a.name] = *orphan
		}
		d.metrics.Forget(a.name)
		d.closeDrainer(a.definition.Load())
	}
	ch.next.configureScaleIn()
	d.current.Store(ch.next)
	d.metrics.Configured(slices.Collect(maps.Keys(ch.next.fleets)), slices.Collect(maps.Keys(ch.next.sources)))
	for _, r := range ch.adapters {
		if r.older != nil {
			close(r.older.life.over)
		}
		d.adapters.Go(func() { d.replace(r) })
	}
	for _, r := range ch.retired {
		close(r.life.over)
		d.adapters.Go(func() { d.retire(r) })
	}
	s.follow(ch.next, now)
	for _, a := range ch.changed {
		a.pardon()
	}
	d.warnOf(ch)
	fresh := ch.changed
	for _, a := range ch.added {
		delete(d.restored.Autoscalers, a.name)
		if d.dueAtOnce(a, now) {
			fresh = append(fresh, a)
		}
	}
	if len(fresh) > 0 {
		s.begin(newRoster(fresh), now, false)
	}
}

// warnOf logs what new and changed autoscalers hardly mean.
func (d *Daemon) warnOf(ch *change) {
	for _, a := range slices.Concat(ch.added, ch.changed) {
		for _, warning := range a.definition.Load().Warnings {
			d.log.Warn("a configuration is allowed and hardly meant", zap.String("autoscaler", a.name), zap.NamedError("err", warning))
		}
	}
}

// replace starts a new adapter in the place of an older one: one that can take
// over does so at once, any other waits until the older one is closed.
func (d *Daemon) replace(r replacement) {
	defer close(r.life.begun)
	if r.older != nil {
		<-r.older.life.begun
		successor, ok := r.adapter.(targets.Successor)
		if ok && successor.Succeed(r.older.adapter) {
			d.startAdapter(r)
			d.retire(*r.older)
			return
		}
		d.retire(*r.older)
	}
	d.startAdapter(r)
}

// startRetry is how long an adapter that could not be started waits before it is
// tried again.
const startRetry = 15 * time.Second

// startAdapter starts an adapter, however often it has to be tried, unless the
// daemon stops or a reload replaces the adapter.
func (d *Daemon) startAdapter(r replacement) {
	for {
		err := startNow(d.runContext, r.adapter)
		news, _ := r.problem.Set(err)
		if err == nil {
			return
		}
		if news {
			d.log.Error("start "+r.subject+"; trying again", zap.NamedError("err", err), zap.Duration("every", startRetry))
		}
		select {
		case <-time.After(startRetry):
		case <-r.life.over:
			return
		case <-d.runContext.Done():
			return
		}
	}
}

func startNow(ctx context.Context, adapter any) error {
	starter, ok := adapter.(targets.Starter)
	if !ok {
		return nil
	}
	return trouble.Guard(func() error { return starter.Start(ctx) })
}

// retireWait is how long calls into a replaced adapter may take to end.
const retireWait = time.Minute

// retire closes an adapter once nobody uses it. A daemon that stops has waited
// for the writes, and waits for nothing else.
func (d *Daemon) retire(r retiree) {
	<-r.life.begun
	ctx, cancel := context.WithTimeout(d.actContext, retireWait)
	defer cancel()
	r.uses.wait(ctx)
	if err := closeAdapter(r.adapter); err != nil {
		d.log.Error("close "+r.subject, zap.NamedError("err", err))
	}
}

func (h *fleetHandle) retiree() *retiree {
	return &retiree{subject: "fleet " + h.name, adapter: h.fleet, uses: &h.uses, life: h.life}
}

func (h *sourceHandle) retiree() *retiree {
	return &retiree{subject: "source " + h.name, adapter: h.source, uses: &h.uses, life: h.life}
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
