package nomad

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/secret"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// connection caches a client for one agent, and the environment variables from startup. It is
// safe for concurrent use.
type connection struct {
	cloud.Connection[client]
	config      *Config
	environment *api.Config
}

type client struct {
	api       *api.Client
	transport *apiTransport
}

func newConnection(c *Config, lease targets.Lease) (*connection, error) {
	made := &connection{config: c, environment: api.DefaultConfig()}
	made.Make = func(context.Context) (*client, error) { return newClient(c, made.environment, lease) }
	made.Files = made.files
	made.Drop = func(old *client) { old.transport.CloseIdleConnections() }
	_, err := made.Client(context.Background())
	return made, err
}

func (c *connection) files() []string {
	settings := tlsSettings(c.config.TLS, c.environment)
	paths := []string{settings.CACert, settings.CAPath, settings.ClientCert, settings.ClientKey}
	if c.config.BasicAuth != nil {
		paths = append(paths, c.config.BasicAuth.PasswordFile)
	}
	return paths
}

func newClient(c *Config, environment *api.Config, lease targets.Lease) (*client, error) {
	transport := cloud.NewTransport(c.Timeout, c.MaxConnections)
	transport.ForceAttemptHTTP2 = false
	transport.DisableCompression = true // apiTransport handles compression
	transport.ReadBufferSize = 32 << 10 // lists contain megabytes, and each read is a system call
	address, err := url.Parse(c.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	if address.Scheme == "unix" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: c.Timeout}).DialContext(ctx, "unix", address.Path)
		}
	}
	httpClient := &http.Client{Transport: transport}
	if err := configureTLS(httpClient, tlsSettings(c.TLS, environment)); err != nil {
		return nil, err
	}
	auth, err := basicAuth(c.BasicAuth, environment.HttpAuth)
	if err != nil {
		return nil, err
	}
	sending := &apiTransport{Transport: transport, local: local(address)}
	httpClient.Transport = lease.Transport(sending)
	made, err := api.NewClient(&api.Config{Address: c.Address, HttpClient: httpClient, HttpAuth: auth})
	if err != nil {
		return nil, err
	}
	return &client{api: made, transport: sending}, nil
}

// tlsSettings returns the configured settings. Missing settings come from the environment.
func tlsSettings(given httpclient.TLS, environment *api.Config) *api.TLSConfig {
	settings := environment.TLSConfig.Copy()
	settings.CACert = cmp.Or(given.CAFile, settings.CACert)
	if given.CertFile != "" {
		settings.ClientCert, settings.ClientKey = given.CertFile, given.KeyFile
	}
	settings.TLSServerName = cmp.Or(given.ServerName, settings.TLSServerName)
	settings.Insecure = given.InsecureSkipVerify || settings.Insecure
	return settings
}

func configureTLS(client *http.Client, settings *api.TLSConfig) error {
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		return fmt.Errorf("set up TLS: unexpected transport %T", client.Transport)
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := api.ConfigureTLS(client, settings); err != nil {
		return fmt.Errorf("set up TLS with ca_file %q, cert_file %q and key_file %q: %w", settings.CACert, settings.ClientCert, settings.ClientKey, err)
	}
	return nil
}

func basicAuth(given *httpclient.BasicAuth, environment *api.HttpBasicAuth) (*api.HttpBasicAuth, error) {
	if given == nil {
		return environment, nil
	}
	password := ""
	if given.PasswordFile != "" {
		var err error
		if password, err = secret.Read(given.PasswordFile); err != nil {
			return nil, fmt.Errorf("read basic_auth.password_file: %w", err)
		}
	}
	return &api.HttpBasicAuth{Username: given.Username, Password: password}, nil
}

// currentToken returns the ACL token, reading it from the token file if one is configured; "" if
// there is none.
func (c *connection) currentToken() (string, error) {
	if c.config.TokenFile == "" {
		return c.environment.SecretID, nil
	}
	token, err := secret.Read(c.config.TokenFile)
	switch {
	case err != nil:
		return "", fmt.Errorf("read token_file: %w", err)
	case token == "":
		return "", fmt.Errorf("token_file %q is empty", c.config.TokenFile)
	}
	return token, nil
}

type session struct {
	client *api.Client
	config *Config
	token  string
}

func (c *connection) session() (*session, error) {
	token, err := c.currentToken()
	if err != nil {
		return nil, err
	}
	// If changed files are invalid, the previous client is still used, because a key may not match
	// its certificate yet.
	current, err := c.Client(context.Background())
	if current == nil {
		return nil, err
	}
	return &session{client: current.api, config: c.config, token: token}, nil
}

// consistent returns a session that reads from the leader.
func (s *session) consistent() *session {
	leader, config := *s, *s.config
	config.Stale, leader.config = false, &config
	return &leader
}

// get reads one path of the API into out. Params may be nil.
func (s *session) get(ctx context.Context, at scope, path string, params map[string]string, filter string, out any) error {
	_, err := s.fetch(ctx, at, list{path: path, params: params, filter: filter}, func(body io.Reader) error { return json.NewDecoder(body).Decode(out) })
	return err
}

func (s *session) scale(ctx context.Context, at scope, job string, request *api.ScalingRequest) error {
	ctx, cancel := targets.WithCallTimeout(ctx, s.config.Timeout)
	defer cancel()
	options := (&api.WriteOptions{Region: at.region, Namespace: at.namespace, AuthToken: s.token}).WithContext(ctx)
	_, _, err := s.client.Jobs().ScaleWithRequest(job, request, options)
	return explain(ctx, err)
}

// explain removes the URL query, which may contain many job IDs, from the error of a call. If the
// fleet's timeout has passed, it returns an ErrTimeout instead.
func explain(ctx context.Context, err error) error {
	err = targets.AsTimeout(ctx, err)
	var failed *url.Error
	if errors.As(err, &failed) {
		short := *failed
		short.URL, _, _ = strings.Cut(failed.URL, "?")
		return &short
	}
	return err
}

// apiTransport sends the requests of Nomad's client. It evaluates the paging headers and the
// Retry-After header, which the client drops.
type apiTransport struct {
	*http.Transport
	// local reports whether the agent is on this host. Compression then costs more than it saves.
	local bool
}

func local(address *url.URL) bool {
	ip := net.ParseIP(address.Hostname())
	return address.Scheme == "unix" || address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// RoundTrip sends a request. It stores the response headers in the *headers of the request's
// context, if there is one.
func (t *apiTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.local {
		request = request.Clone(request.Context())
		request.Header.Del("Accept-Encoding")
	}
	response, err := t.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := throttled(response); err != nil {
		return nil, err
	}
	if h, ok := request.Context().Value(headersKey{}).(*headers); ok {
		*h = headersOf(response.Header)
	}
	return response, nil
}

const longestRejection = 4 << 10

// throttled closes a 429 response with a Retry-After header, and returns a
// [targets.ThrottledError]. It returns nil for any other response. Only proxies send the header.
func throttled(response *http.Response) error {
	if response.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	wait := targets.RetryAfter(response.Header)
	if wait == 0 {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRejection)) // an incomplete text is enough
	return &targets.ThrottledError{RetryAfter: wait, Err: &responseError{status: response.StatusCode, body: string(body)}}
}

// Agent is a connection to an agent for uses other than a fleet. It is safe for concurrent use.
type Agent struct{ connection *connection }

// NewAgent returns an Agent, which connects on first use. It uses only the connection settings of
// the configuration.
func NewAgent(c *Config) (*Agent, error) {
	made, err := newConnection(c, nil)
	return &Agent{made}, err
}

// Client returns a client and an ACL token for the next call; the token is "" if none is
// configured.
func (a *Agent) Client() (*api.Client, string, error) {
	s, err := a.connection.session()
	if err != nil {
		return nil, "", err
	}
	return s.client, s.token, nil
}

// Close closes idle connections.
func (a *Agent) Close() { a.connection.Close() }
