package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The reasons of holds, and of errors of targets that cannot be read or scaled.
const (
	// GroupNotFound: there is no such group.
	GroupNotFound = "GroupNotFound"
	// GroupDeleting: the group is being deleted.
	GroupDeleting = "GroupDeleting"
	// NativeAutoscaler: the group has scaling policies of its own.
	NativeAutoscaler = "NativeAutoscaler"
	// RefreshInProgress: the group's instances are being replaced.
	RefreshInProgress = "RefreshInProgress"
	// ScalingActivityInProgress: AWS refuses changes until an activity ends.
	ScalingActivityInProgress = "ScalingActivityInProgress"
	// WeightedCapacity: the group's capacity counts weights, not instances.
	WeightedCapacity = "WeightedCapacity"
	// CapacityType: the group's capacity counts vCPUs or memory, not instances.
	CapacityType = "CapacityType"
	// InstanceProtected: an instance is protected from scale-in.
	InstanceProtected = "InstanceProtected"
)

// What AWS's errors are recognized by.
const (
	codeValidation      = "ValidationError"
	codeActivity        = "ScalingActivityInProgress"
	codeActivityFault   = "ScalingActivityInProgressFault"
	codeContention      = "ResourceContention"
	codeContentionFault = "ResourceContentionFault"
	codeInUse           = "ResourceInUse"
	codeInUseFault      = "ResourceInUseFault"

	sayingAboveMax    = "is above max value"
	sayingBelowMin    = "is below min value"
	sayingAtMin       = "violate group's min size"
	sayingNotFound    = "not found"
	sayingNoGroup     = "AutoScalingGroup name not found"
	sayingNoInstance  = "No managed instance found"
	sayingInstanceID  = "instanceId"
	sayingTerminating = "is already terminating"
)

// forbiddenCodes are those of rejected credentials and permissions; true marks those of
// credentials, which may have been renewed since they were read.
var forbiddenCodes = map[string]bool{
	"AccessDenied":                false,
	"AccessDeniedException":       false,
	"UnauthorizedOperation":       false,
	"OptInRequired":               false,
	"Blocked":                     false,
	"AuthFailure":                 true,
	"ExpiredToken":                true,
	"ExpiredTokenException":       true,
	"RequestExpired":              true,
	"UnrecognizedClient":          true,
	"UnrecognizedClientException": true,
	"InvalidClientTokenId":        true,
	"InvalidAccessKeyId":          true,
	"SignatureDoesNotMatch":       true,
	"IncompleteSignature":         true,
	"MissingAuthenticationToken":  true,
}

// reasoned gives an error a condition reason.
func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

// answerError is an error that AWS answered with.
type answerError struct {
	code, message, request string
	status                 int
	operation              string
}

// Error returns the answer in one line.
func (e *answerError) Error() string {
	const longest = 300
	message := e.message
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + " …"
	}
	text := fmt.Sprintf("aws answers %s to %s", e.code, e.operation)
	if message != "" {
		text += ": " + strings.Join(strings.Fields(message), " ")
	}
	if e.request != "" {
		text += " (request " + e.request + ")"
	}
	return text
}

// answerOf returns the answer in an error; nil where there is none.
func answerOf(err error) *answerError {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return nil
	}
	answer := &answerError{code: said.ErrorCode(), message: said.ErrorMessage(), operation: "a call"}
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		answer.request = response.ServiceRequestID()
		answer.status = response.HTTPStatusCode()
	}
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		answer.operation = operation.Operation()
	}
	return answer
}

// throttled returns a ThrottledError for an answer that asks for fewer calls, and any
// other error as it is.
func throttled(err error) error {
	answer := answerOf(err)
	if answer == nil {
		return err
	}
	if _, ok := retry.DefaultThrottleErrorCodes[answer.code]; !ok && answer.status != http.StatusTooManyRequests {
		return err
	}
	return &targets.ThrottledError{RetryAfter: retryAfter(err), Err: err}
}

// retryAfter returns how long AWS asks to wait; 0 when it does not.
func retryAfter(err error) time.Duration {
	var response *awshttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return 0
	}
	return targets.RetryAfter(response.Response.Header)
}

// renewable reports whether an error may be gone once the credentials are read again.
func renewable(err error) bool {
	if missing, ok := errors.AsType[*credentialsError](err); ok {
		return missing.final()
	}
	answer := answerOf(err)
	return answer != nil && forbiddenCodes[answer.code]
}

// readError returns the error of a read as one of a class of package targets.
func readError(err error) error {
	if err == nil || errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrForbidden) {
		return err
	}
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		if answer := answerOf(err); answer != nil {
			return &targets.ThrottledError{RetryAfter: throttled.RetryAfter, Err: answer}
		}
		return throttled
	}
	if missing, ok := errors.AsType[*credentialsError](err); ok {
		class := targets.ErrTransient
		if missing.final() {
			class = targets.ErrForbidden
		}
		return fmt.Errorf("%w: %w", class, missing)
	}
	answer := answerOf(err)
	if answer == nil {
		return fmt.Errorf("%w: %w", targets.ErrTransient, err)
	}
	if _, ok := forbiddenCodes[answer.code]; ok {
		return fmt.Errorf("%w: %w", targets.ErrForbidden, answer)
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
}

// writeError returns the error of a write to a group as one of a class of package
// targets, and as an ErrUnknownOutcome besides where the write may have been made.
func writeError(err error, g *group) error {
	if err == nil {
		return nil
	}
	answer := answerOf(err)
	_, unsent := errors.AsType[*credentialsError](err)
	switch {
	case errors.Is(err, targets.ErrThrottled), unsent:
		return readError(err)
	case answer == nil && errors.Is(err, context.DeadlineExceeded): // of a dial too: another attempt may have been sent
		return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, err)
	case answer == nil:
		return targets.Undelivered(err)
	}
	says := func(saying string) bool { return strings.Contains(answer.message, saying) }
	switch answer.code {
	case codeActivity, codeActivityFault, codeInUse, codeInUseFault:
		return &targets.HeldError{Hold: policy.Hold{Reason: ScalingActivityInProgress, Message: answer.Error()}}
	case codeContention, codeContentionFault:
		return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
	case codeValidation:
		switch {
		case says(sayingAboveMax), says(sayingBelowMin), says(sayingAtMin):
			return &targets.OutOfRangeError{Min: g.min(), Max: g.max(), Err: answer}
		case says(sayingNoGroup), says(sayingNotFound) && !says(sayingNoInstance):
			return reasoned(GroupNotFound, fmt.Errorf("%w: %w", targets.ErrTargetNotFound, answer))
		}
		return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
	}
	if _, ok := forbiddenCodes[answer.code]; ok {
		return fmt.Errorf("%w: %w", targets.ErrForbidden, answer)
	}
	if answer.status >= http.StatusInternalServerError {
		return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, answer)
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, answer)
}
