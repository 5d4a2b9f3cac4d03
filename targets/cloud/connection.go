package cloud

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// Connection keeps the client that calls are made with, and makes another one when a
// file changes that it was made from. It is safe for concurrent use.
type Connection[C any] struct {
	// Make makes a client. It does not connect to the platform. An error without a class
	// is an ErrForbidden.
	Make func(ctx context.Context) (*C, error)
	// Files returns the paths of the files that a client is made from; empty ones are
	// left out. Nil means that none is read again before Forget.
	Files func() []string
	// Drop gives up the connections of a client.
	Drop func(*C)

	mu      sync.Mutex
	current *C
	made    []httpclient.Stamp
}

// Client returns the client made from the files as they are now. Where they are of no
// use it returns why, beside the client there was before; nil where there was none.
func (c *Connection[C]) Client(ctx context.Context) (*C, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now []httpclient.Stamp
	if c.Files != nil {
		now = httpclient.StampFiles(c.Files()...)
	}
	if c.current != nil && slices.Equal(now, c.made) {
		return c.current, nil
	}
	next, err := c.Make(ctx)
	switch {
	case targets.Classed(err):
		return c.current, err
	case err != nil:
		return c.current, fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	if c.current != nil {
		c.Drop(c.current)
	}
	c.current, c.made = next, now
	return next, nil
}

// Forget gives up a client whose credentials were refused, so that the next one asks
// for others.
func (c *Connection[C]) Forget(refused *C) {
	c.drop(func() bool { return c.current == refused })
}

// Close gives up the connections.
func (c *Connection[C]) Close() { c.drop(func() bool { return true }) }

func (c *Connection[C]) drop(due func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && due() {
		c.Drop(c.current)
		c.current = nil
	}
}

// NewTransport returns what connects to a platform: within the fleet's timeout, and with
// so many connections to one host at once.
func NewTransport(timeout time.Duration, connections int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: timeout,
		ForceAttemptHTTP2:   true,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
	}
}
