// Package server serves the API, the metrics and the page of a daemon on a Unix socket and on
// TCP.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/daemon/web"
	"github.com/hpad/hpad/guard"
)

// Listeners accept the connections of clients; each may be nil.
type Listeners struct {
	// TCP serves the API over TCP. It is read-only, except for writers that authenticate as
	// WebConfig requires.
	TCP net.Listener
	// Socket serves the API on a Unix socket, which permits all requests.
	Socket *api.Socket
	// WebConfig is the path of the file that configures TLS and users for TCP. It is empty if
	// neither is configured.
	WebConfig string
	// AllowedHosts are the permitted Host headers, as in config.Daemon.
	AllowedHosts []string
	// Writers lists the users that can write over TCP until a configuration is active. If it is
	// empty, all users of WebConfig can write.
	Writers []string
	// Page enables the page over TCP.
	Page bool
}

// Listen opens the configured listeners. The error is a [config.Error] with the key, but without a
// position.
func Listen(ctx context.Context, c config.Daemon) (Listeners, error) {
	l := Listeners{WebConfig: c.WebConfig, AllowedHosts: c.AllowedHosts, Writers: c.Writers, Page: c.Page}
	var err error
	if c.Socket != "" {
		if l.Socket, err = api.ListenSocket(c.Socket, c.SocketGroup); err != nil {
			return Listeners{}, config.Error{Key: "daemon.socket", Value: strconv.Quote(c.Socket), Detail: errors.Unwrap(err).Error()}
		}
	}
	if c.Listen != "" {
		if l.TCP, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen); err != nil {
			return Listeners{}, errors.Join(config.Error{Key: "daemon.listen", Value: strconv.Quote(c.Listen), Detail: listenProblem(c.Listen, err)}, l.Close())
		}
	}
	return l, nil
}

// listenProblem returns the cause of a failed listen, and a remedy.
func listenProblem(address string, err error) string {
	cause := err.Error()
	if failed, ok := errors.AsType[*os.SyscallError](err); ok {
		cause = failed.Err.Error()
	}
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		cause += ": another program, perhaps another hpad, uses this port; \"ss -ltnp sport = :" + port + "\" shows it; stop it, or use another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cause += ": this host does not have the address; use one of its addresses, or \":" + port + "\" for all"
	case errors.Is(err, syscall.EACCES):
		cause += ": use a port of 1024 or higher"
	}
	return cause
}

// Close closes listeners that are not being served.
func (l Listeners) Close() error {
	var errs []error
	if l.TCP != nil {
		errs = append(errs, l.TCP.Close())
	}
	if l.Socket != nil {
		errs = append(errs, l.Socket.Close())
	}
	return errors.Join(errs...)
}

// shutdownWait is the time that active requests get to finish at shutdown.
const shutdownWait = 3 * time.Second

// Options are the dependencies of a server.
type Options struct {
	Daemon page.Daemon
	// Alone is the view of this member alone, which the other members of a cluster request. It is
	// nil without a cluster.
	Alone page.Daemon
	// IsMember reports whether a user of the web config is another member, which may send requests
	// on behalf of users. It is nil without a cluster.
	IsMember func(user string) bool
	Gatherer prometheus.Gatherer
	// Writers returns the users that can write over TCP. If names is empty, all users of the web
	// config can write. known is false before a configuration is active.
	Writers func() (names []string, known bool)
	// Log is required.
	Log *zap.Logger
}

type server struct {
	options   Options
	listeners Listeners
	log       *zap.Logger
}

// Serve serves on the listeners until ctx ends, and then closes them. The error names the listener
// that failed.
func Serve(ctx context.Context, l Listeners, options Options) error {
	s := &server{options: options, listeners: l, log: options.Log}
	return s.serve(ctx)
}

// writers returns the users that can write over TCP.
func (s *server) writers() []string {
	if names, known := s.options.Writers(); known {
		return names
	}
	return s.listeners.Writers
}

// handler returns the handler of the API, without the page.
func (s *server) handler(access api.Access) http.Handler {
	all := api.NewHandler(s.options.Daemon, s.options.Gatherer, access)
	if s.options.Alone == nil {
		return all
	}
	return api.ByMember(api.NewHandler(s.options.Alone, s.options.Gatherer, access), all)
}

func (s *server) serve(ctx context.Context) error {
	l := s.listeners
	group, ctx := guard.WithContext(ctx)
	run := func(server *http.Server, listener net.Listener, serve func(net.Listener) error) {
		group.Go(func() error {
			if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
			defer cancel()
			if err := server.Shutdown(wait); err != nil {
				return server.Close() // a slow client is not an error
			}
			return nil
		})
	}
	if l.Socket != nil {
		server := api.NewServer(new(api.Clients).LimitLong(s.handler(api.Full)), newServerLog(s.log))
		server.ConnContext = api.PeerContext
		run(server, l.Socket, server.Serve)
	}
	if l.TCP != nil {
		server, serve := s.serverTCP()
		run(server, l.TCP, serve)
	}
	return group.Wait()
}

// serverTCP returns the server of the TCP listener and its serve function.
func (s *server) serverTCP() (*http.Server, func(net.Listener) error) {
	l, clients := s.listeners, new(api.Clients)
	outer := func(handler http.Handler) http.Handler {
		if isLoopback(l.TCP.Addr()) || len(l.AllowedHosts) > 0 {
			handler = api.CheckHosts(l.AllowedHosts, handler)
		}
		return clients.Limit(handler)
	}
	if l.WebConfig == "" {
		server := api.NewServer(outer(api.Checked(s.withPage(api.ReadOnly))), newServerLog(s.log))
		return server, func(listener net.Listener) error { return server.Serve(clients.Listener(listener)) }
	}
	if !isLoopback(l.TCP.Addr()) && web.IsExposed(l.WebConfig) {
		s.log.Warn("passwords are sent without TLS", zap.String("web_config", l.WebConfig), zap.Stringer("address", l.TCP.Addr()))
	}
	access := api.Writers(s.writers, func(r *http.Request) (string, error) {
		author, err := web.Identify(l.WebConfig, r)
		if err != nil {
			return "", fmt.Errorf("and %w", err)
		}
		return author, nil
	})
	handler := s.withPage(api.Members(access, s.options.IsMember))
	server := api.NewServer(api.Checked(handler), newServerLog(s.log))
	return server, func(listener net.Listener) error {
		return web.Serve(clients.Listener(listener), server, l.WebConfig, s.log.Named("http"), outer)
	}
}

// withPage returns the handler of the API and, unless the configuration disables it, of the page.
func (s *server) withPage(access api.Access) http.Handler {
	if !s.listeners.Page {
		return s.handler(access)
	}
	return page.New(s.options.Daemon, access, s.handler(access))
}

// isLoopback reports whether only this host can reach an address.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// The HTTP server logs at most serverLogBurst client errors per serverLogInterval.
const (
	serverLogBurst    = 10
	serverLogInterval = time.Minute
)

// newServerLog returns the rate-limited log of an HTTP server.
func newServerLog(to *zap.Logger) *log.Logger {
	limit := rate.NewLimiter(rate.Every(serverLogInterval/serverLogBurst), serverLogBurst)
	return log.New(&serverLog{to.Named("http"), limit}, "", 0)
}

// serverLog limits the rate of log lines. A [log.Logger] calls Write once per line.
type serverLog struct {
	log   *zap.Logger
	limit *rate.Limiter
}

// Write logs a line, or drops it. Panics are always logged.
func (s *serverLog) Write(line []byte) (int, error) {
	switch {
	case bytes.HasPrefix(line, []byte("http: panic")):
		s.log.Error("panic in the HTTP server", zap.String("err", string(bytes.TrimSpace(line))))
	case s.limit.Allow():
		s.log.Warn("request not served", zap.String("err", web.Scrub(string(bytes.TrimSpace(line)))))
	}
	return len(line), nil
}
