package gcemig

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"google.golang.org/api/googleapi"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// The reasons for holds and notices, and for targets that cannot be read or scaled.
const (
	GroupNotReady = "GroupNotReady" // the group is being created, changed or deleted
	GroupInUse    = "GroupInUse"    // a different change to the group is in progress
	ChangeRefused = "ChangeRefused" // the platform's rules for the group forbid the change
	OutOfCapacity = "OutOfCapacity" // the platform has no more machines of the requested type
)

func answerOf(err error) *cloud.ResponseError {
	sentences, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		return nil
	}
	answer := newAnswer(sentences.Code, "", sentences.Message)
	if len(sentences.Errors) > 0 {
		answer.Code = sentences.Errors[0].Reason
		answer.Message = cmp.Or(answer.Message, sentences.Errors[0].Message)
	}
	answer.Message, answer.RetryAfter = cmp.Or(answer.Message, sentences.Body), targets.RetryAfter(sentences.Header)
	return answer
}

func newAnswer(status int, reason, message string) *cloud.ResponseError {
	return &cloud.ResponseError{Platform: "compute engine", Status: status, Code: reason, Message: message}
}

// The rules for error responses. Only the message distinguishes a call quota from a machine
// quota.
var (
	throttles = []cloud.Rule{
		{Status: http.StatusForbidden, Code: "rateLimitExceeded", Class: targets.ErrThrottled},
		{Status: http.StatusForbidden, Code: "userRateLimitExceeded", Class: targets.ErrThrottled},
		{Status: http.StatusForbidden, Code: "dailyLimitExceeded", Class: targets.ErrThrottled},
		{Status: http.StatusForbidden, Code: codeQuota, Words: []string{"quota metric", "per minute", "quota group"}, Class: targets.ErrThrottled},
	}
	readRules = slices.Concat(throttles, cloud.StatusRules(cloud.GroupNotFound))
	// changeRules contains the rules for responses that reveal the outcome of a change.
	changeRules = slices.Concat(throttles, []cloud.Rule{
		{Code: codeQuota, Class: targets.ErrOutOfRange, Reason: cloud.QuotaExceeded},
	}, cloud.StatusRules(cloud.GroupNotFound), []cloud.Rule{
		{Words: []string{"autoscale"}, Class: targets.ErrHeld, Reason: cloud.NativeAutoscaler}, // 412 for a group that has an autoscaler
		{Status: http.StatusPreconditionFailed, Words: []string{"fingerprint"}, Class: targets.ErrConflict},
		{Status: http.StatusPreconditionFailed, Class: targets.ErrHeld, Reason: ChangeRefused},
		{Code: "resourceNotReady", Class: targets.ErrHeld, Reason: GroupNotReady},
		{Status: http.StatusConflict, Class: targets.ErrHeld, Reason: GroupInUse},
		{Code: "resourceInUse", Class: targets.ErrHeld, Reason: GroupInUse},
		{Code: "resourceInUseByAnotherResource", Class: targets.ErrHeld, Reason: GroupInUse},
		{Status: http.StatusBadRequest, Words: []string{"'size'", "targetsize", "target size"}, Class: targets.ErrOutOfRange},
	})
	// errorClasses classifies Compute Engine's errors. A change may have been accepted before a
	// server error.
	errorClasses = cloud.Errors{
		Response: answerOf, Read: readRules,
		Write: slices.Concat(changeRules, []cloud.Rule{{Status: 5, Class: targets.ErrUnknownOutcome}}),
	}
)

const codeQuota = "quotaExceeded"

// launchReason converts the error code of a machine that does not start to a condition reason.
func launchReason(code string) string {
	answer := &cloud.ResponseError{Message: code}
	switch {
	case answer.Mentions("QUOTA", "LIMIT_EXCEEDED"):
		return cloud.QuotaExceeded
	case answer.Mentions("POOL_EXHAUSTED", "STOCKOUT", "RESOURCE_NOT_AVAILABLE", "IP_SPACE_EXHAUSTED"):
		return OutOfCapacity
	}
	return cloud.LaunchFailed
}
