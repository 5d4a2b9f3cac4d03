package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestClassify checks that an error gets the class of the first matching rule.
func TestClassify(t *testing.T) {
	rules := []Rule{
		{Status: http.StatusServiceUnavailable, Waits: true, Class: targets.ErrThrottled},
		{Code: "Quota", Words: []string{"per minute"}, Class: targets.ErrThrottled},
		{Code: "quota", Class: targets.ErrOutOfRange, Reason: "QuotaExceeded"},
		{Status: 4, Words: []string{"SoldOut", "no more machines"}, Class: targets.ErrHeld},
		{Status: http.StatusNotFound, Class: targets.ErrTargetNotFound, Reason: "GroupNotFound"},
		{Status: 5, Class: targets.ErrUnknownOutcome},
	}
	for name, c := range map[string]struct {
		answer  ResponseError
		class   error
		reason  string
		unknown bool
	}{
		"with retry-after": {ResponseError{Status: 503, RetryAfter: time.Second}, targets.ErrThrottled, "", false},
		"no retry-after":   {ResponseError{Status: 503}, targets.ErrTransient, "", true},
		"code and words":   {ResponseError{Status: 403, Code: "quota", Message: "10 calls Per Minute"}, targets.ErrThrottled, "", false},
		"only code":        {ResponseError{Status: 403, Code: "QUOTA", Message: "10 machines"}, targets.ErrOutOfRange, "QuotaExceeded", false},
		"word equals code": {ResponseError{Status: 409, Code: "soldOut"}, targets.ErrHeld, "soldOut", false},
		"word in message":  {ResponseError{Status: 400, Code: "Bad", Message: "there are no more machines"}, targets.ErrHeld, "Bad", false},
		"different status": {ResponseError{Code: "SoldOut"}, targets.ErrTransient, "", false},
		"status":           {ResponseError{Status: 404}, targets.ErrTargetNotFound, "GroupNotFound", false},
		"no rule":          {ResponseError{Status: 400}, targets.ErrTransient, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.answer.Classify(rules...)
			reason := targets.Reason(err)
			if held, ok := errors.AsType[*targets.HeldError](err); ok {
				reason = held.Hold.Reason
			}
			if !errors.Is(err, c.class) || reason != c.reason || errors.Is(err, targets.ErrUnknownOutcome) != c.unknown {
				t.Errorf("Classify() = %v with reason %q, want %v with %q, unknown outcome: %t", err, reason, c.class, c.reason, c.unknown)
			}
			if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok && throttled.RetryAfter != c.answer.RetryAfter {
				t.Errorf("RetryAfter = %v, want %v", throttled.RetryAfter, c.answer.RetryAfter)
			}
		})
	}
}

// TestTokenErrors checks the classes of errors before a call: none of them leaves the outcome of a
// write open.
func TestTokenErrors(t *testing.T) {
	classes := Errors{Response: func(error) *ResponseError { return nil }}
	for name, test := range map[string]struct {
		failed TokenError
		want   error
	}{
		"rejected":    {TokenError{Err: &ResponseError{Platform: "sts", Status: 403}, Status: 403}, ErrCredentials},
		"throttled":   {TokenError{Err: &ResponseError{Platform: "sts", Status: 429}, Status: 429}, targets.ErrTransient},
		"failed":      {TokenError{Err: errors.New("oops"), Status: 503}, targets.ErrTransient},
		"no file":     {TokenError{Err: errors.New("no credentials")}, ErrCredentials},
		"unreachable": {TokenError{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, targets.ErrTransient},
		"canceled":    {TokenError{Err: context.Canceled}, targets.ErrTransient},
	} {
		got := classes.Classify(t.Context(), Write, fmt.Errorf("call: %w", &test.failed))
		if !errors.Is(got, test.want) || errors.Is(got, targets.ErrUnknownOutcome) || errors.Is(got, targets.ErrThrottled) {
			t.Errorf("%s: Classify() = %v, want %v", name, got, test.want)
		}
	}
}
