package awsasg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// sessionName is the name of an assumed role's session in AWS's logs.
const sessionName = "hpad"

// credentialsTime is the additional time for calls that also get credentials.
const credentialsTime = 5 * time.Second

const maxConnections = 10

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

// newHTTPClient returns a client for the SDK. The SDK adds the CA certificates in AWS_CA_BUNDLE
// to it.
func newHTTPClient(timeout time.Duration) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(timeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 3*maxConnections, maxConnections, maxConnections
	})
}

// client returns a copy of the SDK's client whose connections can be closed.
func client(from aws.HTTPClient, timeout time.Duration) (*http.Client, error) {
	built, ok := from.(*awshttp.BuildableClient)
	if !ok {
		return nil, fmt.Errorf("the SDK has a client of type %T", from)
	}
	return &http.Client{
		Transport:     &bufferedBodies{Transport: built.GetTransport()},
		Timeout:       timeout + credentialsTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// bufferedBodies sends request bodies from memory. The SDK closes a request body when the
// response starts. If net/http has not yet read the whole body, it closes the connection
// during the response.
type bufferedBodies struct{ *http.Transport }

// RoundTrip sends a request with a small body.
func (t *bufferedBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.Transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, err
	}
	whole := r.Clone(r.Context())
	whole.Body = io.NopCloser(bytes.NewReader(body))
	return t.Transport.RoundTrip(whole)
}

func newSession(ctx context.Context, c *Config, groups, instances service) (*session, error) {
	loaded, client, err := load(ctx, c)
	if err != nil {
		return nil, err
	}
	return &session{
		groups: autoscaling.NewFromConfig(loaded, func(o *autoscaling.Options) {
			endpoint(&o.BaseEndpoint, c.Endpoints.AutoScaling)
			o.APIOptions = append(o.APIOptions, groups.middleware)
		}),
		instances: ec2.NewFromConfig(loaded, func(o *ec2.Options) {
			endpoint(&o.BaseEndpoint, c.Endpoints.EC2)
			o.APIOptions = append(o.APIOptions, instances.middleware)
		}).DescribeInstances,
		identity: newSTS(loaded, c),
		client:   client,
		region:   loaded.Region,
	}, nil
}

func load(ctx context.Context, c *Config) (aws.Config, *http.Client, error) {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newHTTPClient(c.Timeout)),
		// hpad retries in the next round.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithAppID("hpad"),
		config.WithLogger(logging.Nop{}),
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	} else {
		options = append(options, config.WithEC2IMDSRegion())
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if c.CredentialsFile != "" {
		options = append(options, config.WithSharedCredentialsFiles([]string{c.CredentialsFile}))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	var own *http.Client
	if err == nil {
		own, err = client(loaded.HTTPClient, c.Timeout)
	}
	switch {
	case err != nil:
		class := targets.ErrForbidden
		if ctx.Err() != nil {
			class = targets.ErrTransient
		}
		return loaded, nil, fmt.Errorf("%w: load the AWS configuration: %w", class, err)
	case loaded.Region == "":
		return loaded, nil, fmt.Errorf("%w: no region is configured: set region in the fleet's table, or AWS_REGION", targets.ErrForbidden)
	}
	loaded.HTTPClient = own
	if c.RoleARN != "" {
		loaded.Credentials = aws.NewCredentialsCache(role(loaded, c))
	}
	loaded.Credentials = &provider{inner: loaded.Credentials}
	return loaded, own, nil
}

func role(loaded aws.Config, c *Config) aws.CredentialsProvider {
	return stscreds.NewAssumeRoleProvider(newSTS(loaded, c), c.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = sessionName
		if c.ExternalID != "" {
			o.ExternalID = &c.ExternalID
		}
	})
}

func newSTS(loaded aws.Config, c *Config) *sts.Client {
	return sts.NewFromConfig(loaded, func(o *sts.Options) { endpoint(&o.BaseEndpoint, c.Endpoints.STS) })
}

func endpoint(base **string, configured string) {
	if configured != "" {
		*base = &configured
	}
}

type provider struct{ inner aws.CredentialsProvider }

// Retrieve returns the credentials, or a cloud.TokenError.
func (p *provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := p.inner.Retrieve(ctx)
	if err != nil {
		return found, &cloud.TokenError{Err: err}
	}
	return found, nil
}
