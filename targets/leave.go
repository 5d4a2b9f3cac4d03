package targets

import (
	"context"
	"time"
)

// Leave withdraws the endpoints of a target's terminating instances and then waits for delay. A
// fleet calls it before it stops the instances, without a lock that its readings need. Leave
// returns false if ctx ended first.
func (e *Env) Leave(ctx context.Context, ref Ref, delay time.Duration) bool {
	if e.Withdraw != nil {
		e.Withdraw(ctx, ref)
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
