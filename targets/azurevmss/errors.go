package azurevmss

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// The reasons for holds, and for targets that cannot be read or scaled.
const (
	ScaleSetNotFound    = "ScaleSetNotFound"
	ScaleSetUpdating    = "ScaleSetUpdating"
	ScaleSetDeleting    = "ScaleSetDeleting"
	ConcurrentRequest   = "ConcurrentRequest"   // another request for the set is in progress
	OperationNotAllowed = "OperationNotAllowed" // Azure currently rejects the change; the message is Azure's
	NoProfile           = "NoMachineProfile"    // a Flexible set without a machine profile cannot grow
	ProvisioningFailed  = "ProvisioningFailed"  // Azure does not return a specific code
)

type platformError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details []platformError `json:"details"`
}

// innermost returns the most specific detail of an error.
func (e platformError) innermost() platformError {
	for _, detail := range e.Details {
		if detail.Code != "" {
			return detail.innermost()
		}
	}
	return e
}

func newAnswer(status int, code, message string) *platform.ResponseError {
	return &platform.ResponseError{Platform: "azure", Status: status, Code: code, Message: message}
}

func answerOf(err error) *platform.ResponseError {
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

// The rules for error responses.
var (
	readRules = slices.Concat([]platform.Rule{
		{Status: http.StatusServiceUnavailable, Waits: true, Class: targets.ErrThrottled},
		{Status: http.StatusNotFound, Words: []string{"SubscriptionNotFound", "InvalidSubscriptionId"}, Class: targets.ErrForbidden},
	}, platform.StatusRules(ScaleSetNotFound))
	writeRules = slices.Concat([]platform.Rule{
		{Status: http.StatusPreconditionFailed, Class: targets.ErrConflict},
		{Words: []string{"marked for deletion"}, Class: targets.ErrTargetNotFound, Reason: ScaleSetDeleting},
		{Status: 4, Words: sayingQuota, Class: targets.ErrHeld, Reason: platform.QuotaExceeded},
		{Status: 4, Words: sayingShortage, Class: targets.ErrHeld},
		{Words: []string{"singlePlacementGroup", "maximum number of VM", "exceeds the maximum"}, Class: targets.ErrOutOfRange},
		{Status: http.StatusConflict, Words: []string{"limit of 10 models"}, Class: targets.ErrHeld, Reason: "ModelLimitReached"},
		{Status: http.StatusConflict, Words: []string{OperationNotAllowed}, Class: targets.ErrHeld, Reason: OperationNotAllowed},
		{Status: http.StatusConflict, Class: targets.ErrHeld, Reason: ConcurrentRequest},
	}, readRules, []platform.Rule{
		{Status: 5, Class: targets.ErrUnknownOutcome}, // a change may have been accepted before a server error
	})
)

var errorClasses = platform.Errors{Response: answerOf, Read: readRules, Write: writeRules}

// The codes and texts by which quota and capacity errors are recognized.
var (
	sayingQuota    = []string{"QuotaExceeded", "exceeding approved", "quota limit", "SpotQuotaExceeded"}
	sayingShortage = []string{
		"AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest",
		"SkuNotAvailable", "VMStartTimedOut", "OutOfCapacity",
	}
)

// codeWord matches a condition reason.
var codeWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

func shortage(code, message string) *policy.Notice {
	text := platform.OneLine(message)
	if text == "" {
		text = "Azure returned no reason"
	}
	reason := code
	if !codeWord.MatchString(code) {
		reason = ProvisioningFailed
	}
	if newAnswer(0, code, message).Mentions(sayingQuota...) {
		reason = platform.QuotaExceeded
	}
	if code != "" {
		text = code + ": " + text
	}
	return &policy.Notice{Condition: platform.InsufficientCapacity, Reason: reason, Message: text}
}
