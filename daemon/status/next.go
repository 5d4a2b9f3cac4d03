package status

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

// next returns the conditions for the next change to the count, based on the last pass. It is nil
// before the first pass, and after a configuration change until the next pass.
func (s *Reader) next(a *round.Autoscaler) *policy.Next {
	def, published := a.Definition().At(s.wall()), a.Last()
	if !published.Decided() || published.Record.Fingerprint != def.Fingerprint {
		return nil
	}
	decision, count := published.Decision, published.Decision.CurrentReplicas
	if published.Outcome.Kind == policy.Written {
		count = published.Outcome.Reached
	}
	hold := decision.Hold
	if hold == nil {
		hold = published.Outcome.Hold
	}
	if hold != nil {
		converted := *hold // platforms use the wall clock
		converted.Until = s.env.Clock.Scale().Monotonic(hold.Until)
		decision.Hold = &converted
	}
	var next policy.Next
	err := guard.Call(func() error {
		record := &published.Record
		next = policy.LookAhead(def.Settings, def.Spec, record.Memory, record.Status, decision, count)
		return nil
	})
	if err != nil {
		return nil
	}
	now := s.env.Clock.Now()
	next.Waits = append(next.Waits, s.nextWaits(published, now)...)
	soonest := published.Next(now, def.SyncPeriod)
	due := func(at time.Time) time.Time {
		if at.IsZero() || at.Before(soonest) {
			at = soonest
		}
		return ticks.Next(at.Add(-1), def.SyncPeriod)
	}
	if !next.At.IsZero() {
		next.At = due(next.At)
	}
	for _, move := range []*policy.Move{next.Up, next.Down} {
		if move != nil {
			move.At = due(move.At)
		}
	}
	return &next
}

// nextWaits returns the delays and obstacles that are not part of the algorithm.
func (s *Reader) nextWaits(published *round.Result, now time.Time) (waits []policy.Wait) {
	if intention := published.Record.Intention; intention != nil {
		waits = append(waits, policy.Wait{
			Reason: reason.UnknownOutcome.String(), Replicas: intention.To,
			Message: fmt.Sprintf("the next reading will show whether the write of %d was made", intention.To),
		})
	}
	if published.Quarantined(now) {
		waits = append(waits, policy.Wait{Reason: reason.Quarantined.String(), Until: published.Quarantine})
	}
	if until := s.env.Until; until != nil && !time.Now().Before(until()) {
		waits = append(waits, policy.Wait{Reason: reason.NotOwner.String()})
	}
	if s.env.DryRun {
		waits = append(waits, policy.Wait{Reason: reason.DryRun.String()})
	}
	return waits
}
