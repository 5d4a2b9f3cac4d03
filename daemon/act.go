package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/daemon/state"
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

// foreignError is the error of a write whose count somebody else changed since the read.
type foreignError struct{ read, found int32 }

func (e *foreignError) Error() string {
	return fmt.Sprintf("somebody else changed the count from %d to %d meanwhile; evaluating again", e.read, e.found)
}

// order is a write of a count. It is a copy: a call that does not heed its context may
// outlive the pass.
type order struct {
	fleet           *adapters.Fleet
	target          targets.Ref
	from, to        int32
	version, reason string
	// strict writes also where somebody else changed the count since it was read, as
	// compat = "strict" and people do; period is the autoscaler's.
	strict  bool
	period  time.Duration
	metrics *metrics.Metrics
	// until is until when a fleet may be asked; zero is always.
	until time.Time
}

// errNotOwner is why a count is not written that another member of the cluster may be
// about to write.
var errNotOwner = errors.New("this member may not own the fleet any more")

// mayAct returns until when a pass may ask its fleet, zero without a bound, or why it may
// not, once its intention was written with an error or nil. Without a cluster a store
// that cannot be written does not keep a fleet from being scaled.
//
// A write whose intention the store rejects is not made: a restart would not know it.
func (p *pass) mayAct(intended error) (until time.Time, err error) {
	_, rejected := errors.AsType[state.RejectedError](intended)
	switch {
	case p.autoscaler.removed.Load():
		return time.Time{}, errRemoved
	case rejected:
		return time.Time{}, intended
	case p.until == nil && intended != nil:
		p.log.Error("intention to scale could not be written; scaling all the same",
			zap.String("autoscaler", p.autoscaler.name), zap.NamedError("err", intended))
		return time.Time{}, nil
	case p.until == nil:
		return time.Time{}, nil
	case intended != nil:
		return time.Time{}, fmt.Errorf("%w: the intention to scale could not be written: %w", errNotOwner, intended)
	}
	if until = p.until(); !time.Now().Before(until) {
		return until, fmt.Errorf("%w: its lease has not been renewed", errNotOwner)
	}
	return until, nil
}

// write sets the count, within the time that a write gets.
func (o order) write(ctx context.Context) error {
	timeout, limit := writeTimeout(o.period)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, limit)
	defer cancel()
	if !o.until.IsZero() {
		ctx, cancel = context.WithDeadlineCause(ctx, o.until, &limitError{time.Until(o.until).Round(time.Millisecond), "until the lease of this member ends"})
		defer cancel()
	}
	err := o.call(ctx)
	if errors.Is(err, targets.ErrWriteTime) {
		err = fmt.Errorf("%w (%s, %s)", err, limit.limit, limit.why)
	}
	return err
}

// call sets the count, within the fleet's bound on writes. It waits for no call that
// does not heed its context; such a call keeps its place until it returns.
func (o order) call(ctx context.Context) error {
	select {
	case o.fleet.Writes <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("scale %s to %d replicas: %w, because %d earlier writes to fleet %q have not returned yet",
			o.target, o.to, context.Cause(ctx), cap(o.fleet.Writes), o.fleet.Name)
	}
	o.fleet.Uses.Begin()
	result := make(chan error, 1)
	go func() {
		defer o.fleet.Uses.End()
		defer func() { <-o.fleet.Writes }()
		result <- trouble.Guard(func() error { return o.retryConflicts(ctx) })
	}()
	select {
	case err := <-result:
		return o.judge(ctx, err)
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return o.judge(ctx, err)
	case <-time.After(adapters.CallGrace):
		return o.unanswered(context.Cause(ctx))
	}
}

// unanswered is the error of a write that a deadline or a panic cut off before the
// fleet said anything.
func (o order) unanswered(err error) error {
	return fmt.Errorf("scale %s to %d replicas: %w: %w", o.target, o.to, targets.ErrUnknownOutcome, err)
}

// judge marks as unknown what a deadline or a panic cut off. Any other error names the
// attempt itself.
func (o order) judge(ctx context.Context, err error) error {
	if _, panicked := errors.AsType[*trouble.Panic](err); panicked {
		return o.unanswered(err)
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
func (o order) retryConflicts(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		started := time.Now()
		err := o.fleet.SetReplicas(ctx, o.target, o.to, o.version, redact.Text(o.reason))
		o.metrics.FleetCall(o.fleet.Name, callSetReplicas, time.Since(started), err)
		if !errors.Is(err, targets.ErrConflict) || attempt == conflictAttempts {
			return err
		}
		if err := sleep(ctx, conflictDelay+time.Duration(rand.Float64()*conflictJitter*float64(conflictDelay))); err != nil {
			return err
		}
		readings, err := o.fleet.Snapshot(ctx, []targets.Ref{o.target})
		if err != nil {
			return fmt.Errorf("read again after a version conflict: %w", err)
		}
		reading := readings[o.target]
		if reading.Err != nil {
			return fmt.Errorf("read again after a version conflict: %w", reading.Err)
		}
		if reading.SpecReplicas != o.from && !o.strict {
			return &foreignError{read: o.from, found: reading.SpecReplicas}
		}
		o.version = reading.Version
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
		return policy.Outcome{Kind: policy.WriteHeld, Hold: shortHold(&held.Hold)}
	case errors.Is(err, targets.ErrHeld): // without saying how
		return policy.Outcome{Kind: policy.WriteHeld, Hold: &policy.Hold{Message: trouble.Shorten(err.Error())}}
	case errors.As(err, &partial) && partial.Reached != decision.CurrentReplicas:
		return policy.Outcome{Kind: policy.Written, Reached: partial.Reached, Error: trouble.Shorten(err.Error())}
	default:
		return policy.Outcome{Kind: policy.WriteFailed, Error: trouble.Shorten(err.Error()), Reason: targets.Reason(err)}
	}
}

// pausedMeanwhile has a decision not be carried out that a pause holds which began after
// it was made, and reports whether there is one.
func (p *pass) pausedMeanwhile(decision *policy.Decision) bool {
	inForce, _ := p.pauses.of(p.autoscaler.name, p.definition.Target.Fleet, p.clock.Now(), p.clock.Scale())
	if !decision.HoldBy(inForce, p.now) {
		return false
	}
	p.inputs.Meanwhile = inForce
	return true
}
