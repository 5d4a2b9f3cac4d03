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

// Connection caches a fleet's client, and builds a new client when one of its files changes. It
// is safe for concurrent use.
type Connection[C any] struct {
	// Make builds a client without connecting to the platform. An error without a class becomes an
	// ErrForbidden.
	Make func(ctx context.Context) (*C, error)
	// Files returns the paths of a client's files; empty paths are ignored. If Files is nil, files
	// are read again only after Forget.
	Files func() []string
	// Drop closes the connections of a client.
	Drop func(*C)

	mu      sync.Mutex
	current *C
	made    []httpclient.Stamp
	// unusable is the error of the changed files, or nil.
	unusable error
}

// Client returns a client for the current files. If they are invalid, it returns an error together
// with the previous client, if there is one.
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
	if err != nil && !targets.HasClass(err) {
		err = fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	if c.unusable = err; err != nil {
		return c.current, err
	}
	if c.current != nil {
		c.Drop(c.current)
	}
	c.current, c.made = next, now
	return next, nil
}

// filesError returns the error of changed files if the last Client returned the previous client, and
// otherwise nil.
func (c *Connection[C]) filesError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	return c.unusable
}

// Forget drops a client whose credentials were rejected, so that the next call reads the
// credentials again.
func (c *Connection[C]) Forget(rejected *C) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && c.current == rejected {
		c.Drop(c.current)
		c.current = nil
	}
}

// Close drops the current client.
func (c *Connection[C]) Close() {
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	c.Forget(current)
}

// NewTransport returns a transport with the fleet's timeout and a limit for connections to each
// host.
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
