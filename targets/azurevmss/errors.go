package azurevmss

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// The reasons of holds, and of errors of targets that cannot be read or scaled.
const (
	ScaleSetNotFound    = "ScaleSetNotFound"
	ScaleSetUpdating    = "ScaleSetUpdating"
	ScaleSetDeleting    = "ScaleSetDeleting"
	RolloutInProgress   = "RolloutInProgress"   // a rolling upgrade replaces the machines
	NativeAutoscaler    = "NativeAutoscaler"    // an autoscale setting of Azure Monitor changes the count too
	ConcurrentRequest   = "ConcurrentRequest"   // another request for the set is under way
	OperationNotAllowed = "OperationNotAllowed" // for now, in Azure's words
	NoProfile           = "NoMachineProfile"    // a Flexible set without a profile of machines cannot grow
	MachineProtected    = "InstanceProtected"   // one that was to be taken
	QuotaExceeded       = "QuotaExceeded"
)

// reasoned gives an error a condition reason.
func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

// platformError is how Azure writes an error.
type platformError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details []platformError `json:"details"`
}

// innermost returns the most precise of an error and its details.
func (e platformError) innermost() platformError {
	for _, detail := range e.Details {
		if detail.Code != "" {
			return detail.innermost()
		}
	}
	return e
}

// newAnswer returns what Azure said.
func newAnswer(status int, code, message string) *platform.Answer {
	return &platform.Answer{Platform: "azure", Status: status, Code: code, Message: message}
}

// answerOf returns the refusal that an error is; nil when it is none.
func answerOf(err error) *platform.Answer {
	response, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return nil
	}
	answer := newAnswer(response.StatusCode, response.ErrorCode, "")
	if response.RawResponse == nil {
		return answer
	}
	answer.RetryAfter = targets.RetryAfter(response.RawResponse.Header)
	body, readErr := runtime.Payload(response.RawResponse)
	var wrapped struct {
		Error platformError `json:"error"`
	}
	if readErr == nil && json.Unmarshal(body, &wrapped) == nil {
		inner := wrapped.Error.innermost()
		answer.Message, answer.Code = inner.Message, cmp.Or(inner.Code, answer.Code)
	}
	return answer
}

// What refusals mean.
var (
	readRules = []platform.Rule{
		{Status: http.StatusTooManyRequests, Class: targets.ErrThrottled},
		{Status: http.StatusServiceUnavailable, Waits: true, Class: targets.ErrThrottled},
		{Status: http.StatusUnauthorized, Class: targets.ErrForbidden},
		{Status: http.StatusForbidden, Class: targets.ErrForbidden},
		{Status: http.StatusNotFound, Words: []string{"SubscriptionNotFound", "InvalidSubscriptionId"}, Class: targets.ErrForbidden},
		{Status: http.StatusNotFound, Class: targets.ErrTargetNotFound, Reason: ScaleSetNotFound},
	}
	writeRules = slices.Concat([]platform.Rule{
		{Status: http.StatusPreconditionFailed, Class: targets.ErrConflict},
		{Words: []string{"marked for deletion"}, Class: targets.ErrTargetNotFound, Reason: ScaleSetDeleting},
		{Status: 4, Words: sayingQuota, Class: targets.ErrHeld, Reason: QuotaExceeded},
		{Status: 4, Words: sayingShortage, Class: targets.ErrHeld},
		{Words: []string{"singlePlacementGroup", "maximum number of VM", "exceeds the maximum"}, Class: targets.ErrOutOfRange},
		{Status: http.StatusConflict, Words: []string{"limit of 10 models"}, Class: targets.ErrHeld, Reason: "ModelLimitReached"},
		{Status: http.StatusConflict, Words: []string{OperationNotAllowed}, Class: targets.ErrHeld, Reason: OperationNotAllowed},
		{Status: http.StatusConflict, Class: targets.ErrHeld, Reason: ConcurrentRequest},
	}, readRules, []platform.Rule{
		{Status: 5, Class: targets.ErrUnknownOutcome}, // a server's own error may come after the change was taken
	})
)

// readError puts an error of a read into one of the classes of package targets.
func readError(err error) error {
	return classify(err, readRules, func(err error) error { return fmt.Errorf("%w: %w", targets.ErrTransient, err) })
}

// writeError puts an error of a change of a set into one of the classes of package
// targets.
func writeError(err error, s *scaleSet) error {
	err = classify(err, writeRules, targets.Undelivered)
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](err); ok {
		bounds.Min, bounds.Max = new(int32), s.highest()
	}
	return err
}

// classify puts an error into a class: by rules where Azure refused the call, else with
// lost.
func classify(err error, rules []platform.Rule, lost func(error) error) error {
	if err == nil || targets.Classed(err) {
		return err
	}
	if token, ok := errors.AsType[*tokenError](err); ok {
		return tokenFailure(token)
	}
	if answer := answerOf(err); answer != nil {
		return answer.Classify(rules...)
	}
	return lost(plain(err))
}

// plain returns an error in one line that is the same to errors.Is.
func plain(err error) error {
	text := platform.OneLine(err.Error())
	if text == err.Error() {
		return err
	}
	return &plainError{text: text, err: err}
}

type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() error { return e.err }

// tokenFailure puts an error of getting a token into a class.
func tokenFailure(err *tokenError) error {
	failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if ok && failed.RawResponse != nil && failed.RawResponse.StatusCode < http.StatusInternalServerError {
		return fmt.Errorf("%w: no access token: %w", targets.ErrForbidden, newAnswer(failed.RawResponse.StatusCode, "", tokenWords(failed)))
	}
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || ok && failed.RawResponse != nil {
		return fmt.Errorf("%w: no access token: %w", targets.ErrTransient, plain(err))
	}
	if ok && strings.Contains(err.Error(), "dial tcp") { // whose type is lost on the way
		return fmt.Errorf("%w: no access token: %w", targets.ErrTransient, plain(err))
	}
	return fmt.Errorf("%w: no access token: %w", targets.ErrForbidden, plain(err))
}

// tokenWords returns what Microsoft Entra ID said.
func tokenWords(failed *azidentity.AuthenticationFailedError) string {
	body, err := runtime.Payload(failed.RawResponse)
	var said struct {
		Description string `json:"error_description"`
		Code        string `json:"error"`
	}
	if err != nil || json.Unmarshal(body, &said) != nil || said.Description == "" {
		return failed.Error()
	}
	return said.Code + ": " + said.Description
}

// Quotas and shortages, by their codes and words.
var (
	sayingQuota    = []string{"QuotaExceeded", "exceeding approved", "quota limit", "SpotQuotaExceeded"}
	sayingShortage = []string{
		"AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest",
		"SkuNotAvailable", "VMStartTimedOut", "OutOfCapacity",
	}
)
