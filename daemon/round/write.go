package round

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// The limits of R71 for retries after a version conflict.
const (
	conflictAttempts = 5
	conflictDelay    = 10 * time.Millisecond
	conflictJitter   = 0.1
)

// foreignError is returned for a write if an external writer has changed the count.
type foreignError struct{ read, found int32 }

func (e *foreignError) Error() string {
	return fmt.Sprintf("an external writer changed the count from %d to %d after it was read", e.read, e.found)
}

// write sets the count of a target. It contains copies of the pass's data, because a call that
// ignores its context can outlive the pass.
type write struct {
	fleet           *adapters.Fleet
	target          targets.Ref
	from, to        int32
	version, reason string
	// overwrite permits the write even if an external writer has changed the count since it was
	// read. It is set for compat = "strict" and for users' requests.
	overwrite bool
	// period is the sync period of the autoscaler.
	period time.Duration
	// until is the time until which the member can write counts; zero without a cluster.
	until   time.Time
	metrics *metrics.Metrics
}

// run writes the count within the timeout of a write.
func (w write) run(ctx context.Context) error {
	timeout, limit := writeTimeout(w.period)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, limit)
	defer cancel()
	if !w.until.IsZero() {
		ctx, cancel = context.WithDeadlineCause(ctx, w.until, &limitError{time.Until(w.until).Round(time.Millisecond), "until the owner's lease ends"})
		defer cancel()
	}
	err := w.call(ctx)
	if errors.Is(err, targets.ErrWriteTime) {
		err = fmt.Errorf("%w (%s, %s)", err, limit.limit, limit.why)
	}
	return err
}

// call writes the count, within the limit of concurrent writes of the fleet. It does not wait for a
// call that ignores its context, but such a call counts towards the limit until it returns.
func (w write) call(ctx context.Context) error {
	select {
	case w.fleet.Writes <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("scale %s to %d replicas: %w, because %d earlier writes to fleet %q have not returned yet",
			w.target, w.to, context.Cause(ctx), cap(w.fleet.Writes), w.fleet.Name)
	}
	w.fleet.Uses.Begin()
	result := make(chan error, 1)
	guard.Go(func() {
		defer w.fleet.Uses.End()
		defer func() { <-w.fleet.Writes }()
		result <- guard.Call(func() error { return w.retryConflicts(ctx) })
	})
	select {
	case err := <-result:
		return w.markUnknown(ctx, err)
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return w.markUnknown(ctx, err)
	case <-time.After(adapters.CallGrace):
		return w.unknown(context.Cause(ctx))
	}
}

func (w write) unknown(err error) error {
	return fmt.Errorf("scale %s to %d replicas: %w: %w", w.target, w.to, targets.ErrUnknownOutcome, err)
}

// markUnknown marks the outcome of a write as unknown after a deadline or a panic.
func (w write) markUnknown(ctx context.Context, err error) error {
	if _, panicked := errors.AsType[*guard.Panic](err); panicked {
		return w.unknown(err)
	}
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if !errors.Is(err, targets.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return withLimit(ctx, err)
}

// retryConflicts writes the count. After a version conflict, it reads the target again and, if the
// count has not changed, retries within the limits of R71.
func (w write) retryConflicts(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		started := time.Now()
		err := w.fleet.SetReplicas(ctx, w.target, w.to, w.version, redact.Text(w.reason))
		w.metrics.FleetCall(w.fleet.Name, callSetReplicas, time.Since(started), err)
		if !errors.Is(err, targets.ErrConflict) || attempt == conflictAttempts {
			return err
		}
		select {
		case <-time.After(conflictDelay + time.Duration(rand.Float64()*conflictJitter*float64(conflictDelay))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		readings, err := w.fleet.Snapshot(ctx, []targets.Ref{w.target})
		if err != nil {
			return fmt.Errorf("read again after a version conflict: %w", err)
		}
		reading := readings[w.target]
		if reading.Err != nil {
			return fmt.Errorf("read again after a version conflict: %w", reading.Err)
		}
		if reading.SpecReplicas != w.from && !w.overwrite {
			return &foreignError{read: w.from, found: reading.SpecReplicas}
		}
		w.version = reading.Version
	}
}
