package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// TestWriteErrorClasses: what AWS says of a change, or what kept it from being sent.
func TestWriteErrorClasses(t *testing.T) {
	says := func(code, message string) error { return &smithy.GenericAPIError{Code: code, Message: message} }
	dialing := func(err error) error { return &net.OpError{Op: "dial", Err: err} }
	for _, c := range []struct {
		name   string
		err    error
		class  error
		open   bool
		reason string
	}{
		{"at the minimum", says(codeValidation, "Currently, desiredSize equals minSize (1). Terminating instance without replacement will violate group's min size constraint."), targets.ErrOutOfRange, false, ""},
		{"no group", says(codeValidation, "AutoScalingGroup name not found - AutoScalingGroup 'web' not found"), targets.ErrTargetNotFound, false, GroupNotFound},
		{"no group, in other words", says(codeValidation, "Group web not found"), targets.ErrTargetNotFound, false, GroupNotFound},
		{"no instance", says(codeValidation, "Instance Id not found - No managed instance found for instance ID: i-1"), targets.ErrTransient, false, ""},
		{"anything else that is wrong", says(codeValidation, "whatever"), targets.ErrTransient, false, ""},
		{"an activity", says(codeActivityFault, "is in progress"), targets.ErrHeld, false, ""},
		{"in use", says(codeInUseFault, "in use"), targets.ErrHeld, false, ""},
		{"contention", says(codeContentionFault, "try again"), targets.ErrTransient, false, ""},
		{"no credentials", &credentialsError{err: errors.New("none")}, targets.ErrForbidden, false, ""},
		{"credentials cannot be asked for", &credentialsError{err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, targets.ErrTransient, false, ""},
		{"credentials take too long", &credentialsError{err: context.DeadlineExceeded}, targets.ErrTransient, false, ""},
		{"credentials were given up", &credentialsError{err: context.Canceled}, targets.ErrTransient, false, ""},
		{"never sent", dialing(syscall.ECONNREFUSED), targets.ErrTransient, false, ""},
		{"may not have been sent", dialing(context.DeadlineExceeded), targets.ErrTransient, true, ""},
		{"cut off", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, targets.ErrTransient, true, ""},
		{"no answer", context.DeadlineExceeded, targets.ErrTransient, true, ""},
	} {
		got := writeError(fmt.Errorf("call: %w", c.err), made(2, nil))
		if !errors.Is(got, c.class) || errors.Is(got, targets.ErrUnknownOutcome) != c.open || !errors.Is(c.class, targets.ErrHeld) && targets.Reason(got) != c.reason {
			t.Errorf("%s: %v with reason %q, want %v, open: %t, %q", c.name, got, targets.Reason(got), c.class, c.open, c.reason)
		}
	}
	if err := writeError(nil, made(2, nil)); err != nil {
		t.Errorf("writeError(nil) = %v", err)
	}
}

// TestReadErrorOnce: an error that has a class keeps it, and its words.
func TestReadErrorOnce(t *testing.T) {
	for _, class := range []error{targets.ErrTransient, targets.ErrForbidden} {
		err := fmt.Errorf("once: %w", class)
		if got := readError(err); !errors.Is(got, err) || got.Error() != err.Error() {
			t.Errorf("readError(%v) = %v, want it as it is", err, got)
		}
	}
	if err := readError(nil); err != nil {
		t.Errorf("readError(nil) = %v", err)
	}
}

// TestAnswerText: an error is one line that is not long, with AWS's own id of
// the request.
func TestAnswerText(t *testing.T) {
	long := strings.Repeat("é", 150)
	for _, c := range []struct {
		answer *cloud.Answer
		want   string
	}{
		{newAnswer(0, "Oops", "", "Call", ""), "aws answers Oops to Call"},
		{newAnswer(0, "Oops", "two\n  lines", "Call", "r-1"), "aws answers Oops to Call: two lines (request r-1)"},
		{newAnswer(0, "Oops", long, "Call", ""), "aws answers Oops to Call: " + long},
		{newAnswer(0, "Oops", "a"+long, "Call", ""), "aws answers Oops to Call: a" + strings.Repeat("é", 149) + " …"},
	} {
		if got := c.answer.Error(); got != c.want {
			t.Errorf("%+v is told as %q, want %q", c.answer, got, c.want)
		}
	}
	err := &smithy.OperationError{OperationName: "SetDesiredCapacity", Err: answered(http.Header{}, &smithy.GenericAPIError{Code: "Oops"})}
	if got := answerOf(err); got == nil || got.Status != http.StatusBadRequest || got.Error() != "aws answers Oops to SetDesiredCapacity (request r-1)" {
		t.Errorf("answerOf() = %+v, want the operation, 400 and r-1", got)
	}
}

// answered returns an error that came with a header.
func answered(header http.Header, err error) error {
	return &awshttp.ResponseError{RequestID: "r-1", ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest, Header: header}}, Err: err,
	}}
}

func TestRetryAfterHeader(t *testing.T) {
	slow := &smithy.GenericAPIError{Code: "Throttling", Message: "slow down"}
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "0": 0, "-7": 0, "soon": 0} {
		got, ok := errors.AsType[*targets.ThrottledError](throttled(answered(http.Header{"Retry-After": {text}}, slow)))
		if !ok || got.RetryAfter != want {
			t.Errorf("Retry-After %q means %+v, want %v", text, got, want)
		}
	}
	lost := &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{Err: slow}}
	if got, ok := errors.AsType[*targets.ThrottledError](throttled(lost)); !ok || got.RetryAfter != 0 {
		t.Errorf("an answer whose header is lost asks for %+v", got)
	}
}
