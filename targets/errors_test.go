package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/hpad/hpad/policy"
)

func TestClassed(t *testing.T) {
	for _, err := range []error{
		ErrTargetNotFound, ErrConflict, ErrForbidden, ErrUnscalable, ErrTransient, ErrUnknownOutcome,
		&HeldError{Hold: policy.Hold{Reason: "Deploying"}}, &ThrottledError{Err: errors.New("429")}, &OutOfRangeError{Err: errors.New("too many")},
		&ReasonError{Reason: "JobNotFound", Err: ErrTargetNotFound}, &PartialError{Reached: 1, Err: ErrTransient},
	} {
		if wrapped := fmt.Errorf("scale group %q: %w", "web", err); !HasClass(err) || !HasClass(wrapped) {
			t.Errorf("Classed(%v) = %v, and wrapped %v, want true", err, HasClass(err), HasClass(wrapped))
		}
	}
	for _, err := range []error{nil, errors.New("unexpected EOF"), &PartialError{Reached: 1, Err: errors.New("unexpected EOF")}} {
		if HasClass(err) {
			t.Errorf("Classed(%v) = true, want false", err)
		}
	}
}

func TestCutOff(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused := fmt.Errorf("%w: no token", ErrForbidden)
	lost := fmt.Errorf("%w: no answer", ErrUnknownOutcome)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"no error":                {t.Context(), nil, "<nil>"},
		"no error after the end":  {ended, nil, "<nil>"},
		"refused":                 {t.Context(), refused, "forbidden: no token"},
		"refused after the end":   {ended, refused, "outcome of the write is unknown: forbidden: no token"},
		"lost":                    {t.Context(), lost, "outcome of the write is unknown: no answer"},
		"lost, and after the end": {ended, lost, "outcome of the write is unknown: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			got := WithUnknownOutcome(c.ctx, c.err)
			if fmt.Sprint(got) != c.want || !errors.Is(got, c.err) {
				t.Errorf("CutOff() = %v, want %s", got, c.want)
			}
		})
	}
}

func TestUndelivered(t *testing.T) {
	for op, unknown := range map[string]bool{"dial": false, "read": true, "write": true} {
		err := fmt.Errorf("post: %w", &net.OpError{Op: op, Net: "tcp", Err: errors.New("it broke")})
		got := WithoutResponse(err)
		if !errors.Is(got, ErrTransient) || !errors.Is(got, err) || errors.Is(got, ErrUnknownOutcome) != unknown {
			t.Errorf("Undelivered() of a failed %s = %v, want an unknown outcome: %v", op, got, unknown)
		}
	}
	if got := WithoutResponse(errors.New("unexpected EOF")); !errors.Is(got, ErrTransient) || !errors.Is(got, ErrUnknownOutcome) {
		t.Errorf("Undelivered() = %v, want ErrTransient and ErrUnknownOutcome", got)
	}
}
