package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/hpad/hpad/guard"
)

// Limits for a listener that accepts unknown clients. A client is an IPv4 address or an IPv6 /64
// network. The limits are far above the needs of Prometheus, browsers and the command line. They
// protect other clients from a broken or hostile client.
const (
	// Maximum number of open connections, in total and per client.
	maxConnections       = 512
	maxClientConnections = 64
	// Maximum number of concurrent requests per client. Their responses are in memory until they
	// are sent.
	maxClientRequests = 32
	// Maximum number of concurrent password checks per client. Each check takes tens of
	// milliseconds of CPU time.
	maxClientChecks = 4
	// A connection is idle if its last request ended at least idleAfter ago. Until then, the
	// server may still be sending the response.
	idleAfter = time.Second
	// retrySeconds is the Retry-After value for a rejected request.
	retrySeconds = 1
)

// Clients limits the connections, requests and password checks of each client of a
// listener. The zero value is ready to use. It is safe for concurrent use.
type Clients struct {
	mu sync.Mutex
	// active counts the resources in use. It contains no zeros.
	active map[use]int
	// conns maps remote addresses to the open connections. delayed is set while makeRoom is
	// scheduled.
	conns   map[string]*clientConn
	delayed bool
	// opened contains the requests in progress.
	opened map[*openRequest]bool
}

// use identifies a kind of resource and the client that uses it.
type use struct {
	client netip.Prefix
	of     resource
}

type resource int

const (
	connections resource = iota
	requests
	checks
	longResponses
)

// begin increments the number of uses of a resource until end is called. It returns false if the
// number has already reached the limit most. Calling end more than once has no effect.
func (c *Clients) begin(u use, most int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[u] >= most {
		return nil, false
	}
	if c.active == nil {
		c.active = map[use]int{}
	}
	c.active[u]++
	return sync.OnceFunc(func() { c.end(u) }), true
}

func (c *Clients) end(u use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[u]--; c.active[u] == 0 {
		delete(c.active, u)
	}
}

// Limit returns a handler that enforces the limits on requests and password checks before it
// calls next. Rejected requests get 429. Use it before authentication, and [Checked] after it.
func (c *Clients) Limit(next http.Handler) http.Handler {
	return withCommonHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.addRequests(r.RemoteAddr, 1)
		defer c.addRequests(r.RemoteAddr, -1)
		client := clientOf(r.RemoteAddr)
		r, end, ok := c.open(w, r)
		if !ok {
			writeTooMany(w, "too many concurrent requests from this address")
			return
		}
		defer end()
		if r.Header.Get("Authorization") != "" {
			checked, ok := c.begin(use{client, checks}, maxClientChecks)
			if !ok {
				writeTooMany(w, "too many concurrent password checks from this address")
				return
			}
			defer checked()
			r = r.WithContext(context.WithValue(r.Context(), checkedKey{}, checked))
		}
		next.ServeHTTP(w, r)
	}))
}

// checkedKey is the context key of the function that ends a password check.
type checkedKey struct{}

// Checked returns a handler that ends the request's password check and calls next.
func Checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if checked, ok := r.Context().Value(checkedKey{}).(func()); ok {
			checked()
		}
		next.ServeHTTP(w, r)
	})
}

func writeTooMany(w http.ResponseWriter, what string) {
	w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	writeError(w, ErrorTooMany, fmt.Sprintf("%s: try again in %d s", what, retrySeconds))
}

// clientOf returns the client with a remote address. All addresses that are not IP addresses are
// one client.
func clientOf(remote string) netip.Prefix {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip := address.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// Listener returns a listener that limits connections. If a client has maxClientConnections
// connections, a new connection replaces its longest idle connection. If none is idle, the new
// connection is closed. If there are maxConnections connections in total, an idle connection of the
// client with the most connections is closed. If no connection is idle, new connections wait.
func (c *Clients) Listener(listener net.Listener) net.Listener {
	return &clientListener{Listener: netutil.LimitListener(listener, maxConnections), clients: c}
}

type clientListener struct {
	net.Listener
	clients *Clients
}

// Accept returns the next connection from a client that is below its limit.
func (l *clientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		remote := conn.RemoteAddr().String()
		client := use{clientOf(remote), connections}
		end, ok := l.clients.begin(client, maxClientConnections)
		if !ok && l.clients.closeIdle(client.client) {
			end, ok = l.clients.begin(client, maxClientConnections)
		}
		if ok {
			return l.clients.add(conn, remote, end), nil
		}
		_ = conn.Close() // no response is sent
	}
}

type clientConn struct {
	net.Conn
	remote  string
	clients *Clients
	end     func()
	// requests is the number of requests in progress. changed is the time when it last changed.
	requests int
	changed  time.Time
}

func (c *Clients) add(conn net.Conn, remote string, end func()) net.Conn {
	opened := &clientConn{Conn: conn, remote: remote, clients: c, end: end, changed: time.Now()}
	c.mu.Lock()
	if c.conns == nil {
		c.conns = map[string]*clientConn{}
	}
	c.conns[remote] = opened
	c.mu.Unlock()
	c.makeRoom()
	return opened
}

func (c *clientConn) Close() error {
	c.clients.mu.Lock()
	if c.clients.conns[c.remote] == c {
		delete(c.clients.conns, c.remote)
	}
	c.clients.mu.Unlock()
	defer c.end()
	return c.Conn.Close()
}

func (c *Clients) addRequests(remote string, n int) {
	c.mu.Lock()
	if conn := c.conns[remote]; conn != nil {
		conn.requests += n
		conn.changed = time.Now()
	}
	c.mu.Unlock()
	if n < 0 {
		c.makeRoom()
	}
}

func (c *Clients) makeRoom() {
	if conn := c.surplus(); conn != nil {
		_ = conn.Close()
	}
}

// surplus returns the connection to close for a new one: the longest idle connection of the
// client with the most connections. It returns nil if there are fewer than maxConnections
// connections or if none is idle.
func (c *Clients) surplus() *clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) < maxConnections {
		return nil
	}
	found, later := c.longestIdle(func(netip.Prefix) bool { return true })
	if found == nil && later && !c.delayed {
		c.delayed = true
		guard.AfterFunc(idleAfter, func() {
			c.mu.Lock()
			c.delayed = false
			c.mu.Unlock()
			c.makeRoom()
		})
	}
	return found
}

// longestIdle returns the longest idle connection of the client with the most connections, among
// the clients that match accepts. later is true if another connection may be idle soon. The caller
// must hold mu.
func (c *Clients) longestIdle(match func(netip.Prefix) bool) (found *clientConn, later bool) {
	most := 0
	for _, conn := range c.conns {
		client := clientOf(conn.remote)
		count := c.active[use{client, connections}]
		switch {
		case conn.requests > 0 || !match(client):
		case time.Since(conn.changed) < idleAfter:
			later = true
		case count > most, count == most && conn.changed.Before(found.changed):
			found, most = conn, count
		}
	}
	return found, later
}

// closeIdle closes the longest idle connection of a client. It returns false if none is idle.
func (c *Clients) closeIdle(client netip.Prefix) bool {
	c.mu.Lock()
	idle, _ := c.longestIdle(func(other netip.Prefix) bool { return other == client })
	c.mu.Unlock()
	return idle != nil && idle.Close() == nil
}
