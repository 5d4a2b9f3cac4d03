package awslogin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/hpad/hpad/targets/cloud"
)

// sessionName is the name of an assumed role's session in AWS's logs.
const sessionName = "hpad"

// credentialsTime is the additional time for calls that also get credentials.
const credentialsTime = 5 * time.Second

// maxConnections limits the connections to one service.
const maxConnections = 10

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

// Load returns the configuration for clients of AWS, with credentials whose errors are
// cloud.TokenErrors, and the configuration's HTTP client. timeout limits each call, and an STS endpoint
// of "" means the default. Load may connect to the instance's metadata service. It
// is no method, so that the linker omits the SDK if a build does not call it.
func Load(ctx context.Context, l *Login, timeout time.Duration, stsEndpoint string) (aws.Config, *http.Client, error) {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newHTTPClient(timeout)),
		// hpad retries in the next round.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithAppID("hpad"),
		config.WithLogger(logging.Nop{}),
	}
	if l.Region != "" {
		options = append(options, config.WithRegion(l.Region))
	} else {
		options = append(options, config.WithEC2IMDSRegion())
	}
	if l.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(l.Profile))
	}
	if l.CredentialsFile != "" {
		options = append(options, config.WithSharedCredentialsFiles([]string{l.CredentialsFile}))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	var own *http.Client
	if err == nil {
		own, err = client(loaded.HTTPClient, timeout)
	}
	switch {
	case err != nil && l.Region == "":
		return loaded, nil, fmt.Errorf("load the AWS configuration: %w; set region unless hpad runs on EC2", err)
	case err != nil:
		return loaded, nil, fmt.Errorf("load the AWS configuration: %w", err)
	case loaded.Region == "":
		return loaded, nil, errors.New("no region is configured: set region in the same table, or AWS_REGION")
	}
	loaded.HTTPClient = own
	if l.RoleARN != "" {
		loaded.Credentials = aws.NewCredentialsCache(role(loaded, l, stsEndpoint))
	}
	loaded.Credentials = &provider{inner: loaded.Credentials}
	return loaded, own, nil
}

func role(loaded aws.Config, l *Login, stsEndpoint string) aws.CredentialsProvider {
	return stscreds.NewAssumeRoleProvider(NewSTS(loaded, stsEndpoint), l.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = sessionName
		if l.ExternalID != "" {
			o.ExternalID = &l.ExternalID
		}
	})
}

// NewSTS returns a client of STS at an endpoint; "" means the default.
func NewSTS(loaded aws.Config, endpoint string) *sts.Client {
	return sts.NewFromConfig(loaded, func(o *sts.Options) { SetEndpoint(&o.BaseEndpoint, endpoint) })
}

// SetEndpoint sets the base endpoint of a service unless the configured endpoint is "".
func SetEndpoint(base **string, configured string) {
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
