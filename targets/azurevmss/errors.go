package azurevmss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The reasons of holds, and of errors of targets that cannot be read or scaled.
const (
	// ScaleSetNotFound: there is no such scale set.
	ScaleSetNotFound = "ScaleSetNotFound"
	// ScaleSetUpdating: the platform works on the set.
	ScaleSetUpdating = "ScaleSetUpdating"
	// ScaleSetDeleting: the set is being deleted.
	ScaleSetDeleting = "ScaleSetDeleting"
	// RolloutInProgress: a rolling upgrade replaces the machines.
	RolloutInProgress = "RolloutInProgress"
	// NativeAutoscaler: an autoscale setting of Azure Monitor changes the count too.
	NativeAutoscaler = "NativeAutoscaler"
	// ConcurrentRequest: the platform works on another request for the set.
	ConcurrentRequest = "ConcurrentRequest"
	// OperationNotAllowed: the platform refuses the change for now, in its words.
	OperationNotAllowed = "OperationNotAllowed"
	// NoProfile: a Flexible set without a profile of machines cannot grow.
	NoProfile = "NoMachineProfile"
	// MachineProtected: a machine that was to be taken is protected.
	MachineProtected = "InstanceProtected"
	// QuotaExceeded: the subscription allows no more.
	QuotaExceeded = "QuotaExceeded"
)

// reasoned gives an error a condition reason.
func reasoned(reason string, err error) error { return &targets.ReasonError{Reason: reason, Err: err} }

// answerError is a refusal by Azure in one line.
type answerError struct {
	status        int
	code, message string
	retryAfter    time.Duration
}

func (e *answerError) Error() string {
	text := "azure answers"
	if e.status != 0 {
		text += " " + strconv.Itoa(e.status)
	}
	if e.code != "" {
		text += " " + e.code
	}
	message := oneLine(e.message)
	if message == "" && e.status != 0 {
		message = http.StatusText(e.status)
	}
	return text + ": " + message
}

// longestMessage is how much of Azure's words is shown, in bytes.
const longestMessage = 400

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + " …"
	}
	return text
}

// says whether the code is one of these, or the message has these words.
func (e *answerError) says(words ...string) bool {
	for _, word := range words {
		if strings.EqualFold(e.code, word) || strings.Contains(strings.ToLower(e.message), strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// platformError is how Azure writes an error.
type platformError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details []platformError `json:"details"`
}

// innermost answers the most precise of an error and its details.
func (e platformError) innermost() platformError {
	for _, detail := range e.Details {
		if detail.Code != "" {
			return detail.innermost()
		}
	}
	return e
}

// answerOf answers the refusal that an error is; nil when it is none.
func answerOf(err error) *answerError {
	response, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return nil
	}
	answer := &answerError{status: response.StatusCode, code: response.ErrorCode}
	if response.RawResponse == nil {
		return answer
	}
	answer.retryAfter = retryAfter(response.RawResponse.Header)
	body, readErr := runtime.Payload(response.RawResponse)
	var wrapped struct {
		Error platformError `json:"error"`
	}
	if readErr == nil && json.Unmarshal(body, &wrapped) == nil {
		inner := wrapped.Error.innermost()
		answer.message = inner.Message
		if inner.Code != "" {
			answer.code = inner.Code
		}
	}
	return answer
}

// retryAfter answers how long Azure asks to wait; 0 when it does not say.
func retryAfter(header http.Header) time.Duration {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms"} {
		if n, err := strconv.Atoi(header.Get(name)); err == nil && n > 0 {
			return time.Duration(n) * time.Millisecond
		}
	}
	text := header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// readError puts an error of a read into one of the classes of package targets.
func readError(err error) error {
	if err == nil {
		return nil
	}
	if targets.Classed(err) {
		return err
	}
	if token, ok := errors.AsType[*tokenError](err); ok {
		return tokenFailure(token)
	}
	answer := answerOf(err)
	if answer == nil {
		return fmt.Errorf("%w: %w", targets.ErrTransient, plain(err))
	}
	return answer.classify()
}

// plain answers an error in one line that is the same to errors.Is.
func plain(err error) error {
	text := oneLine(err.Error())
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
	refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if ok && refused.RawResponse != nil && refused.RawResponse.StatusCode < http.StatusInternalServerError {
		return fmt.Errorf("%w: no access token: %w", targets.ErrForbidden, &answerError{
			status: refused.RawResponse.StatusCode, code: "", message: tokenWords(refused),
		})
	}
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || ok && refused.RawResponse != nil {
		return fmt.Errorf("%w: no access token: %w", targets.ErrTransient, plain(err))
	}
	if ok && strings.Contains(err.Error(), "dial tcp") { // whose type is lost on the way
		return fmt.Errorf("%w: no access token: %w", targets.ErrTransient, plain(err))
	}
	return fmt.Errorf("%w: no access token: %w", targets.ErrForbidden, plain(err))
}

// tokenWords answers what Microsoft Entra ID said.
func tokenWords(refused *azidentity.AuthenticationFailedError) string {
	body, err := runtime.Payload(refused.RawResponse)
	var said struct {
		Description string `json:"error_description"`
		Code        string `json:"error"`
	}
	if err != nil || json.Unmarshal(body, &said) != nil || said.Description == "" {
		return refused.Error()
	}
	return said.Code + ": " + said.Description
}

// classify puts a refusal into a class, as far as reads and writes have them in
// common.
func (e *answerError) classify() error {
	switch {
	case e.status == http.StatusTooManyRequests, e.status == http.StatusServiceUnavailable && e.retryAfter > 0:
		return &targets.ThrottledError{RetryAfter: e.retryAfter, Err: e}
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", targets.ErrForbidden, e)
	case e.status == http.StatusNotFound && e.says("SubscriptionNotFound", "InvalidSubscriptionId"):
		return fmt.Errorf("%w: %w", targets.ErrForbidden, e)
	case e.status == http.StatusNotFound:
		return reasoned(ScaleSetNotFound, fmt.Errorf("%w: %w", targets.ErrTargetNotFound, e))
	}
	return fmt.Errorf("%w: %w", targets.ErrTransient, e)
}

// Quotas and shortages, by their codes and words.
var (
	sayingQuota    = []string{"QuotaExceeded", "exceeding approved", "quota limit", "SpotQuotaExceeded"}
	sayingShortage = []string{
		"AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest",
		"SkuNotAvailable", "VMStartTimedOut", "OutOfCapacity",
	}
)

// writeError puts an error of a change into one of the classes of package targets,
// and says so where it leaves open what became of it.
func writeError(err error, s *scaleSet) error {
	if err == nil {
		return nil
	}
	if targets.Classed(err) {
		return err
	}
	if token, ok := errors.AsType[*tokenError](err); ok {
		return tokenFailure(token)
	}
	answer := answerOf(err)
	if answer == nil {
		return targets.Undelivered(plain(err))
	}
	held := func(reason string) error {
		return &targets.HeldError{Hold: policy.Hold{Reason: reason, Message: answer.Error()}}
	}
	switch {
	case answer.status == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", targets.ErrConflict, answer)
	case answer.says("marked for deletion"):
		return reasoned(ScaleSetDeleting, fmt.Errorf("%w: %w", targets.ErrTargetNotFound, answer))
	case answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError && answer.says(sayingQuota...):
		return held(QuotaExceeded)
	case answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError && answer.says(sayingShortage...):
		return held(answer.code)
	case answer.says("singlePlacementGroup", "maximum number of VM", "exceeds the maximum"):
		return &targets.OutOfRangeError{Min: new(int32), Max: s.highest(), Err: answer}
	case answer.status == http.StatusConflict && answer.says("limit of 10 models"):
		return held("ModelLimitReached")
	case answer.status == http.StatusConflict && answer.says("OperationNotAllowed"):
		return held(OperationNotAllowed)
	case answer.status == http.StatusConflict:
		return held(ConcurrentRequest)
	case answer.status >= http.StatusInternalServerError && (answer.status != http.StatusServiceUnavailable || answer.retryAfter == 0):
		// A server's own error may come after the change was taken.
		return fmt.Errorf("%w: %w: %w", targets.ErrUnknownOutcome, targets.ErrTransient, answer)
	}
	return answer.classify()
}
