package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
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
	// client talks the version that was negotiated last; nil where that has to be
	// done again.
	client atomic.Pointer[negotiated]
	// settings are the client's side of TLS; nil where it is not spoken.
	settings atomic.Pointer[tls.Config]
	// unusable is why files that changed are not used; nil when they are.
	unusable atomic.Pointer[error]
	// failed tells how the last negotiation failed; nil when it did not.
	failed atomic.Pointer[string]

	// ctx ends with Close, and with it what goes on in the background.
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	mu sync.Mutex
	// spare is the client before negotiation, and afterwards the same as client.
	spare     *client.Client
	transport *http.Transport
	// stamps are those of the files that transport was made from, or of newer ones
	// that cannot be used.
	stamps []httpclient.Stamp
	// attempt is the negotiation that is under way; nil when none is.
	attempt *attempt
}

// negotiated is a client that talks the version that was negotiated, and the
// stamps of the files that were there then.
type negotiated struct {
	client *client.Client
	stamps []httpclient.Stamp
}

// attempt is one negotiation. Its answer is there once done is closed.
type attempt struct {
	done   chan struct{}
	client *client.Client
	err    error
}

// Connect answers an engine, which is reached when it is first asked. The
// configuration is defaulted and valid, and is not modified. An error names a
// file that cannot be used.
func Connect(config *Config) (*Engine, error) {
	e := &Engine{config: config, stamps: config.stamps()}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	settings, err := tlsSettings(config)
	if err == nil {
		err = e.connect(settings)
	}
	if err != nil {
		e.cancel()
		return nil, fmt.Errorf("connect to docker at %s: %w", config.Host, err)
	}
	return e, nil
}

// connect takes new connections by new settings of TLS from now on; it does not
// connect. The caller holds mu, once others know the engine.
func (e *Engine) connect(settings *tls.Config) error {
	transport, err := newTransport(e.ctx, e.config, settings)
	if err != nil {
		return err
	}
	version := api.DefaultVersion
	if e.spare != nil {
		version = e.spare.ClientVersion()
	}
	spare, err := newClient(e.config, transport, version)
	if err != nil {
		return err
	}
	if e.transport != nil {
		e.transport.CloseIdleConnections()
	}
	e.settings.Store(settings)
	e.spare, e.transport = spare, transport
	return nil
}

// refresh connects anew where files have changed. Where those that are there now
// are of no use, as a key that does not fit its certificate yet, all goes on as
// before. The caller holds mu.
func (e *Engine) refresh() {
	now := e.config.stamps()
	if slices.Equal(now, e.stamps) {
		return
	}
	e.stamps = now
	settings, err := tlsSettings(e.config)
	if err == nil {
		err = e.connect(settings)
	}
	if err == nil {
		e.unusable.Store(nil)
	} else {
		e.unusable.Store(&err)
	}
	if e.client.Load() != nil {
		e.client.Store(&negotiated{client: e.spare, stamps: now})
	}
}

// Problems answers what is wrong with the connection and no call tells of.
func (e *Engine) Problems() []string {
	if err := e.unusable.Load(); err != nil {
		return []string{fmt.Sprintf("docker at %s: files that changed cannot be used, so that the old ones stay: %v", e.config.Host, *err)}
	}
	return nil
}

// Client answers a client that talks the newest version of the API that both
// sides know; its ClientVersion tells which. The version is negotiated again
// after a connection was lost, and files that changed are read again. Errors are of
// the classes in package targets.
//
// It is for calls that take longer than the fleet's timeout, whose errors go
// through [Engine.Error]; all others are made in [Engine.Read] and
// [Engine.Write].
func (e *Engine) Client(ctx context.Context) (*client.Client, error) {
	if c := e.client.Load(); c != nil && slices.Equal(c.stamps, e.config.stamps()) {
		return c.client, nil
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

// waiting is why a call ends for whose connection there was no time.
func (e *Engine) waiting(ctx context.Context) error {
	err := fmt.Errorf("not connected yet: %w", context.Cause(ctx))
	if failed := e.failed.Load(); failed != nil {
		err = fmt.Errorf("%w; the attempt before failed: %s", err, *failed)
	}
	return err
}

// begin answers a client that is ready, or the negotiation that is under way. It
// goes on when those who wait for it have no more time: a connection that takes
// longer than they have is there for the next ones, or the reason why not.
func (e *Engine) begin() (ready *client.Client, under *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refresh()
	if c := e.client.Load(); c != nil {
		return c.client, nil
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
	spare := e.spare
	e.background.Go(func() {
		defer close(began.done)
		version, err := e.negotiate(e.ctx, spare)
		began.client, began.err = e.end(version, err)
	})
	return nil, began
}

// end ends the negotiation that is under way with the version to talk, or why none
// is known.
func (e *Engine) end(version string, err error) (*client.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempt = nil
	if err != nil {
		return nil, err
	}
	if version != e.spare.ClientVersion() {
		spare, err := newClient(e.config, e.transport, version)
		if err != nil {
			return nil, e.Error(err)
		}
		e.spare = spare
	}
	e.client.Store(&negotiated{client: e.spare, stamps: e.stamps})
	return e.spare, nil
}

// negotiate asks the engine for its version and answers the one to talk.
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
	e.mu.Lock()
	defer e.mu.Unlock()
	e.transport.CloseIdleConnections()
}
