package daemon

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
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
	// definitions are those that autoscalers which stay get.
	definitions map[*autoscaler]*definition
	removed     []*autoscaler
	// adapters is what becomes of the fleets and sources.
	adapters *adapters.Change
}

// swapRequest asks the scheduler to swap in a generation; swapped is closed once that
// is done.
type swapRequest struct {
	change  *change
	swapped chan struct{}
}

// build makes the next generation. Nothing that runs is touched, and on an error
// nothing that was made is left over.
func (d *Daemon) build(c *config.Config, previous *generation) (*change, error) {
	made, err := d.adapters.Build(c, previous.Set)
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
	if err := d.buildAutoscalers(ch, previous); err != nil {
		return nil, errors.Join(err, made.Discard())
	}
	return ch, nil
}

func (d *Daemon) buildAutoscalers(ch *change, previous *generation) error {
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
		def := define(c.Autoscalers[name], c.Daemon, fleet, ch.next.Sources)
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
	d.metrics.Configured(slices.Collect(maps.Keys(ch.next.Fleets)), slices.Collect(maps.Keys(ch.next.Sources)))
	d.adapters.Swap(ch.adapters)
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
