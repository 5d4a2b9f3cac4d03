package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
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

// longestMessage is how much of AWS's words is shown, in bytes.
const longestMessage = 300

// newAnswer returns the error that an operation had. Request is the id that AWS gave it.
func newAnswer(status int, code, message, operation, request string) *cloud.Answer {
	line := fmt.Sprintf("aws answers %s to %s", code, operation)
	text := message
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + " …"
	}
	if text != "" {
		line += ": " + strings.Join(strings.Fields(text), " ")
	}
	if request != "" {
		line += " (request " + request + ")"
	}
	return &cloud.Answer{Platform: "aws", Status: status, Code: code, Message: message, Line: line}
}

// answerOf returns the answer in an error; nil where there is none.
func answerOf(err error) *cloud.Answer {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return nil
	}
	status, request, called, header := 0, "", "a call", http.Header(nil)
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		status, request, header = response.HTTPStatusCode(), response.ServiceRequestID(), response.Response.Header
	}
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		called = operation.Operation()
	}
	answer := newAnswer(status, said.ErrorCode(), said.ErrorMessage(), called, request)
	answer.RetryAfter = targets.RetryAfter(header)
	return answer
}

// throttled returns a ThrottledError for an answer that asks for fewer calls, and any
// other error as it is.
func throttled(err error) error {
	answer := answerOf(err)
	if answer == nil {
		return err
	}
	if _, ok := retry.DefaultThrottleErrorCodes[answer.Code]; !ok && answer.Status != http.StatusTooManyRequests {
		return err
	}
	return &targets.ThrottledError{RetryAfter: answer.RetryAfter, Err: err}
}

// renewable reports whether an error may be gone once the credentials are read again.
func renewable(err error) bool {
	if missing, ok := errors.AsType[*credentialsError](err); ok {
		return missing.final()
	}
	answer := answerOf(err)
	return answer != nil && forbiddenCodes[answer.Code]
}

// What errors of AWS mean.
var (
	readRules  = forbiddenRules()
	writeRules = slices.Concat([]cloud.Rule{
		{Code: codeActivity, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeActivityFault, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeInUse, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeInUseFault, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeContention, Class: targets.ErrTransient},
		{Code: codeContentionFault, Class: targets.ErrTransient},
		{Code: codeValidation, Words: []string{sayingAboveMax, sayingBelowMin, sayingAtMin}, Class: targets.ErrOutOfRange},
		{Code: codeValidation, Words: []string{sayingNoGroup}, Class: targets.ErrTargetNotFound, Reason: GroupNotFound},
		{Code: codeValidation, Words: []string{sayingNoInstance}, Class: targets.ErrTransient},
		{Code: codeValidation, Words: []string{sayingNotFound}, Class: targets.ErrTargetNotFound, Reason: GroupNotFound},
		{Code: codeValidation, Class: targets.ErrTransient},
	}, readRules, []cloud.Rule{{Status: 5, Class: targets.ErrUnknownOutcome}})
)

func forbiddenRules() []cloud.Rule {
	var rules []cloud.Rule
	for code := range forbiddenCodes {
		rules = append(rules, cloud.Rule{Code: code, Class: targets.ErrForbidden})
	}
	return rules
}

// readError returns the error of a read as one of a class of package targets.
func readError(err error) error {
	if errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrForbidden) {
		return err
	}
	return classify(err, readRules, func(err error) error { return fmt.Errorf("%w: %w", targets.ErrTransient, err) })
}

// writeError returns the error of a write to a group as one of a class of package
// targets, and as an ErrUnknownOutcome besides where the write may have been made.
func writeError(err error, g *group) error {
	err = classify(err, writeRules, func(err error) error {
		if errors.Is(err, context.DeadlineExceeded) { // of a dial too: another attempt may have been sent
			return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, err)
		}
		return targets.Undelivered(err)
	})
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](err); ok {
		bounds.Min, bounds.Max = g.min(), g.max()
	}
	return err
}

// classify puts an error into a class: by rules where it is of AWS, else with lost.
func classify(err error, rules []cloud.Rule, lost func(error) error) error {
	if err == nil {
		return nil
	}
	answer := answerOf(err)
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		if answer != nil { // else there was no call
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
	if answer != nil {
		return answer.Classify(rules...)
	}
	return lost(err)
}
