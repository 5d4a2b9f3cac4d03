package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// How often calls are tried, and the longest wait in between: not often, since the next
// round reads anew anyway.
const (
	readAttempts  = 2
	writeAttempts = 3
	longestRetry  = time.Second
)

// callLimit keeps all attempts of all calls of one service within the limits of the
// account and region.
type callLimit struct {
	limiter *cloud.Limiter
	// service is where and what it is.
	service string
}

// newCallLimit returns that of a service at an endpoint. Which account the credentials
// are of is not known before the first reading: until then the calls count with those of
// the fleets that take their credentials from the same place.
func newCallLimit(c *Config, service, endpoint string, options Options) *callLimit {
	l := &callLimit{service: fmt.Sprintf("awsasg %s %q", service, strings.TrimSuffix(endpoint, "/"))}
	caller := fmt.Sprintf("%s %q", l.service, []string{c.Region, c.Profile, c.CredentialsFile, c.RoleARN})
	l.limiter = options.Accounts.Limiter(caller, cloud.Limits{Calls: map[cloud.Class]cloud.Limit{
		cloud.Read: cloud.Saved(c.ReadsPerSecond, burstSeconds), cloud.Write: cloud.Saved(c.WritesPerSecond, burstSeconds),
	}}, options.Meter)
	return l
}

// countWith names the account and region that the calls are to.
func (l *callLimit) countWith(owner arn.ARN) {
	l.limiter.CountWith(fmt.Sprintf("%s %s:%s:%s", l.service, owner.Partition, owner.Region, owner.AccountID))
}

// middleware puts the limit behind the SDK's retries, so that each attempt counts.
func (l *callLimit) middleware(stack *middleware.Stack) error {
	if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("HpadExpectXML", expectXML), middleware.After); err != nil {
		return err
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HpadLimit", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
		operation := awsmiddleware.GetOperationName(ctx)
		class := cloud.Write
		if strings.HasPrefix(operation, "Describe") {
			class = cloud.Read
		}
		err = l.limiter.Do(ctx, cloud.Call{Operation: operation, Class: class}, func(ctx context.Context) error {
			var failure error
			out, metadata, failure = next.HandleFinalize(ctx, in)
			return throttled(failure)
		})
		return out, metadata, err
	}), "Retry", middleware.After)
}

// newRetryer returns how reads are tried again: not after being throttled, which the
// limiter heeds.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = readAttempts, longestRetry
		o.Retryables = append([]retry.IsErrorRetryable{neverThrottled}, retry.DefaultRetryables...)
	})
}

// newWriteRetryer returns how writes are tried again: only after an error that proves
// that nothing was changed.
func newWriteRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = writeAttempts, longestRetry
		o.Retryables = []retry.IsErrorRetryable{
			neverThrottled,
			retry.RetryableErrorCode{Codes: map[string]struct{}{codeContention: {}, codeContentionFault: {}}},
		}
	})
}

var neverThrottled = retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
	if errors.Is(err, targets.ErrThrottled) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
})

// expectXML rejects responses that are none of AWS's, as a proxy's page: the SDK does not
// look at those of operations that return nothing.
func expectXML(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if response, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil && response.StatusCode < http.StatusMultipleChoices {
		if kind := response.Header.Get("Content-Type"); kind != "" && !strings.Contains(kind, "xml") {
			return out, metadata, fmt.Errorf("the answer is %s, not XML: is there a proxy before the endpoint", kind)
		}
	}
	return out, metadata, err
}
