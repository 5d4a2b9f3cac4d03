package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits for responses that can stay open for a long time: the output of instances, profiles and
// exports of the state. They do not count as concurrent requests, so that they do not block other
// requests of their client.
const (
	// MaxLong is the maximum number of long responses of a listener.
	MaxLong = 32
	// maxClientLong is the maximum number per client. It does not apply to the socket, and to members
	// of a cluster, which forward the requests of many clients.
	maxClientLong = 4
	// overdueAfter is the age at which a read can be aborted in favor of a new request of its client.
	// Otherwise, a program that reads responses slowly would block all programs with its address.
	overdueAfter = time.Second
)

// openRequest is a request in progress. Its client is zero on the socket.
type openRequest struct {
	clients *Clients
	client  netip.Prefix
	started time.Time
	// release ends the use of a concurrent request.
	release func()

	mu sync.Mutex
	// abort ends the response. It is nil if the request must not be aborted, or has ended.
	abort func()
}

// openRequestKey is the context key of an *openRequest.
type openRequestKey struct{}

// LimitLong returns a handler that limits only the number of long responses. It is for the socket.
func (c *Clients) LimitLong(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := &openRequest{clients: c, release: func() {}}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), openRequestKey{}, open)))
	})
}

// open starts a request, or returns false if its client has too many. If necessary, the request
// replaces the oldest overdue read of the client. The caller must call end after the request.
func (c *Clients) open(w http.ResponseWriter, r *http.Request) (opened *http.Request, end func(), ok bool) {
	client := clientOf(r.RemoteAddr)
	release, ok := c.begin(use{client, requests}, maxClientRequests)
	if !ok && c.abortOverdue(client) {
		release, ok = c.begin(use{client, requests}, maxClientRequests)
	}
	if !ok {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(r.Context())
	open := &openRequest{clients: c, client: client, started: time.Now(), release: release}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		open.abort = func() {
			cancel()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now()) // fails only for writers without deadlines
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened == nil {
		c.opened = map[*openRequest]bool{}
	}
	c.opened[open] = true
	return r.WithContext(context.WithValue(ctx, openRequestKey{}, open)), func() {
		c.mu.Lock()
		delete(c.opened, open)
		c.mu.Unlock()
		open.settle()
		cancel()
	}, true
}

// settle ends the use of a concurrent request. The request can no longer be aborted.
func (o *openRequest) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abort = nil
	o.release()
}

// tryAbort aborts the request, or returns false if it must not be aborted or has ended.
func (o *openRequest) tryAbort() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abort == nil {
		return false
	}
	o.abort()
	o.abort = nil
	o.release()
	return true
}

// abortOverdue aborts the oldest overdue read of a client. It returns false if there is none.
func (c *Clients) abortOverdue(client netip.Prefix) bool {
	var overdue []*openRequest
	c.mu.Lock()
	for open := range c.opened {
		if open.client == client && time.Since(open.started) >= overdueAfter {
			overdue = append(overdue, open)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(overdue, func(a, b *openRequest) int { return a.started.Compare(b.started) })
	return slices.ContainsFunc(overdue, (*openRequest).tryAbort)
}

// long returns a handler for long responses. Above the limits it writes 429.
func long(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The server cancels a request at the time limit for reading it, also during the response.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // fails only for writers without deadlines
		open, limited := r.Context().Value(openRequestKey{}).(*openRequest)
		if !limited {
			handler(w, r)
			return
		}
		end, text := open.lengthen(r.Header.Get(MemberHeader) != "")
		if text != "" {
			writeTooMany(w, text)
			return
		}
		defer end()
		handler(w, r)
	}
}

// lengthen counts the request as a long response, until end is called, instead of as a concurrent
// request. If a limit is reached, it returns a text that describes the limit.
func (o *openRequest) lengthen(member bool) (end func(), exceeded string) {
	const kinds = "logs, profiles and state exports"
	endTotal, ok := o.clients.begin(use{of: longResponses}, MaxLong)
	if !ok {
		return nil, fmt.Sprintf("too many open responses (%s, at most %d)", kinds, MaxLong)
	}
	if member || !o.client.IsValid() {
		o.settle()
		return endTotal, ""
	}
	endOwn, ok := o.clients.begin(use{o.client, longResponses}, maxClientLong)
	if !ok {
		endTotal()
		return nil, fmt.Sprintf("too many open responses to this address (%s, at most %d)", kinds, maxClientLong)
	}
	o.settle()
	return func() { endOwn(); endTotal() }, ""
}
