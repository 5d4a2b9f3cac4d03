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
)

// The limits of a listener whose clients are not known beforehand. A client is
// an IPv4 address or an IPv6 network of 64 bits. They are many times what
// Prometheus, people and the command line need, and keep a client that is
// broken or hostile from taking what others need.
const (
	// maxConnections bounds the connections that are open at once, and
	// maxClientConnections those of one client.
	maxConnections       = 512
	maxClientConnections = 64
	// maxClientRequests bounds a client's requests under way: their responses are in
	// memory until they are taken.
	maxClientRequests = 32
	// maxClientChecks bounds a client's passwords that are being checked: each takes
	// tens of milliseconds of a processor.
	maxClientChecks = 4
	// maxClientStreams bounds a client's streams of events.
	maxClientStreams = 8
	// A connection counts as idle idleAfter its last request. Before, the server may still
	// send the response.
	idleAfter = time.Second
	// retrySeconds is how long a client with too much under way is to wait.
	retrySeconds = 1
)

// Clients bounds what each client of a listener has under way. Its zero value is
// ready to use; it is safe for concurrent use.
type Clients struct {
	mu sync.Mutex
	// underWay counts what clients have under way. What is 0 is not in it, so there
	// are not many more entries than connections.
	underWay map[use]int
	// conns are the open connections by their remote addresses, and delayed reports whether
	// makeRoom runs again later.
	conns   map[string]*clientConn
	delayed bool
}

// use is what a client has under way one or more of.
type use struct {
	client netip.Prefix
	of     resource
}

// resource is what clients share.
type resource int

const (
	connections resource = iota
	requests
	checks
	streams
)

// begin counts one more of a client's use until end is called, which may be called
// again. It reports false where there are most already.
func (c *Clients) begin(u use, most int) (end func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underWay[u] >= most {
		return nil, false
	}
	if c.underWay == nil {
		c.underWay = map[use]int{}
	}
	c.underWay[u]++
	return sync.OnceFunc(func() { c.end(u) }), true
}

func (c *Clients) end(u use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underWay[u]--; c.underWay[u] == 0 {
		delete(c.underWay, u)
	}
}

// Limit returns next behind the limits on requests and passwords. Requests beyond
// them get 429 and the time to wait. It belongs before anything that asks clients
// who they are, and [Checked] after that.
func (c *Clients) Limit(next http.Handler) http.Handler {
	return withCommonHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.addRequests(r.RemoteAddr, 1)
		defer c.addRequests(r.RemoteAddr, -1)
		client := clientOf(r.RemoteAddr)
		end, ok := c.begin(use{client, requests}, maxClientRequests)
		if !ok {
			writeTooMany(w, "too many requests at once from this address")
			return
		}
		defer end()
		if r.Header.Get("Authorization") != "" {
			checked, ok := c.begin(use{client, checks}, maxClientChecks)
			if !ok {
				writeTooMany(w, "too many passwords to check at once from this address")
				return
			}
			defer checked()
			r = r.WithContext(context.WithValue(r.Context(), checkedKey{}, checked))
		}
		next.ServeHTTP(w, r)
	}))
}

// Stream counts one more stream of events of the client of a request until end is called. It
// reports false if the client has too many already.
func (c *Clients) Stream(r *http.Request) (end func(), ok bool) {
	return c.begin(use{clientOf(r.RemoteAddr), streams}, maxClientStreams)
}

// checkedKey is the context key of the function that ends the check of a request's
// password.
type checkedKey struct{}

// Checked returns next as what requests reach whose passwords are checked.
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
	writeError(w, http.StatusTooManyRequests, ErrorTooMany, fmt.Sprintf("%s: try again in %d s", what, retrySeconds))
}

// clientOf returns the client of a remote address. All that are not of IP are one.
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

// Listener returns listener with limits on connections. It closes a new connection if its
// client has maxClientConnections. At maxConnections it closes an idle connection of the
// client with the most connections; if no connection is idle, new connections wait.
func (c *Clients) Listener(listener net.Listener) net.Listener {
	return &clientListener{Listener: netutil.LimitListener(listener, maxConnections), clients: c}
}

type clientListener struct {
	net.Listener
	clients *Clients
}

// Accept returns the next connection of a client that may have one more.
func (l *clientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		remote := conn.RemoteAddr().String()
		end, ok := l.clients.begin(use{clientOf(remote), connections}, maxClientConnections)
		if ok {
			return l.clients.open(conn, remote, end), nil
		}
		_ = conn.Close() // the client learns nothing more
	}
}

type clientConn struct {
	net.Conn
	remote  string
	clients *Clients
	end     func()
	// requests are in progress, and changed is when their number changed.
	requests int
	changed  time.Time
}

func (c *Clients) open(conn net.Conn, remote string, end func()) net.Conn {
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

// addRequests counts the requests in progress of a connection.
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

// makeRoom closes an idle connection if maxConnections are open.
func (c *Clients) makeRoom() {
	if conn := c.surplus(); conn != nil {
		_ = conn.Close()
	}
}

// surplus returns the connection to close: the longest idle connection of the client with the
// most connections. It returns nil below maxConnections, and if no connection is idle.
func (c *Clients) surplus() (found *clientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) < maxConnections {
		return nil
	}
	most, later := 0, false
	for _, conn := range c.conns {
		count := c.underWay[use{clientOf(conn.remote), connections}]
		switch {
		case conn.requests > 0:
		case time.Since(conn.changed) < idleAfter:
			later = true
		case count > most, count == most && conn.changed.Before(found.changed):
			found, most = conn, count
		}
	}
	if found == nil && later && !c.delayed {
		c.delayed = true
		time.AfterFunc(idleAfter, func() {
			c.mu.Lock()
			c.delayed = false
			c.mu.Unlock()
			c.makeRoom()
		})
	}
	return found
}
