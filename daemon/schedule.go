package daemon

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// round is all passes that share one tick, or that are evaluated out of turn together.
type round struct {
	reads *reads
	// now is the one instant of all passes, in steady time.
	now time.Time
	// tick says that now is a tick of the schedule; a round out of turn is none.
	tick   bool
	passes []pass
	// flagged says that the store was told of the passes that are still under way
	// although later rounds have completed; the scheduler owns it.
	flagged bool
	// unfinished counts the passes that have not ended.
	unfinished atomic.Int64
}

// newRound makes a round of a roster. Ready takes passes that have what they read, and
// completed the round once all have ended.
func newRound(e *environment, roster *roster, now time.Time, tick bool, ready chan<- []*pass, completed chan<- *round) *round {
	r := &round{now: now, tick: tick, passes: make([]pass, len(roster.autoscalers))}
	r.reads = newReads(e, roster.plan, now, func(waiting []int) {
		passes := make([]*pass, len(waiting))
		for i, index := range waiting {
			passes[i] = &r.passes[index]
		}
		ready <- passes
	})
	ended := func() {
		if r.unfinished.Add(-1) != 0 {
			return
		}
		r.reads.finish()
		select {
		case completed <- r:
		case <-e.runContext.Done():
		}
	}
	started := time.Now()
	for i := range r.passes {
		r.passes[i] = pass{reads: r.reads, index: i, ended: ended, autoscaler: roster.autoscalers[i], definition: roster.definitions[i], started: started}
	}
	return r
}

// scheduler begins the rounds. One goroutine runs it and owns its fields.
type scheduler struct {
	d *Daemon
	// last is the last tick of each period.
	last map[time.Duration]time.Time
	// rounds are those that have not completed, oldest first.
	rounds []*round
	// newest is the newest completed round.
	newest time.Time
}

// maxIdle bounds a wait for the next tick, so that a step of the wall clock is
// noticed.
const maxIdle = time.Second

// run begins rounds at their ticks until ctx ends. Whatever wakes it, it looks
// for ticks that have come, so that none waits for what comes at the same time.
func (s *scheduler) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-s.d.swaps:
			s.tick(s.d.clock.Now()) // the tick first: a swap may begin passes of its own
			s.swap(request.change)
			close(request.swapped)
		case name := <-s.d.evaluations:
			s.tick(s.d.clock.Now())
			if a := s.d.current.Load().autoscalers[name]; a != nil {
				s.begin(newRoster([]*autoscaler{a}), s.d.clock.Now(), false)
			}
		case r := <-s.d.completed:
			s.completed(r)
		case <-timer.C:
		}
		s.d.lookAtClock()
		now := s.d.clock.Now()
		s.tick(now)
		s.d.notifier.alive(time.Now())
		timer.Reset(min(s.next(now).Sub(now), maxIdle))
	}
}

// follow notes the periods of a new generation: their ticks after now are due.
func (s *scheduler) follow(g *generation, now time.Time) {
	for period := range g.periods {
		if _, known := s.last[period]; !known {
			s.last[period] = lastTick(now, period)
		}
	}
	for period := range s.last {
		if _, used := g.periods[period]; !used {
			delete(s.last, period)
		}
	}
}

// next answers the next tick of any period.
func (s *scheduler) next(now time.Time) time.Time {
	next := now.Add(maxIdle)
	for period := range s.d.current.Load().periods {
		if tick := nextTick(now, period); tick.Before(next) {
			next = tick
		}
	}
	return next
}

// tick begins the rounds whose ticks have come. Ticks that nobody was awake for
// are not made up for. It costs little where none has come.
func (s *scheduler) tick(now time.Time) {
	g := s.d.current.Load()
	var due map[time.Time][]time.Duration
	for period := range g.periods {
		tick := lastTick(now, period)
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
		s.begin(g.rosterFor(periods), tick, true)
	}
	s.d.ticked(time.Now())
}

// begin starts a round of a roster. An autoscaler whose last pass is still under
// way takes no part: it is late, and so is one in quarantine not evaluated.
func (s *scheduler) begin(roster *roster, now time.Time, tick bool) {
	r := newRound(&s.d.environment, roster, now, tick, s.d.ready, s.d.completed)
	count := int64(0)
	for i := range r.passes {
		a := r.passes[i].autoscaler
		quarantined := a.published.Load().quarantined(now)
		if !quarantined && a.begin(now, !tick) {
			count++
			continue
		}
		r.reads.skip(i)
		if !tick {
			continue
		}
		if !quarantined {
			a.late.Add(1)
			s.d.metrics.Late(a.name)
		}
		a.missed(s.d.recorder)
	}
	r.unfinished.Store(count)
	s.rounds = append(s.rounds, r)
	if count == 0 {
		s.completed(r)
		return
	}
	r.reads.start()
}

// completed moves the last completed round forward. Passes of earlier rounds
// that are still under way are missing from it, and so the store is told to
// replay nothing for them.
func (s *scheduler) completed(r *round) {
	s.rounds = slices.DeleteFunc(s.rounds, func(other *round) bool { return other == r })
	if !r.tick || s.d.runContext.Err() != nil {
		return
	}
	if r.now.Before(s.newest) {
		return // a later round has completed already
	}
	s.newest = r.now
	for _, other := range s.rounds {
		if other.flagged || !other.now.Before(r.now) {
			continue
		}
		other.flagged = true
		for i := range other.passes {
			other.passes[i].autoscaler.missedAt(s.d.recorder, other.now)
		}
	}
	s.d.recorder.completed(r.now)
}
