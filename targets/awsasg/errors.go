package awsasg

import (
	"errors"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// The reasons for holds, and for targets that cannot be read or scaled.
const (
	// GroupDeleting: the group is being deleted.
	GroupDeleting = "GroupDeleting"
	// RefreshInProgress: the group's instances are being replaced.
	RefreshInProgress = "RefreshInProgress"
	// ScalingActivityInProgress: AWS rejects changes during an activity.
	ScalingActivityInProgress = "ScalingActivityInProgress"
	// WeightedCapacity: the group's capacity is a sum of instance weights.
	WeightedCapacity = "WeightedCapacity"
	// CapacityType: the group's capacity is measured in vCPUs or memory.
	CapacityType = "CapacityType"
)

// The codes and texts by which AWS's errors are recognized.
const (
	codeValidation      = "ValidationError"
	codeActivity        = "ScalingActivityInProgress"
	codeActivityFault   = "ScalingActivityInProgressFault"
	codeContention      = "ResourceContention"
	codeContentionFault = "ResourceContentionFault"
	codeInUse           = "ResourceInUse"
	codeInUseFault      = "ResourceInUseFault"

	sayingAboveMax   = "is above max value"
	sayingBelowMin   = "is below min value"
	sayingAtMin      = "violate group's min size"
	sayingNotFound   = "not found"
	sayingNoGroup    = "AutoScalingGroup name not found"
	sayingNoInstance = "No managed instance found"
)

// forbiddenCodes lists the error codes for missing permissions, and credentialCodes the error
// codes for rejected credentials.
var (
	forbiddenCodes  = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "OptInRequired", "Blocked"}
	credentialCodes = []string{
		"AuthFailure", "ExpiredToken", "ExpiredTokenException", "RequestExpired", "UnrecognizedClient",
		"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"IncompleteSignature", "MissingAuthenticationToken",
	}
)

var errorClasses = cloud.Errors{
	Response: answerOf,
	Read:     accessRules(),
	Write: slices.Concat([]cloud.Rule{
		{Code: codeActivity, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeActivityFault, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeInUse, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeInUseFault, Class: targets.ErrHeld, Reason: ScalingActivityInProgress},
		{Code: codeContention, Class: targets.ErrTransient},
		{Code: codeContentionFault, Class: targets.ErrTransient},
		{Code: codeValidation, Words: []string{sayingAboveMax, sayingBelowMin, sayingAtMin}, Class: targets.ErrOutOfRange},
		{Code: codeValidation, Words: []string{sayingNoGroup}, Class: targets.ErrTargetNotFound, Reason: cloud.GroupNotFound},
		{Code: codeValidation, Words: []string{sayingNoInstance}, Class: targets.ErrTransient},
		{Code: codeValidation, Words: []string{sayingNotFound}, Class: targets.ErrTargetNotFound, Reason: cloud.GroupNotFound},
		{Code: codeValidation, Class: targets.ErrTransient},
	}, accessRules(), []cloud.Rule{{Status: 5, Class: targets.ErrUnknownOutcome}}),
}

func accessRules() []cloud.Rule {
	rules := []cloud.Rule{{Status: http.StatusTooManyRequests, Class: targets.ErrThrottled}}
	for code := range retry.DefaultThrottleErrorCodes {
		rules = append(rules, cloud.Rule{Code: code, Class: targets.ErrThrottled})
	}
	for _, code := range forbiddenCodes {
		rules = append(rules, cloud.Rule{Code: code, Class: targets.ErrForbidden})
	}
	for _, code := range credentialCodes {
		rules = append(rules, cloud.Rule{Code: code, Class: cloud.ErrCredentials})
	}
	return rules
}

// answerOf returns the AWS response that an error contains, including the request id, or nil.
func answerOf(err error) *cloud.ResponseError {
	sentences, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	answer := &cloud.ResponseError{Platform: "aws", Code: sentences.ErrorCode(), Message: sentences.ErrorMessage()}
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && response.Response != nil {
		answer.Status, answer.RetryAfter = response.HTTPStatusCode(), targets.RetryAfter(response.Response.Header)
		if id := response.ServiceRequestID(); id != "" {
			answer.Message += " (request " + id + ")"
		}
	}
	return answer
}
