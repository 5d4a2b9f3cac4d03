package targets

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hpad/hpad/policy"
)

func TestClassed(t *testing.T) {
	for _, err := range []error{
		ErrTargetNotFound, ErrConflict, ErrForbidden, ErrUnscalable, ErrTransient, ErrUnknownOutcome,
		&HeldError{Hold: policy.Hold{Reason: "Deploying"}}, &ThrottledError{Err: errors.New("429")}, &OutOfRangeError{Err: errors.New("too many")},
		&ReasonError{Reason: "JobNotFound", Err: ErrTargetNotFound}, &PartialError{Reached: 1, Err: ErrTransient},
	} {
		if wrapped := fmt.Errorf("scale group %q: %w", "web", err); !Classed(err) || !Classed(wrapped) {
			t.Errorf("Classed(%v) = %v, and wrapped %v, want true", err, Classed(err), Classed(wrapped))
		}
	}
	for _, err := range []error{nil, errors.New("unexpected EOF"), &PartialError{Reached: 1, Err: errors.New("unexpected EOF")}} {
		if Classed(err) {
			t.Errorf("Classed(%v) = true, want false", err)
		}
	}
}
