package targets

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Life is how long a fleet may be used: from when it is made until it is closed.
// The zero Life has not ended. It is safe for concurrent use.
type Life struct{ ended atomic.Bool }

// End closes the fleet for good. It returns false where it was closed before.
func (l *Life) End() bool { return l.ended.CompareAndSwap(false, true) }

// Ended reports whether the fleet is closed.
func (l *Life) Ended() bool { return l.ended.Load() }

// Usable returns why the fleet cannot be used now: the error of ctx where that has
// ended, or an [ErrTransient] once the fleet is closed; else nil.
func (l *Life) Usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.Ended() {
		return fmt.Errorf("%w: the fleet is closed", ErrTransient)
	}
	return nil
}
