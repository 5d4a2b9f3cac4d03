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
			t.Errorf("HasClass(%v) = %v and HasClass(wrapped) = %v, want true", err, HasClass(err), HasClass(wrapped))
		}
	}
	for _, err := range []error{nil, errors.New("unexpected EOF"), &PartialError{Reached: 1, Err: errors.New("unexpected EOF")}} {
		if HasClass(err) {
			t.Errorf("HasClass(%v) = true, want false", err)
		}
	}
}

func TestWithUnknownOutcome(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused := fmt.Errorf("%w: no token", ErrForbidden)
	lost := fmt.Errorf("%w: no response", ErrUnknownOutcome)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"no error":                         {t.Context(), nil, "<nil>"},
		"no error after cancellation":      {ended, nil, "<nil>"},
		"rejected":                         {t.Context(), refused, "forbidden: no token"},
		"rejected after cancellation":      {ended, refused, "outcome of the write is unknown: forbidden: no token"},
		"response lost":                    {t.Context(), lost, "outcome of the write is unknown: no response"},
		"response lost after cancellation": {ended, lost, "outcome of the write is unknown: no response"},
	} {
		t.Run(name, func(t *testing.T) {
			got := WithUnknownOutcome(c.ctx, c.err)
			if fmt.Sprint(got) != c.want || !errors.Is(got, c.err) {
				t.Errorf("WithUnknownOutcome() = %v, want %s", got, c.want)
			}
		})
	}
}

func TestWithoutResponse(t *testing.T) {
	for op, unknown := range map[string]bool{"dial": false, "read": true, "write": true} {
		err := fmt.Errorf("post: %w", &net.OpError{Op: op, Net: "tcp", Err: errors.New("injected error")})
		got := WithoutResponse(err)
		if !errors.Is(got, ErrTransient) || !errors.Is(got, err) || errors.Is(got, ErrUnknownOutcome) != unknown {
			t.Errorf("WithoutResponse() of a failed %s = %v, want an unknown outcome: %v", op, got, unknown)
		}
	}
	got := WithoutResponse(errors.New("unexpected EOF"))
	if !errors.Is(got, ErrTransient) || !errors.Is(got, ErrUnknownOutcome) {
		t.Errorf("WithoutResponse() = %v, want ErrTransient and ErrUnknownOutcome", got)
	}
	if want := "outcome of the write is unknown: unexpected EOF"; got.Error() != want {
		t.Errorf("WithoutResponse() = %q, want %q", got, want)
	}
}
