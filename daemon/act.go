package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// A version conflict is tried again as R71 says.
const (
	conflictAttempts = 5
	conflictDelay    = 10 * time.Millisecond
	conflictJitter   = 0.1
)

// Writes get as long as the period, within these bounds: they are accepted, not
// waited for.
const (
	minWriteTimeout = 5 * time.Second
	maxWriteTimeout = 30 * time.Second
)

// foreignError says that somebody else changed the count between the read and
// the write.
type foreignError struct{ read, found int32 }

func (e *foreignError) Error() string {
	return fmt.Sprintf("somebody else changed the count from %d to %d meanwhile; evaluating again", e.read, e.found)
}

// evaluateAgain asks for another evaluation at once after a write that was lost
// to somebody else, but not twice in a row.
func (p *pass) evaluateAgain(foreign bool) {
	a := p.plan.autoscaler
	if a.retried = foreign && !a.retried; a.retried {
		a.askAgain()
	}
}

// outcomeOf turns an error of SetReplicas into what policy settles on.
func outcomeOf(decision *policy.Decision, err error) policy.Outcome {
	var held *targets.HeldError
	var partial *targets.PartialError
	switch {
	case err == nil:
		return policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
	case errors.As(err, &held):
		return policy.Outcome{Kind: policy.WriteHeld, Hold: &held.Hold}
	case errors.Is(err, targets.ErrHeld): // without saying how
		return policy.Outcome{Kind: policy.WriteHeld, Hold: &policy.Hold{Message: err.Error()}}
	case errors.As(err, &partial) && partial.Reached != decision.CurrentReplicas:
		return policy.Outcome{Kind: policy.Written, Reached: partial.Reached, Error: err.Error()}
	default:
		return policy.Outcome{Kind: policy.WriteFailed, Error: err.Error(), Reason: targets.Reason(err)}
	}
}

// order is what a write is asked to do. It is a copy: a call that does not heed
// its context may outlive the pass.
type order struct {
	from, to        int32
	version, reason string
}

// write sets the count, within the time that a write gets.
func (p *pass) write(o order) error {
	if p.plan.autoscaler.removed.Load() {
		return errors.New("the autoscaler was removed")
	}
	timeout, limit := writeTimeout(p.plan.definition.SyncPeriod)
	ctx, cancel := context.WithTimeoutCause(p.round.daemon.actContext, timeout, limit)
	defer cancel()
	err := p.callFleet(ctx, o)
	if errors.Is(err, targets.ErrWriteTime) {
		err = fmt.Errorf("%w (%s, %s)", err, limit.limit, limit.why)
	}
	return err
}

// callFleet sets the count, within the fleet's bound on writes. It waits for no call
// that does not heed its context; such a call keeps its place until it returns.
func (p *pass) callFleet(ctx context.Context, o order) error {
	fleet := p.plan.definition.fleet
	select {
	case fleet.writes <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("scale %s to %d replicas: %w, because %d earlier writes to fleet %q have not returned yet",
			p.plan.definition.Target, o.to, context.Cause(ctx), cap(fleet.writes), fleet.name)
	}
	fleet.uses.begin()
	result := make(chan error, 1)
	go func() {
		defer fleet.uses.end()
		defer func() { <-fleet.writes }()
		result <- trouble.Guard(func() error { return p.retryConflicts(ctx, o) })
	}()
	select {
	case err := <-result:
		return p.judgeWrite(ctx, o, err)
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return p.judgeWrite(ctx, o, err)
	case <-time.After(callGrace):
		return p.unanswered(o, context.Cause(ctx))
	}
}

// unanswered is the error of a write that a deadline or a panic cut off before the
// fleet said anything.
func (p *pass) unanswered(o order, err error) error {
	return fmt.Errorf("scale %s to %d replicas: %w: %w", p.plan.definition.Target, o.to, targets.ErrUnknownOutcome, err)
}

// judgeWrite marks as unknown what a deadline or a panic cut off. Any other error
// names the attempt itself.
func (p *pass) judgeWrite(ctx context.Context, o order, err error) error {
	var panicked *trouble.Panic
	if errors.As(err, &panicked) {
		return p.unanswered(o, err)
	}
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if !errors.Is(err, targets.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return withLimit(ctx, err)
}

// retryConflicts sets the count. On a version conflict it reads again and retries, up
// to R71's limit, as long as the count is the one the decision was made for.
func (p *pass) retryConflicts(ctx context.Context, o order) error {
	def := p.plan.definition
	for attempt := 1; ; attempt++ {
		started := time.Now()
		err := def.fleet.fleet.SetReplicas(ctx, def.Target, o.to, o.version, o.reason)
		p.round.daemon.metrics.FleetCall(def.fleet.name, callSetReplicas, time.Since(started), err)
		if !errors.Is(err, targets.ErrConflict) || attempt == conflictAttempts {
			return err
		}
		if err := sleep(ctx, conflictDelay+time.Duration(rand.Float64()*conflictJitter*float64(conflictDelay))); err != nil {
			return err
		}
		readings, err := def.fleet.fleet.Snapshot(ctx, []targets.Ref{def.Target})
		if err != nil {
			return fmt.Errorf("read again after a version conflict: %w", err)
		}
		reading := readings[def.Target]
		if reading.Err != nil {
			return fmt.Errorf("read again after a version conflict: %w", reading.Err)
		}
		if reading.SpecReplicas != o.from && !def.strict {
			return &foreignError{read: o.from, found: reading.SpecReplicas}
		}
		o.version = reading.Version
	}
}

// sleep waits, or answers why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
