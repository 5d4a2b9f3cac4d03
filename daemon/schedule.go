package daemon

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// scheduler begins the rounds. One goroutine runs it and owns its fields.
type scheduler struct {
	*inForce
	notifier *notifier
	// ready are chunks of passes that have what they read, for the workers, completed
	// the rounds whose passes have ended.
	ready     chan chunk
	completed chan *round
	swaps     chan swapRequest
	// last is the last tick of each period.
	last map[time.Duration]time.Time
	// rounds are those that have not completed, oldest first.
	rounds []*round
	// newest is the newest completed round.
	newest time.Time
}

// run begins rounds at their ticks until ctx ends. Whatever wakes it, it looks
// for ticks that have come, so that none waits for what comes at the same time.
func (s *scheduler) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-s.swaps:
			s.tick(s.clock.Now()) // the tick first: a swap may begin passes of its own
			s.force(request.change)
			close(request.swapped)
		case name := <-s.evaluations:
			s.tick(s.clock.Now())
			if a := s.current.Load().autoscalers[name]; a != nil {
				s.begin(newRoster([]*autoscaler{a}), s.clock.Now(), false)
			}
		case r := <-s.completed:
			s.complete(r)
		case <-timer.C:
		}
		s.lookAtClock()
		now := s.clock.Now()
		s.endPauses(now)
		s.tick(now)
		s.notifier.alive(time.Now())
		timer.Reset(min(s.next(now).Sub(now), maxIdle))
	}
}

// readyQueue is how many chunks of ready passes may wait for a worker.
const readyQueue = 256

func newScheduler(f *inForce, n *notifier) *scheduler {
	return &scheduler{
		inForce: f, notifier: n, last: map[time.Duration]time.Time{},
		ready: make(chan chunk, readyQueue), completed: make(chan *round, 16), swaps: make(chan swapRequest),
	}
}

// work runs passes as they become ready.
func (s *scheduler) work() {
	for ready := range s.ready {
		var recordings []*recording // of one commit, for the most part
		for _, i := range ready.passes {
			if recording := ready.round.passes[i].evaluate(); recording != nil {
				recordings = append(recordings, recording)
			}
		}
		if len(recordings) > 0 {
			s.actors.Go(func() {
				for _, recording := range recordings {
					recording.wait()
				}
			})
		}
	}
}

// force puts a generation in force, and evaluates what is to be at once.
func (s *scheduler) force(ch *change) {
	fresh := s.swap(ch)
	now := s.clock.Now()
	s.follow(ch.next, now)
	if len(fresh) > 0 {
		s.begin(newRoster(fresh), now, false)
	}
}

// keepUnfinished has the passes recorded that the store was to replay once their
// round had completed, which a stop prevents.
func (s *scheduler) keepUnfinished() {
	for _, a := range s.current.Load().autoscalers {
		a.keepUnfinished(s.recorder, s.newest)
	}
}

// follow keeps the periods of a new generation: their ticks after now are due.
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

// next returns the next tick of any period.
func (s *scheduler) next(now time.Time) time.Time {
	next := now.Add(maxIdle)
	for period := range s.current.Load().periods {
		if tick := nextTick(now, period); tick.Before(next) {
			next = tick
		}
	}
	return next
}

// tick begins the rounds whose ticks have come. Ticks that nobody was awake for
// are not made up for. It costs little where none has come.
func (s *scheduler) tick(now time.Time) {
	g := s.current.Load()
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
	woken := time.Now()
	s.lastTick.Store(&woken)
	s.notifier.status(woken, statusIdle)
}

// begin starts a round of a roster. An autoscaler whose last pass is still under
// way takes no part: it is late, and so is one in quarantine not evaluated.
func (s *scheduler) begin(roster *roster, now time.Time, tick bool) {
	r := newRound(&s.environment, roster, now, tick, s.ready, s.completed)
	if tick {
		s.withdraw(now)
	}
	r.callBallots(s.current.Load())
	count := int64(0)
	for i := range r.passes {
		a := r.passes[i].autoscaler
		quarantined := a.published.Load().quarantined(now)
		if !quarantined && a.begin(now, !tick) {
			count++
			continue
		}
		r.skip(i)
		r.passes[i].vote(nil)
		if !tick {
			continue
		}
		why := reason.Quarantined
		if !quarantined {
			why = reason.Late
			a.late.Add(1)
			s.metrics.Late(a.name)
		}
		s.metrics.Reason(why)
		a.missed(s.recorder, why)
	}
	r.unfinished.Store(count)
	s.rounds = append(s.rounds, r)
	if count == 0 {
		s.complete(r)
		return
	}
	r.start(func(pass int) time.Time { return r.passes[pass].autoscaler.known })
}

// withdraw takes the passes back that still wait for what they read, of rounds out of
// turn, where the autoscaler is due at a tick: the tick's pass waits for the same read.
// So a first round that is slow leaves none late.
func (s *scheduler) withdraw(tick time.Time) {
	for _, r := range s.rounds {
		if r.tick {
			continue
		}
		withdrawn := int64(0)
		for i := range r.passes {
			p := &r.passes[i]
			if lastTick(tick, p.definition.SyncPeriod).Equal(tick) && r.withdraw(i) {
				p.vote(nil)
				p.autoscaler.release()
				withdrawn++
			}
		}
		if withdrawn > 0 { // not by the scheduler, which takes what has completed
			s.actors.Go(func() { r.end(withdrawn) })
		}
	}
}

// complete moves the last completed round forward. Passes of earlier rounds
// that are still under way are missing from it, and so the store is to replay nothing
// for them.
func (s *scheduler) complete(r *round) {
	s.notifier.status(time.Now(), statusEvery)
	s.rounds = slices.DeleteFunc(s.rounds, func(other *round) bool { return other == r })
	if !r.tick || s.runContext.Err() != nil {
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
			other.passes[i].autoscaler.missedAt(s.recorder, other.now)
		}
	}
	s.recorder.completed(r.now)
}

// endPauses ends the pauses whose time is over, and what the breakers hold of fleets that
// have none any more. The scheduler calls it each time it wakes.
func (f *inForce) endPauses(now time.Time) {
	fleets, table := f.current.Load().config.Fleets, f.pauses.table.Load()
	gone := func(fleet string) bool { return fleets[fleet].Breaker == nil }
	if (table.next.IsZero() || now.Before(table.next)) && !slices.ContainsFunc(table.breakers, gone) {
		return
	}
	ended, _ := f.pauses.end(now, f.recorder, func(pause policy.Pause) (string, bool) {
		if pause.Breaker && gone(pause.Fleet) {
			return "the fleet has no breaker any more", true
		}
		if pause.Breaker {
			return "the breaker's window is over", pause.Ended(now)
		}
		return "the pause is over", pause.Ended(now)
	})
	for _, pause := range ended {
		f.log.Info("a pause is over", pauseFields(pause.Scope, pause.Author)...)
	}
}
