package targets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hpad/hpad/guard"
)

// ErrLeaseEnded is the error for a change to the platform of a fleet that another process may own.
var ErrLeaseEnded = errors.New("the lease of this fleet has ended")

// leaseInterval is the maximum time between two lease checks during a change. A timer does not
// count the time for which the host is suspended, but a Lease does.
const leaseInterval = time.Second

// Lease returns the time, on Go's monotonic clock, until which this process may change the
// platform of a fleet. Each renewal moves the time. A nil Lease never ends.
//
// Every call that changes the platform of a shared fleet must pass [Lease.Begin], because
// background work, such as repairs and drains, continues when the process no longer owns the fleet.
type Lease func() time.Time

// Begin returns a context for one change, which is canceled when the lease ends. If the lease has
// already ended, it returns an error that is both an [ErrTransient] and an [ErrLeaseEnded].
func (l Lease) Begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l == nil {
		return ctx, func() {}, nil
	}
	if time.Until(l()) <= 0 {
		return nil, nil, fmt.Errorf("%w: %w", ErrTransient, ErrLeaseEnded)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	guard.Go(func() {
		for left := time.Until(l()); left > 0; left = time.Until(l()) {
			select {
			case <-time.After(min(left, leaseInterval)):
			case <-ctx.Done():
				return
			}
		}
		cancel(ErrLeaseEnded)
	})
	return ctx, func() { cancel(context.Canceled) }, nil
}

// Transport returns a transport that sends GET and HEAD requests at any time, and other requests
// only until the lease ends.
func (l Lease) Transport(next http.RoundTripper) http.RoundTripper {
	if l == nil {
		return next
	}
	return &leaseTransport{lease: l, next: next}
}

type leaseTransport struct {
	lease Lease
	next  http.RoundTripper
}

// RoundTrip sends a request. The lease also applies while the response is read.
func (t *leaseTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return t.next.RoundTrip(request)
	}
	ctx, cancel, err := t.lease.Begin(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &leasedBody{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// CloseIdleConnections closes the idle connections of the next transport.
func (t *leaseTransport) CloseIdleConnections() {
	(&http.Client{Transport: t.next}).CloseIdleConnections()
}

type leasedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body and releases the context of its request.
func (b *leasedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
