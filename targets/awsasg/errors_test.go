package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/aws/smithy-go"

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
		{"never sent, after a while", dialing(context.DeadlineExceeded), targets.ErrTransient, false, ""},
		{"cut off", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, targets.ErrTransient, true, ""},
		{"no answer", context.DeadlineExceeded, targets.ErrTransient, true, ""},
	} {
		got := errorClasses.Classify(t.Context(), cloud.Write, fmt.Errorf("call: %w", c.err))
		if !errors.Is(got, c.class) || errors.Is(got, targets.ErrUnknownOutcome) != c.open || !errors.Is(c.class, targets.ErrHeld) && targets.Reason(got) != c.reason {
			t.Errorf("%s: %v with reason %q, want %v, open: %t, %q", c.name, got, targets.Reason(got), c.class, c.open, c.reason)
		}
	}
}
