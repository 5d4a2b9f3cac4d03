package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Engine is one Docker engine. It is safe for concurrent use.
type Engine struct {
	config    *Config
	transport http.RoundTripper
	// client uses the newest API version that both sides support. It is nil before the first call
	// and after the connection was lost.
	client atomic.Pointer[client.Client]

	// Close cancels ctx.
	ctx    context.Context
	cancel context.CancelFunc
}

// Connect returns an engine, which makes changes only until the lease ends. It does not connect
// before the first call. The configuration must be valid with defaults applied; it is not
// modified. An error names a file that cannot be used.
func Connect(config *Config, lease targets.Lease) (*Engine, error) {
	e := &Engine{config: config}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	transport, err := newTransport(e.ctx, config)
	if err != nil {
		e.cancel()
		return nil, fmt.Errorf("connect to docker at %s: %w", config.Host, err)
	}
	e.transport = lease.Transport(transport)
	return e, nil
}

// Client returns a client that uses the newest API version that both sides support. It
// negotiates the version again after a lost connection. Its errors have a class of package
// targets.
//
// Use it only for calls that take longer than the fleet's timeout, and pass their errors to
// [Engine.Error]. All other calls use [Engine.Read] and [Engine.Write].
func (e *Engine) Client(ctx context.Context) (*client.Client, error) {
	if c := e.client.Load(); c != nil {
		return c, nil
	}
	if err := e.ctx.Err(); err != nil {
		return nil, e.Error(err)
	}
	c, err := newClient(e.config, e.transport, api.DefaultVersion)
	if err != nil {
		return nil, e.Error(err)
	}
	version, err := e.negotiate(ctx, c)
	if err != nil {
		return nil, err
	}
	if c, err = newClient(e.config, e.transport, version); err != nil {
		return nil, e.Error(err)
	}
	e.client.Store(c)
	return c, nil
}

// negotiate queries the engine's API version and returns the version to use.
func (e *Engine) negotiate(ctx context.Context, c *client.Client) (string, error) {
	ctx, cancel := targets.WithCallTimeout(ctx, e.config.Timeout)
	defer cancel()
	ping, err := c.Ping(ctx)
	if err = targets.AsTimeout(ctx, err); err != nil {
		return "", e.Error(err)
	}
	switch {
	case ping.APIVersion == "":
		return "", e.transient(errors.New("the response contains no API version; check that this is a Docker engine"))
	case versions.LessThan(ping.APIVersion, oldestAPIVersion):
		return "", e.transient(fmt.Errorf("the API version is %s, but hpad requires %s (Docker 20.10) or later", ping.APIVersion, oldestAPIVersion))
	case e.config.APIVersion != "":
		return e.config.APIVersion, nil
	case versions.LessThan(ping.APIVersion, api.DefaultVersion):
		return ping.APIVersion, nil
	}
	return api.DefaultVersion, nil
}

// Read makes a read-only call within the fleet's timeout. It wraps errors in an error class such as targets.ErrTransient, unless the call has already
// returned such an error.
func (e *Engine) Read(ctx context.Context, call func(context.Context, *client.Client) error) error {
	_, err := e.do(ctx, call)
	return err
}

// Write makes a call that changes something, within the fleet's timeout. It returns the same
// errors as Read. If the engine may have made the change, the error is also an
// ErrUnknownOutcome.
func (e *Engine) Write(ctx context.Context, call func(context.Context, *client.Client) error) error {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	raw, err := e.do(ctx, func(ctx context.Context, c *client.Client) error {
		return call(httptrace.WithClientTrace(ctx, trace), c)
	})
	if err != nil && sent.Load() && !targets.HasClass(raw) && !undone(raw) {
		return fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return err
}

// do makes a call and returns both its raw and its classified error.
func (e *Engine) do(ctx context.Context, call func(context.Context, *client.Client) error) (raw, classed error) {
	ctx, cancel := targets.WithCallTimeout(ctx, e.config.Timeout)
	defer cancel()
	c, err := e.Client(ctx)
	if err != nil {
		return err, err
	}
	raw = call(ctx, c)
	return raw, e.Error(targets.AsTimeout(ctx, raw))
}

// Close closes idle connections and prevents new connections. The engine must not be used
// afterwards.
func (e *Engine) Close() {
	e.cancel()
	(&http.Client{Transport: e.transport}).CloseIdleConnections()
}
