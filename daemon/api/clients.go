package api

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
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
	// requestsPerSecond and requestBurst bound the requests of one client.
	requestsPerSecond = 50
	requestBurst      = 200
	// maxClientRequests bounds its requests that are being answered: the answers
	// are in memory until they are taken.
	maxClientRequests = 32
	// scrapesPerSecond and scrapeBurst bound its requests for metrics, health and
	// readiness, which are counted apart.
	scrapesPerSecond = 10
	scrapeBurst      = 50
	// mistakesPerSecond and mistakeBurst bound its wrong passwords, and
	// maxChecking the passwords of it that are being checked at once: each takes
	// tens of milliseconds of a processor.
	mistakesPerSecond = 1
	mistakeBurst      = 10
	maxChecking       = 4
	// maxClients bounds the clients that are remembered; those beyond share the
	// limits of one. sweepInterval is how often those to forget are looked for, which
	// takes a part of a millisecond that all clients wait for.
	maxClients    = 4096
	sweepInterval = time.Second
)

// Clients bounds what each client of a listener may take. It is safe for
// concurrent use.
type Clients struct {
	mu      sync.Mutex
	clients map[netip.Prefix]*client
	// others is for clients that there is no room for.
	others *client
	// swept is when those to forget were looked for last.
	swept time.Time
	// refused is told of connections that were closed at once; may be nil.
	refused func()
}

// client is what is known of one client. Its limiters lock themselves, the
// counts belong to the lock of Clients.
type client struct {
	requests, scrapes, mistakes   *rate.Limiter
	connections, asking, checking int
}

// NewClients answers limits that nobody has used yet. Each connection that is
// closed at once is told to refused; nil tells nobody.
func NewClients(refused func()) *Clients {
	return &Clients{clients: map[netip.Prefix]*client{}, others: newClient(), refused: refused}
}

func newClient() *client {
	return &client{
		requests: rate.NewLimiter(requestsPerSecond, requestBurst),
		scrapes:  rate.NewLimiter(scrapesPerSecond, scrapeBurst),
		mistakes: rate.NewLimiter(mistakesPerSecond, mistakeBurst),
	}
}

// Listener answers listener with limits on connections: those of a client that
// has too many are closed at once, and new ones wait while all clients together
// have too many.
func (c *Clients) Listener(listener net.Listener) net.Listener {
	return &clientListener{Listener: netutil.LimitListener(listener, maxConnections), clients: c}
}

// Limit answers next behind the limits on requests. Too many are answered with
// 429 and the time to wait. It belongs before anything that asks clients who
// they are, and [Clients.Known] after that.
func (c *Clients) Limit(next http.Handler) http.Handler {
	return withCommonHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := c.of(r.RemoteAddr)
		limiter := from.requests
		if isScrape(r.URL.Path) {
			limiter = from.scrapes
		}
		if wait := take(limiter); wait > 0 {
			refuseForNow(w, wait, "too many requests")
			return
		}
		if !c.begin(&from.asking, maxClientRequests) {
			refuseForNow(w, time.Second, "too many requests at once")
			return
		}
		defer c.end(&from.asking)
		if r.Header.Get("Authorization") == "" {
			next.ServeHTTP(w, r)
			return
		}
		if missing := 1 - from.mistakes.Tokens(); missing > 0 {
			wait := time.Duration(missing / mistakesPerSecond * float64(time.Second))
			refuseForNow(w, wait, "too many wrong passwords")
			return
		}
		if !c.begin(&from.checking, maxChecking) {
			refuseForNow(w, time.Second, "too many passwords to check at once")
			return
		}
		try := &attempt{end: sync.OnceFunc(func() { c.end(&from.checking) })}
		defer try.end()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), attemptKey{}, try)))
		if !try.known {
			from.mistakes.Allow()
		}
	}))
}

// Known answers next as what requests reach whose clients are who they say.
func (*Clients) Known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		acquit(r)
		next.ServeHTTP(w, r)
	})
}

// acquit ends a request's attempt as one without a wrong password.
func acquit(r *http.Request) {
	if try, ok := r.Context().Value(attemptKey{}).(*attempt); ok {
		try.known = true
		try.end()
	}
}

// attemptKey is the context key of a request's attempt.
type attemptKey struct{}

// attempt is a request's attempt to say who sent it.
type attempt struct {
	// end is called when the password is checked, and again when the request ends.
	end func()
	// known says that the request got past the check, or did not come to it.
	known bool
}

// isScrape says whether a path is asked for by machines that watch hpad.
func isScrape(path string) bool {
	return path == "/metrics" || path == "/-/healthy" || path == "/-/ready"
}

// take takes one token, or answers how long to wait for one.
func take(limiter *rate.Limiter) time.Duration {
	now := time.Now()
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// refuseForNow answers 429 with the whole seconds to wait.
func refuseForNow(w http.ResponseWriter, wait time.Duration, what string) {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	writeError(w, http.StatusTooManyRequests, ErrorTooMany, fmt.Sprintf("%s from this address: try again in %d s", what, seconds))
}

// of answers the client of a remote address.
func (c *Clients) of(remote string) *client {
	key, ok := clientKey(remote)
	if !ok {
		return c.others
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known(key)
}

// known answers the client of a key. The lock is held.
func (c *Clients) known(key netip.Prefix) *client {
	if from, ok := c.clients[key]; ok {
		return from
	}
	if now := time.Now(); len(c.clients) >= maxClients && now.Sub(c.swept) >= sweepInterval {
		c.swept = now
		c.forget()
	}
	if len(c.clients) >= maxClients {
		return c.others
	}
	from := newClient()
	c.clients[key] = from
	return from
}

// forget drops the clients that are as good as new. The lock is held.
func (c *Clients) forget() {
	for key, from := range c.clients {
		if from.connections == 0 && from.asking == 0 && from.checking == 0 &&
			from.requests.Tokens() >= requestBurst && from.scrapes.Tokens() >= scrapeBurst && from.mistakes.Tokens() >= mistakeBurst {
			delete(c.clients, key)
		}
	}
}

// begin counts one more of what a client has under way; false when it has too
// many.
func (c *Clients) begin(count *int, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *count >= most {
		return false
	}
	*count++
	return true
}

func (c *Clients) end(count *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count--
}

// clientKey answers by what a remote address is counted; false for an address
// that is not of IP.
func clientKey(remote string) (netip.Prefix, bool) {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}, false
	}
	ip := address.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, err := ip.Prefix(bits)
	return prefix, err == nil
}

// clientListener bounds the connections of each client.
type clientListener struct {
	net.Listener
	clients *Clients
}

// Accept answers the next connection of a client that may have one more.
func (l *clientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key, ok := clientKey(conn.RemoteAddr().String())
		if !ok {
			return conn, nil
		}
		if from := l.clients.connect(key); from != nil {
			return &clientConn{Conn: conn, closed: sync.OnceFunc(func() { l.clients.end(&from.connections) })}, nil
		}
		_ = conn.Close() // the client is told nothing more
		if l.clients.refused != nil {
			l.clients.refused()
		}
	}
}

// connect counts a connection; nil when the client has too many.
func (c *Clients) connect(key netip.Prefix) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.known(key)
	if from.connections >= maxClientConnections {
		return nil
	}
	from.connections++
	return from
}

// clientConn tells when it is closed.
type clientConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *clientConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
