package round

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/guard"
)

// Scheduler starts the rounds. Only Run accesses its fields, except for the atomic pointers.
type Scheduler struct {
	env     *Env
	service *ServiceManager
	// current is the active generation.
	current atomic.Pointer[Generation]
	// lastWake is the time of the last check for due rounds.
	lastWake atomic.Pointer[time.Time]

	ready     chan *pass
	completed chan *round
	swaps     chan *Swap
	workers   guard.Tasks
	// last maps each sync period to its last tick.
	last map[time.Duration]time.Time
	// rounds have not completed; oldest first.
	rounds []*round
	// newest is the tick of the newest completed round.
	newest time.Time
}

// Swap activates a generation.
type Swap struct {
	Next *Generation
	// Apply is called by the scheduler when Next has become active. It returns the autoscalers to
	// be evaluated immediately.
	Apply func() []*Autoscaler
	// Done is closed after the swap.
	Done chan struct{}
}

// readyQueue is the maximum number of ready passes that wait for a worker.
const readyQueue = 1024

// NewScheduler returns a Scheduler without autoscalers. It initializes the unexported fields of e.
func NewScheduler(e *Env, service *ServiceManager) *Scheduler {
	e.evaluations = make(chan string)
	s := &Scheduler{
		env: e, service: service, last: map[time.Duration]time.Time{},
		ready: make(chan *pass, readyQueue), completed: make(chan *round, 16), swaps: make(chan *Swap),
	}
	s.current.Store(&Generation{Config: &config.Config{}})
	return s
}

// Current returns the active generation.
func (s *Scheduler) Current() *Generation { return s.current.Load() }

// LastWake returns the time of the last check for due rounds, or nil before the first check.
func (s *Scheduler) LastWake() *time.Time { return s.lastWake.Load() }

// Start activates the first generation and starts workers for its passes.
func (s *Scheduler) Start(first *Swap, workers int) {
	for range workers {
		s.workers.Go(func() {
			for p := range s.ready {
				guard.Run(p.evaluate)
			}
		})
	}
	s.apply(first)
}

// Run starts rounds at their ticks until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case swap := <-s.swaps:
			s.tick(s.env.Clock.Now()) // first, because a swap can start passes
			s.apply(swap)
		case name := <-s.env.evaluations:
			s.tick(s.env.Clock.Now())
			if a := s.Current().Autoscalers[name]; a != nil {
				s.begin(newAutoscalerSet([]*Autoscaler{a}), s.env.Clock.Now(), false)
			}
		case r := <-s.completed:
			s.complete(r)
		case <-timer.C:
		}
		s.env.CheckClock()
		now := s.env.Clock.Now()
		s.endPauses(now)
		s.tick(now)
		s.service.alive(time.Now())
		timer.Reset(min(s.next(now).Sub(now), maxIdle))
	}
}

// RunRound runs the round of a tick for the autoscalers with one of the sync periods. It is for
// benchmarks, which do not call Run.
func (s *Scheduler) RunRound(tick time.Time, periods ...time.Duration) {
	s.begin(s.Current().setFor(periods), tick, true)
	for len(s.rounds) > 0 {
		s.complete(<-s.completed)
	}
}

// Finish waits for the active reads, passes and writes, after the contexts of Env have ended.
func (s *Scheduler) Finish() {
	s.env.readers.Wait() // after this, no pass becomes ready
	close(s.ready)
	s.workers.Wait()
	s.env.writers.Wait()
	for _, a := range s.Current().Autoscalers {
		a.recordUnfinished(s.env.Recorder, s.newest)
	}
}

// Swap activates a generation and returns once it is active. If the daemon stops, it returns false
// and has no effect.
func (s *Scheduler) Swap(swap *Swap) bool {
	select {
	case s.swaps <- swap:
		<-swap.Done
		return true
	case <-s.env.RunContext.Done():
		return false
	}
}

func (s *Scheduler) apply(swap *Swap) {
	s.current.Store(swap.Next)
	due := swap.Apply()
	defer close(swap.Done)
	now := s.env.Clock.Now()
	for period := range swap.Next.periods {
		if _, known := s.last[period]; !known {
			s.last[period] = ticks.Last(now, period)
		}
	}
	maps.DeleteFunc(s.last, func(period time.Duration, _ time.Time) bool { return swap.Next.periods[period] == nil })
	if len(due) > 0 {
		s.begin(newAutoscalerSet(due), now, false)
	}
}

// next returns the next tick of any period.
func (s *Scheduler) next(now time.Time) time.Time {
	next := now.Add(maxIdle)
	for period := range s.Current().periods {
		if tick := ticks.Next(now, period); tick.Before(next) {
			next = tick
		}
	}
	return next
}

// tick starts the rounds that are due. Missed ticks are not repeated.
func (s *Scheduler) tick(now time.Time) {
	g := s.Current()
	var due map[time.Time][]time.Duration
	for period := range g.periods {
		tick := ticks.Last(now, period)
		if !tick.After(s.last[period]) {
			continue
		}
		if due == nil {
			due = map[time.Time][]time.Duration{}
		}
		due[tick] = append(due[tick], period)
		s.last[period] = tick
	}
	for _, tick := range slices.SortedFunc(maps.Keys(due), time.Time.Compare) {
		periods := due[tick]
		slices.Sort(periods)
		s.begin(g.setFor(periods), tick, true)
	}
	woken := time.Now()
	s.lastWake.Store(&woken)
	s.service.status(woken, statusIdle)
}

// begin starts a round. It excludes autoscalers whose last pass is still active, which are late,
// and autoscalers that are quarantined.
func (s *Scheduler) begin(set *autoscalerSet, now time.Time, tick bool) {
	r := newRound(s.env, set, now, s.ready, s.completed)
	r.tick = tick
	r.prepareBreakers(s.Current())
	quarantines := make([]bool, len(r.passes))
	for i := range r.passes { // separate, because the CPU overlaps its cache misses only without locks
		quarantines[i] = r.passes[i].autoscaler.published.Load().Quarantined(now)
	}
	count := int64(0)
	for i, quarantined := range quarantines {
		p := &r.passes[i]
		a := p.autoscaler
		if !quarantined && a.begin(now, !tick) {
			count++
			continue
		}
		p.skip()
		p.countRemovals(nil)
		if !tick {
			continue
		}
		why := reason.Quarantined
		if !quarantined {
			why = reason.Late
			a.Late.Add(1)
			s.env.Metrics.Late(a.Name)
		}
		s.env.Metrics.Reason(why)
		a.missed(s.env.Recorder, why)
	}
	r.unfinished.Store(count)
	s.rounds = append(s.rounds, r)
	if count == 0 {
		s.complete(r)
		return
	}
	r.start()
}

// complete records a completed round. Passes of earlier rounds that are still active are not part
// of it, so the store must not replay passes for their autoscalers.
func (s *Scheduler) complete(r *round) {
	s.service.status(time.Now(), statusInterval)
	s.rounds = slices.DeleteFunc(s.rounds, func(other *round) bool { return other == r })
	if !r.tick || s.env.RunContext.Err() != nil || r.now.Before(s.newest) {
		return
	}
	s.newest = r.now
	for _, other := range s.rounds {
		if other.missed || !other.now.Before(r.now) {
			continue
		}
		other.missed = true
		for i := range other.passes {
			other.passes[i].autoscaler.missedAt(s.env.Recorder, other.now)
		}
	}
	s.env.Recorder.Completed(r.now)
}

// endPauses ends expired pauses, and the pauses of breakers that are no longer configured.
func (s *Scheduler) endPauses(now time.Time) {
	fleets := s.Current().Config.Fleets
	hasBreaker := func(fleet string) bool { return fleets[fleet].Breaker != nil }
	for _, pause := range s.env.Pauses.EndDue(now, s.env.Recorder, hasBreaker) {
		s.env.Log.Info("pause ended", records.PauseFields(pause.Scope, pause.Author)...)
	}
}
