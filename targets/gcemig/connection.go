package gcemig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/credentials/impersonate"
	"cloud.google.com/go/auth/httptransport"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// userAgent tells the platform who calls.
const userAgent = "hpad"

// tokenScope is what tokens are asked for: what they allow is up to the roles of
// their account.
const tokenScope = "https://www.googleapis.com/auth/cloud-platform"

// connection makes clients with the credentials as they are now. It is safe for
// concurrent use.
type connection struct {
	config *Config

	mu      sync.Mutex
	current *client
	// made is the stamp of the credentials file that current was made from, if any.
	made []httpclient.Stamp
}

// client is what calls are made with.
type client struct {
	service *compute.Service
	// tokens are those of the credentials alone.
	tokens    *http.Transport
	transport *http.Transport
	// quotaProject is the project whose limits count the calls, by the credentials; empty
	// where they do not say.
	quotaProject string
}

func newConnection(c *Config) *connection { return &connection{config: c} }

// credentialsFile is the file that credentials come from, if any.
func (c *connection) credentialsFile() string {
	return cmp.Or(c.config.CredentialsFile, os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"))
}

// client answers one made from the credentials as they are now. Where a changed
// file is of no use, as one half written, the one there is goes on.
func (c *connection) client() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := httpclient.StampFiles(c.credentialsFile())
	if c.current != nil && slices.Equal(now, c.made) {
		return c.current, nil
	}
	next, err := c.newClient()
	switch {
	case err == nil:
		c.drop()
		c.current, c.made = next, now
	case c.current == nil:
		return nil, fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	return c.current, nil
}

// forget gives up a client whose token was refused, so that the next call asks for
// another one.
func (c *connection) forget(refused *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == refused {
		c.drop()
	}
}

// close gives up the connections nobody uses.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop gives up the current client. The caller holds the lock.
func (c *connection) drop() {
	if c.current == nil {
		return
	}
	c.current.transport.CloseIdleConnections()
	c.current.tokens.CloseIdleConnections()
	c.current = nil
}

// newClient builds a client. It connects to nobody, but for the question whether
// this is a machine of Google's, where there are no other credentials.
func (c *connection) newClient() (*client, error) {
	made := &client{tokens: c.newTransport(), transport: c.newTransport()}
	tokens := &http.Client{Transport: made.tokens, Timeout: c.config.Timeout}
	found, err := c.credentials(tokens)
	if err != nil {
		return nil, err
	}
	if made.quotaProject, err = found.QuotaProjectID(context.Background()); err != nil {
		return nil, fmt.Errorf("find the quota project of the credentials: %w", err)
	}
	headers := http.Header{}
	if c.config.QuotaProject != "" {
		headers.Set("X-Goog-User-Project", c.config.QuotaProject)
	}
	authorized, err := httptransport.NewClient(&httptransport.Options{
		Credentials: found, BaseRoundTripper: made.transport, Headers: headers,
		UniverseDomain: c.config.UniverseDomain, DisableTelemetry: true,
	})
	if err != nil {
		return nil, fmt.Errorf("use credentials: %w", err)
	}
	endpoint := strings.TrimSuffix(c.config.Endpoint, "/") + "/"
	made.service, err = compute.NewService(context.Background(), option.WithHTTPClient(authorized), option.WithEndpoint(endpoint))
	if err != nil {
		return nil, fmt.Errorf("use endpoint %q: %w", c.config.Endpoint, err)
	}
	made.service.UserAgent = userAgent
	return made, nil
}

func (c *connection) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: c.config.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: c.config.Timeout,
		ForceAttemptHTTP2:   true,
		MaxConnsPerHost:     c.config.MaxConnections,
		MaxIdleConnsPerHost: c.config.MaxConnections,
		IdleConnTimeout:     90 * time.Second,
	}
}

// credentials finds those of the configuration, or Application Default Credentials,
// and those of the account to act as.
func (c *connection) credentials(tokens *http.Client) (*auth.Credentials, error) {
	options := &credentials.DetectOptions{Scopes: []string{tokenScope}, Client: tokens}
	var found *auth.Credentials
	var err error
	if c.config.CredentialsFile == "" {
		found, err = credentials.DetectDefault(options)
	} else {
		found, err = fileCredentials(c.config.CredentialsFile, options)
	}
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	if path := c.credentialsFile(); path != "" { // others have to be asked over the network
		domain, err := found.UniverseDomain(context.Background())
		if err == nil && domain != c.config.UniverseDomain {
			return nil, fmt.Errorf("credentials in %q are of universe domain %q, not of %q: set universe_domain, or take other credentials", path, domain, c.config.UniverseDomain)
		}
	}
	if c.config.Impersonate == "" {
		return found, nil
	}
	if found, err = c.actAs(found, tokens, options.Scopes); err != nil {
		return nil, fmt.Errorf("act as %q: %w", c.config.Impersonate, err)
	}
	return found, nil
}

// actAs answers the credentials of the account to act as.
func (c *connection) actAs(own *auth.Credentials, tokens *http.Client, scopes []string) (*auth.Credentials, error) {
	asking, err := httptransport.NewClient(&httptransport.Options{
		Credentials: own, BaseRoundTripper: &refusals{tokens.Transport}, UniverseDomain: c.config.UniverseDomain, DisableTelemetry: true,
	})
	if err != nil {
		return nil, err
	}
	asking.Timeout = tokens.Timeout
	return impersonate.NewCredentials(&impersonate.CredentialsOptions{
		TargetPrincipal: c.config.Impersonate, Scopes: scopes, Credentials: own, Client: asking, UniverseDomain: c.config.UniverseDomain,
	})
}

// refusals makes answers that are no tokens the errors that they are, where the token
// of another account is asked for.
type refusals struct{ http.RoundTripper }

// longestRefusal is how much of an answer is read.
const longestRefusal = 64 << 10

// RoundTrip answers a *tokenError in place of an answer that says no.
func (r *refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	refused := &tokenError{status: response.StatusCode}
	var answer struct{ Error struct{ Message string } }
	// What is no such answer has no message.
	if json.NewDecoder(io.LimitReader(response.Body, longestRefusal)).Decode(&answer) == nil {
		refused.message = answer.Error.Message
	}
	return nil, refused
}

// fileCredentials reads credentials of whichever type the file says.
func fileCredentials(path string, options *credentials.DetectOptions) (*auth.Credentials, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read credentials_file: %w", err)
	}
	var kind struct{ Type credentials.CredType }
	if err := json.Unmarshal(text, &kind); err != nil {
		// The error may quote what is in the file.
		return nil, fmt.Errorf("credentials_file %q is not the JSON of credentials", path)
	}
	if kind.Type == "" {
		return nil, fmt.Errorf(`credentials_file %q does not say the "type" of its credentials`, path)
	}
	found, err := credentials.NewCredentialsFromJSON(kind.Type, text, options)
	if err != nil {
		return nil, fmt.Errorf("use credentials_file %q: %w", path, err)
	}
	return found, nil
}

// errTimeout is the cause of a call that took longer than the configured timeout.
var errTimeout = errors.New("no answer within the fleet's timeout")
