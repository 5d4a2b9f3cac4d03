package nomad

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// connection is a client of one agent. It is safe for concurrent use.
type connection struct {
	client    *api.Client
	transport *http.Transport
	config    *Config
	// token is the one of the environment, where no file is named.
	token string
}

// newConnection builds a client; it does not connect.
func newConnection(c *Config) (*connection, error) {
	environment := api.DefaultConfig()
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: c.Timeout,
		MaxConnsPerHost:     c.MaxConnections,
		MaxIdleConnsPerHost: c.MaxConnections,
		IdleConnTimeout:     90 * time.Second,
	}
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
	if err := configureTLS(httpClient, c.TLS, environment.TLSConfig); err != nil {
		return nil, err
	}
	auth, err := basicAuth(c.BasicAuth, environment.HttpAuth)
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(&api.Config{Address: c.Address, HttpClient: httpClient, HttpAuth: auth})
	if err != nil {
		return nil, err
	}
	return &connection{client: client, transport: transport, config: c, token: environment.SecretID}, nil
}

// configureTLS sets up the client's side of TLS.
func configureTLS(client *http.Client, given TLS, environment *api.TLSConfig) error {
	settings := environment.Copy()
	settings.CACert = cmp.Or(given.CAFile, settings.CACert)
	if given.CertFile != "" {
		settings.ClientCert, settings.ClientKey = given.CertFile, given.KeyFile
	}
	settings.TLSServerName = cmp.Or(given.ServerName, settings.TLSServerName)
	settings.Insecure = given.InsecureSkipVerify || settings.Insecure
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

// basicAuth answers the credentials of HTTP basic authentication; nil for none.
func basicAuth(given *BasicAuth, environment *api.HttpBasicAuth) (*api.HttpBasicAuth, error) {
	if given == nil {
		return environment, nil
	}
	password := ""
	if given.PasswordFile != "" {
		text, err := os.ReadFile(given.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read basic_auth.password_file: %w", err)
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	return &api.HttpBasicAuth{Username: given.Username, Password: password}, nil
}

// currentToken answers the ACL token as its file has it now; "" for none.
func (c *connection) currentToken() (string, error) {
	if c.config.TokenFile == "" {
		return c.token, nil
	}
	text, err := os.ReadFile(c.config.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read token_file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token_file %q is empty", c.config.TokenFile)
	}
	return token, nil
}

// session is a connection with the token of one round.
type session struct {
	*connection
	token string
}

// session reads the token for the calls to come.
func (c *connection) session() (*session, error) {
	token, err := c.currentToken()
	if err != nil {
		return nil, err
	}
	return &session{connection: c, token: token}, nil
}

// get asks for one path of the API. Params may be nil.
func (s *session) get(ctx context.Context, at scope, path string, params map[string]string, filter string, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, errTimeout)
	defer cancel()
	options := (&api.QueryOptions{
		Region: at.region, Namespace: at.namespace, AllowStale: s.config.Stale,
		AuthToken: s.token, Params: params, Filter: filter,
	}).WithContext(ctx)
	_, err := s.client.Raw().Query(path, out, options)
	return s.explain(ctx, err)
}

// scale asks for a new count.
func (s *session) scale(ctx context.Context, at scope, job string, request *api.ScalingRequest) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, errTimeout)
	defer cancel()
	options := (&api.WriteOptions{Region: at.region, Namespace: at.namespace, AuthToken: s.token}).WithContext(ctx)
	_, _, err := s.client.Jobs().ScaleWithRequest(job, request, options)
	return s.explain(ctx, err)
}

// errTimeout is the cause of a call that took longer than the configured timeout.
var errTimeout = errors.New("no answer within the fleet's timeout")

// explain says why a context ended: the fleet's own timeout is no deadline of the
// caller.
func (s *session) explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("%w of %v", errTimeout, s.config.Timeout)
	}
	return err
}

// close gives up the connections nobody uses.
func (c *connection) close() { c.transport.CloseIdleConnections() }
