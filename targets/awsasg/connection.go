package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/awslogin"
)

type service struct{ *cloud.Limiter }

func newService(c *Config, env targets.Env) service {
	s := service{cloud.NewLimiter(cloud.Limits{Calls: map[cloud.Class]cloud.Limit{
		cloud.Read: cloud.Saved(c.ReadsPerSecond, burstSeconds), cloud.Write: cloud.Saved(c.WritesPerSecond, burstSeconds),
	}}, env.Meter)}
	s.Timeout, s.Errors, s.Lease = c.Timeout, &errorClasses, env.Lease
	return s
}

func (s service) middleware(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HpadLimit", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
		operation := awsmiddleware.GetOperationName(ctx)
		err = s.Do(ctx, cloud.Call{Operation: operation, Class: classOf(operation)}, func(ctx context.Context) (err error) {
			out, metadata, err = next.HandleFinalize(ctx, in)
			response, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response)
			if ok && err == nil && !strings.Contains(response.Header.Get("Content-Type"), "xml") {
				// The SDK does not check the responses of operations without a result.
				err = fmt.Errorf("the response type is %q, not XML; check for a proxy in front of the endpoint", response.Header.Get("Content-Type"))
			}
			return err
		})
		return out, metadata, err
	}), "Retry", middleware.After)
}

func classOf(operation string) cloud.Class {
	if strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get") {
		return cloud.Read
	}
	return cloud.Write
}

// called classifies the error of an operation and removes the SDK's prefix.
func called(ctx context.Context, err error) error {
	operation, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return err
	}
	err = errorClasses.Classify(ctx, classOf(operation.OperationName), operation.Err)
	action := strings.ReplaceAll(strings.ToLower(operation.ServiceID), " ", "") + ":" + operation.OperationName
	return fmt.Errorf("%s: %w", action, err)
}

type session struct {
	groups    *autoscaling.Client
	instances instanceLister
	identity  *sts.Client
	client    *http.Client
	region    string
}

// instanceLister calls DescribeInstances of EC2. It hides the client's type, so that the linker
// omits the client's 700 other operations, which are 20 MB.
type instanceLister func(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)

// DescribeInstances implements ec2.DescribeInstancesAPIClient.
func (l instanceLister) DescribeInstances(ctx context.Context, input *ec2.DescribeInstancesInput, options ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	return l(ctx, input, options...)
}

func newSession(ctx context.Context, c *Config, groups, instances service) (*session, error) {
	loaded, client, err := awslogin.Load(ctx, &c.Login, c.Timeout, c.Endpoints.STS)
	if err != nil {
		class := targets.ErrForbidden
		if ctx.Err() != nil {
			class = targets.ErrTransient
		}
		return nil, fmt.Errorf("%w: %w", class, err)
	}
	return &session{
		groups: autoscaling.NewFromConfig(loaded, func(o *autoscaling.Options) {
			awslogin.SetEndpoint(&o.BaseEndpoint, c.Endpoints.AutoScaling)
			o.APIOptions = append(o.APIOptions, groups.middleware)
		}),
		instances: ec2.NewFromConfig(loaded, func(o *ec2.Options) {
			awslogin.SetEndpoint(&o.BaseEndpoint, c.Endpoints.EC2)
			o.APIOptions = append(o.APIOptions, instances.middleware)
		}).DescribeInstances,
		identity: awslogin.NewSTS(loaded, c.Endpoints.STS),
		client:   client,
		region:   loaded.Region,
	}, nil
}
