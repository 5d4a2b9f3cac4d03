package docker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/hpad/hpad/httpclient"
	"github.com/hpad/hpad/targets"
)

// idleConnections is how many connections are kept for the next call.
const idleConnections = 64

// Engine is one Docker engine. It is safe for concurrent use.
type Engine struct {
	config *Config
	// turn is held by whoever negotiates or replaces the client.
	turn chan struct{}
	// client talks the version that was negotiated last; nil where that has to be
	// done again.
	client atomic.Pointer[client.Client]
	// spare is the client before negotiation, and afterwards the same as client.
	// It belongs to the holder of turn, as its transport does.
	spare     *client.Client
	transport *http.Transport
}

// Connect answers an engine, which is reached when it is first asked. The
// configuration is defaulted and valid, and is not modified. An error names a
// file that cannot be used.
func Connect(config *Config) (*Engine, error) {
	e := &Engine{config: config, turn: make(chan struct{}, 1)}
	if err := e.replace(api.DefaultVersion); err != nil {
		return nil, fmt.Errorf("connect to docker at %s: %w", config.Host, err)
	}
	return e, nil
}

// replace builds a client that talks one version of the API, in place of the one
// there is; it does not connect. The caller holds the turn.
func (e *Engine) replace(version string) error {
	next, transport, err := newClient(e.config, version)
	if err != nil {
		return err
	}
	if e.transport != nil {
		e.transport.CloseIdleConnections()
	}
	e.spare, e.transport = next, transport
	return nil
}

func newClient(c *Config, version string) (*client.Client, *http.Transport, error) {
	transport := &http.Transport{
		TLSHandshakeTimeout: c.Timeout,
		MaxConnsPerHost:     c.connections(),
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     30 * time.Second,
	}
	options := []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithVersion(version),
		client.WithUserAgent("hpad"),
	}
	switch scheme, _, _ := strings.Cut(c.Host, "://"); scheme {
	case "ssh":
		// Nobody is there to be asked for a password. A stop has no limit of its own,
		// so ssh has to notice when the other side is gone.
		flags := []string{"-o BatchMode=yes", fmt.Sprintf("-o ConnectTimeout=%d", max(1, int(c.Timeout.Seconds()))), "-o ServerAliveInterval=15"}
		helper, err := connhelper.GetConnectionHelperWithSSHOpts(c.Host, flags)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
	case "unix":
		options = append(options, client.WithHost(c.Host))
	default:
		if c.TLS != nil {
			settings, err := tlsSettings(c.TLS)
			if err != nil {
				return nil, nil, err
			}
			transport.TLSClientConfig = settings
			options = append(options, client.WithScheme("https"))
		}
		dialer := &net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}
		options = append(options, client.WithHost(c.Host), client.WithDialContext(dialer.DialContext))
	}
	// The host and the dialer are for a plain transport; only then it is wrapped.
	options = append(options, client.WithHTTPClient(&http.Client{Transport: verbatim{transport}, CheckRedirect: client.CheckRedirect}))
	next, err := client.NewClientWithOpts(options...)
	return next, transport, err
}

// verbatim sends a body as it is given by WithBody.
type verbatim struct{ *http.Transport }

// bodyKey is the key of that body in a context.
type bodyKey struct{}

// WithBody answers a context in which a call that sends a document sends this one
// in its place: for documents with fields that the client does not know.
func WithBody(ctx context.Context, document []byte) context.Context {
	return context.WithValue(ctx, bodyKey{}, document)
}

// RoundTrip sends a request.
func (v verbatim) RoundTrip(r *http.Request) (*http.Response, error) {
	document, ok := r.Context().Value(bodyKey{}).([]byte)
	if !ok || r.Body == nil {
		return v.Transport.RoundTrip(r)
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(document)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(document))
	return v.Transport.RoundTrip(r)
}

// tlsSettings answers the client's side of TLS.
func tlsSettings(t *httpclient.TLS) (*tls.Config, error) {
	settings, err := tlsconfig.Client(tlsconfig.Options{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, InsecureSkipVerify: t.InsecureSkipVerify, ExclusiveRootPools: true,
	})
	if err != nil {
		return nil, fmt.Errorf("set up TLS with ca_file %q, cert_file %q and key_file %q: %w", t.CAFile, t.CertFile, t.KeyFile, err)
	}
	settings.ServerName = t.ServerName
	return settings, nil
}

// Client answers a client that talks the newest version of the API that both
// sides know; its ClientVersion tells which. The version is negotiated again
// after a connection was lost. Errors are of the classes in package targets.
//
// It is for calls that take longer than the fleet's timeout, whose errors go
// through [Engine.Error]; all others are made in [Engine.Read] and
// [Engine.Write].
func (e *Engine) Client(ctx context.Context) (*client.Client, error) {
	if c := e.client.Load(); c != nil {
		return c, nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, e.Error(context.Cause(ctx))
	}
	defer func() { <-e.turn }()
	if c := e.client.Load(); c != nil {
		return c, nil
	}
	version, err := e.negotiate(ctx)
	if err != nil {
		return nil, err
	}
	if version != e.spare.ClientVersion() {
		if err := e.replace(version); err != nil {
			return nil, e.Error(err)
		}
	}
	e.client.Store(e.spare)
	return e.spare, nil
}

// negotiate asks the engine for its version and answers the one to talk. The
// caller holds the turn.
func (e *Engine) negotiate(ctx context.Context) (string, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	ping, err := e.spare.Ping(ctx)
	if err != nil {
		return "", e.Error(e.explain(ctx, err))
	}
	switch {
	case ping.APIVersion == "":
		return "", e.transient(errors.New("it does not say which version of the API it talks: is it a Docker engine?"))
	case versions.LessThan(ping.APIVersion, OldestAPIVersion):
		return "", e.transient(fmt.Errorf("it talks version %s of the API; hpad needs %s, which is Docker 20.10, or later", ping.APIVersion, OldestAPIVersion))
	case e.config.APIVersion != "":
		return e.config.APIVersion, nil
	case versions.LessThan(ping.APIVersion, api.DefaultVersion):
		return ping.APIVersion, nil
	}
	return api.DefaultVersion, nil
}

// Read makes a call that changes nothing, within the fleet's timeout. Errors are
// of the classes in package targets; those that the call itself put into one stay
// as they are.
func (e *Engine) Read(ctx context.Context, call func(context.Context, *client.Client) error) error {
	_, err := e.do(ctx, call)
	return err
}

// Write makes a call that changes something, within the fleet's timeout. Errors
// are as those of Read; one after which nobody knows whether the engine did it is
// a targets.ErrUnknownOutcome besides.
func (e *Engine) Write(ctx context.Context, call func(context.Context, *client.Client) error) error {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	raw, err := e.do(ctx, func(ctx context.Context, c *client.Client) error {
		return call(httptrace.WithClientTrace(ctx, trace), c)
	})
	if err != nil && sent.Load() && !targets.Classed(raw) && !refused(raw) {
		return fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return err
}

// do makes a call and answers its error as it was and as it is to be told.
func (e *Engine) do(ctx context.Context, call func(context.Context, *client.Client) error) (raw, told error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	c, err := e.Client(ctx)
	if err != nil {
		return err, err
	}
	raw = call(ctx, c)
	return raw, e.Error(e.explain(ctx, raw))
}

// errTimeout is the cause of a call that took longer than the configured timeout.
var errTimeout = errors.New("no answer within the fleet's timeout")

// bounded answers a context for one call.
func (e *Engine) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.config.Timeout, errTimeout)
}

// explain says why a context ended: the fleet's own timeout is no deadline of the
// caller.
func (e *Engine) explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("%w of %v", errTimeout, e.config.Timeout)
	}
	return err
}

// Close gives up the connections nobody uses.
func (e *Engine) Close() {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.transport.CloseIdleConnections()
}
