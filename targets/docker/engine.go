package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// Engine is one Docker engine. It is safe for concurrent use.
type Engine struct {
	config *Config
	// link is how the engine is reached, and negotiated whether its client talks the
	// version that both sides know: not before the first call, nor after the connection
	// was lost.
	link       atomic.Pointer[link]
	negotiated atomic.Bool
	// unusable is why files that changed are not used; nil when they are.
	unusable atomic.Pointer[error]
	// failed is how the last negotiation failed; nil when it did not.
	failed atomic.Pointer[string]

	// ctx ends with Close, and with it what goes on in the background.
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	// mu is held to replace link, and guards attempt: the negotiation that is under way;
	// nil when none is.
	mu      sync.Mutex
	attempt *attempt
}

// attempt is one negotiation. Its result is there once done is closed.
type attempt struct {
	done   chan struct{}
	client *client.Client
	err    error
}

// Connect returns an engine, which is reached by the first call. The configuration is
// defaulted and valid, and is not modified. An error names a file that cannot be used.
func Connect(config *Config) (*Engine, error) {
	e := &Engine{config: config}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	first, err := newLink(e.ctx, config, config.stamps(), api.DefaultVersion)
	if err != nil {
		e.cancel()
		return nil, fmt.Errorf("connect to docker at %s: %w", config.Host, err)
	}
	e.link.Store(first)
	return e, nil
}

// renewed returns the link by files that have changed, and the old one where those that
// are there now are of no use, as a key that does not fit its certificate yet.
func (e *Engine) renewed(old *link, now []httpclient.Stamp) *link {
	next, err := newLink(e.ctx, e.config, now, old.client.ClientVersion())
	if err != nil {
		e.unusable.Store(&err)
		same := *old
		same.stamps = now
		return &same
	}
	e.unusable.Store(nil)
	old.transport.CloseIdleConnections()
	return next
}

// Problems returns what is wrong with the connection that no call reports.
func (e *Engine) Problems() []string {
	if err := e.unusable.Load(); err != nil {
		return []string{fmt.Sprintf("docker at %s: files that changed cannot be used, so that the old ones stay: %v", e.config.Host, *err)}
	}
	return nil
}

// Client returns a client that talks the newest version of the API that both sides
// know, its ClientVersion. The version is negotiated again after a connection was lost,
// and files that changed are read again. Errors are of the classes in package targets.
//
// It is for calls that take longer than the fleet's timeout, whose errors go through
// [Engine.Error]; all others are made in [Engine.Read] and [Engine.Write].
func (e *Engine) Client(ctx context.Context) (*client.Client, error) {
	if l := e.link.Load(); e.negotiated.Load() && slices.Equal(l.stamps, e.config.stamps()) {
		return l.client, nil
	}
	ready, under := e.begin()
	if ready != nil {
		return ready, nil
	}
	select {
	case <-under.done:
		return under.client, under.err
	case <-ctx.Done():
		return nil, e.Error(e.waiting(ctx))
	}
}

// waiting returns why a call ends for whose connection there was no time.
func (e *Engine) waiting(ctx context.Context) error {
	err := fmt.Errorf("not connected yet: %w", context.Cause(ctx))
	if failed := e.failed.Load(); failed != nil {
		err = fmt.Errorf("%w; the attempt before failed: %s", err, *failed)
	}
	return err
}

// begin returns a client that is ready, or the negotiation that is under way. It goes
// on when those who wait for it have no more time: a connection that takes longer than
// they have is there for the next ones, or the reason why not.
func (e *Engine) begin() (ready *client.Client, under *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.link.Load()
	if now := e.config.stamps(); !slices.Equal(now, l.stamps) {
		l = e.renewed(l, now)
		e.link.Store(l)
	}
	if e.negotiated.Load() {
		return l.client, nil
	}
	if e.attempt != nil {
		return nil, e.attempt
	}
	began := &attempt{done: make(chan struct{})}
	if err := e.ctx.Err(); err != nil {
		began.err = e.Error(err)
		close(began.done)
		return nil, began
	}
	e.attempt = began
	e.background.Go(func() {
		defer close(began.done)
		version, err := e.negotiate(e.ctx, l.client)
		began.client, began.err = e.end(version, err)
	})
	return nil, began
}

// end ends the negotiation that is under way with the version to talk, or why none is
// known.
func (e *Engine) end(version string, err error) (*client.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempt = nil
	if err != nil {
		return nil, err
	}
	l := *e.link.Load()
	if version != l.client.ClientVersion() {
		if l.client, err = newClient(e.config, l.transport, version); err != nil {
			return nil, e.Error(err)
		}
		e.link.Store(&l)
	}
	e.negotiated.Store(true)
	return l.client, nil
}

// negotiate asks the engine for its version and returns the one to talk.
func (e *Engine) negotiate(ctx context.Context, c *client.Client) (string, error) {
	ctx, cancel := targets.Bounded(ctx, e.config.Timeout)
	defer cancel()
	ping, err := c.Ping(ctx)
	if err = targets.Overdue(ctx, err); err != nil {
		failed := e.advise(err).Error()
		e.failed.Store(&failed)
		return "", e.Error(err)
	}
	e.failed.Store(nil)
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

// Read makes a call that changes nothing, within the fleet's timeout. Errors are of the
// classes in package targets; one that the call itself gave a class stays as it is.
func (e *Engine) Read(ctx context.Context, call func(context.Context, *client.Client) error) error {
	_, err := e.do(ctx, call)
	return err
}

// Write makes a call that changes something, within the fleet's timeout. Errors are as
// those of Read; one after which the engine may have done it is an ErrUnknownOutcome
// besides.
func (e *Engine) Write(ctx context.Context, call func(context.Context, *client.Client) error) error {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	raw, err := e.do(ctx, func(ctx context.Context, c *client.Client) error {
		return call(httptrace.WithClientTrace(ctx, trace), c)
	})
	if err != nil && sent.Load() && !targets.Classed(raw) && !undone(raw) {
		return fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return err
}

// do makes a call and returns its error, as it was and in a class.
func (e *Engine) do(ctx context.Context, call func(context.Context, *client.Client) error) (raw, classed error) {
	ctx, cancel := targets.Bounded(ctx, e.config.Timeout)
	defer cancel()
	c, err := e.Client(ctx)
	if err != nil {
		return err, err
	}
	raw = call(ctx, c)
	return raw, e.Error(targets.Overdue(ctx, raw))
}

// Close ends what goes on in the background and gives up the connections nobody
// uses. The engine is not used any more.
func (e *Engine) Close() {
	e.mu.Lock()
	e.cancel() // nothing begins in the background any more
	e.mu.Unlock()
	e.background.Wait()
	e.link.Load().transport.CloseIdleConnections()
}
