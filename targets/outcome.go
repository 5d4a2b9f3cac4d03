package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// ErrUnknownOutcome marks an error of SetReplicas after which nobody knows
// whether the platform took the count: a response that got lost, a deadline that
// passed. The next reading settles it.
var ErrUnknownOutcome = errors.New("outcome of the write is not known")

// CutOff makes an error of a write an [ErrUnknownOutcome] where its context has
// ended, and returns any other one, and nil, as it is.
func CutOff(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// Undelivered makes the error of a write without a response an [ErrTransient], and
// an [ErrUnknownOutcome] besides unless there was never a connection: nothing
// changed then.
func Undelivered(err error) error {
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	return fmt.Errorf("%w: %w: %w", ErrUnknownOutcome, ErrTransient, err)
}
