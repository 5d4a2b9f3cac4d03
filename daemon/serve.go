package daemon

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
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/daemon/web"
)

// Listeners are where a daemon is served; nil ones are left out.
type Listeners struct {
	// Socket allows everything. TCP is read-only but for clients who said who they
	// are, as WebConfig asks them.
	TCP    net.Listener
	Socket *api.Socket
	// WebConfig is the path of the file that protects TCP; empty means that nothing
	// does.
	WebConfig string
	// AllowedHosts are names that requests over TCP may be for, as in config.Daemon.
	AllowedHosts []string
	// Writers are who may write over TCP until a configuration is in force; empty is
	// all whom WebConfig knows.
	Writers []string
	// Page has the page served over TCP.
	Page bool
}

// Listen opens the listeners that the configuration names.
//
// The error is a [config.Error] of the key that says where, without its place.
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
			return Listeners{}, errors.Join(config.Error{Key: "daemon.listen", Value: strconv.Quote(c.Listen), Detail: listenTrouble(c.Listen, err)}, l.Close())
		}
	}
	return l, nil
}

// listenTrouble says why nothing can listen at an address, and what to do.
func listenTrouble(address string, err error) string {
	cause := err.Error()
	if failed, ok := errors.AsType[*os.SyscallError](err); ok {
		cause = failed.Err.Error()
	}
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		cause += ": another program listens there, perhaps another hpad; \"ss -ltnp sport = :" + port + "\" names it; stop it, or write another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cause += ": this machine has no such address; write one of its own, or \":" + port + "\" for all"
	case errors.Is(err, syscall.EACCES):
		cause += ": write a port from 1024 on"
	}
	return cause
}

// Close closes the listeners that nobody serves.
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

// shutdownWait bounds how long requests under way may take at the end.
const shutdownWait = 3 * time.Second

// Served is what is served.
type Served struct {
	Daemon page.Daemon
	// Alone is what members of a cluster get, of this one alone; nil without a cluster.
	// Members are their users, who may say for whom they ask.
	Alone   page.Daemon
	Members []string
	// Gatherer gathers the metrics.
	Gatherer prometheus.Gatherer
	// Writers returns who may write over TCP, none for all whom the web config knows;
	// false before a configuration is in force.
	Writers func() (names []string, known bool)
	// Log is where it is logged to; not nil.
	Log *zap.Logger
}

// service is what is served on some listeners.
type service struct {
	Served
	// page reports whether the page is served over TCP.
	page bool
	// writers are those until a configuration is in force.
	writers []string
	log     *zap.Logger
}

// Serve serves on the listeners until ctx ends, and closes them. The error says which
// listener failed.
func Serve(ctx context.Context, l Listeners, served Served) error {
	s := &service{Served: served, page: l.Page, writers: l.Writers, log: served.Log}
	return s.serve(ctx, l)
}

// mayWrite returns who may write over TCP.
func (s *service) mayWrite() []string {
	if names, known := s.Writers(); known {
		return names
	}
	return s.writers
}

// handler returns the API.
func (s *service) handler(access api.Access) http.Handler {
	whole := api.NewHandler(s.Daemon, s.Gatherer, access)
	if s.Alone == nil {
		return whole
	}
	return api.ByMember(api.NewHandler(s.Alone, s.Gatherer, access), whole)
}

// serve serves on the listeners until ctx ends, and closes them. The error says which
// listener failed.
func (s *service) serve(ctx context.Context, l Listeners) error {
	group, ctx := errgroup.WithContext(ctx)
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
				return server.Close() // a client that takes its time is no failure of ours
			}
			return nil
		})
	}
	if l.Socket != nil {
		server := api.NewServer(s.handler(api.Full), s.serverLog(""))
		server.ConnContext = api.PeerContext
		run(server, l.Socket, server.Serve)
		group.Go(func() error { s.keepSocket(ctx, l.Socket); return nil })
	}
	if l.TCP != nil {
		server, serve := s.serverTCP(l)
		run(server, l.TCP, serve)
	}
	return group.Wait()
}

// socketLook is how often it is looked whether the socket is still there.
const socketLook = 5 * time.Second

// keepSocket makes the socket again when somebody removes it, until ctx ends.
func (s *service) keepSocket(ctx context.Context, socket *api.Socket) {
	ticker := time.NewTicker(socketLook)
	defer ticker.Stop()
	told := ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		renewed, err := socket.Renew()
		switch {
		case err != nil && err.Error() != told:
			s.log.Error("the socket was removed and cannot be made again", zap.Stringer("socket", socket.Addr()), zap.Error(err))
		case err == nil && renewed:
			s.log.Warn("the socket was removed and is made again", zap.Stringer("socket", socket.Addr()))
		}
		told = ""
		if err != nil {
			told = err.Error()
		}
	}
}

// serverTCP returns the server of the TCP listener, which anybody may reach, and
// how it serves.
func (s *service) serverTCP(l Listeners) (*http.Server, func(net.Listener) error) {
	clients := new(api.Clients)
	outer := func(handler http.Handler) http.Handler {
		if isLoopback(l.TCP.Addr()) || len(l.AllowedHosts) > 0 {
			handler = api.CheckHosts(l.AllowedHosts, handler)
		}
		return clients.Limit(handler)
	}
	if l.WebConfig == "" {
		// Nobody asks for a password, so none is checked.
		server := api.NewServer(outer(api.Checked(s.withPage(api.ReadOnly))), s.serverLog(""))
		return server, func(listener net.Listener) error { return server.Serve(clients.Listener(listener)) }
	}
	if !isLoopback(l.TCP.Addr()) && web.IsExposed(l.WebConfig) {
		s.log.Warn("passwords are sent without TLS", zap.String("web_config", l.WebConfig), zap.Stringer("address", l.TCP.Addr()))
	}
	access := api.Writers(s.mayWrite, func(r *http.Request) (string, error) {
		author, err := web.Identify(l.WebConfig, r)
		if err != nil {
			return "", fmt.Errorf("and %w", err)
		}
		return author, nil
	})
	handler := s.withPage(api.Members(access, s.Members))
	server := api.NewServer(api.Checked(handler), s.serverLog(l.WebConfig))
	return server, func(listener net.Listener) error {
		return web.Serve(clients.Listener(listener), server, l.WebConfig, s.log.Named("http"), outer, api.Checked(api.BrokenWebConfig()))
	}
}

// withPage returns the API, with the page in front of it unless the configuration disables it.
func (s *service) withPage(access api.Access) http.Handler {
	if !s.page {
		return s.handler(access)
	}
	return page.New(s.Daemon, access, s.handler(access))
}

// isLoopback reports whether an address can be reached from this machine alone.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// The lines that a server may log of its own: mistakes of clients, of which there
// may be any number.
const (
	serverLogBurst    = 10
	serverLogInterval = time.Minute
	// webConfigInterval is how often handshakes that fail have the web config looked at.
	webConfigInterval = time.Second
)

// serverLog returns the log of an HTTP server, which leaves out what is too much.
// Where webConfig is not "", mistakes in that file are logged apart from those of
// clients, among which they would be lost.
func (s *service) serverLog(webConfig string) *log.Logger {
	server := &serverLog{
		log:   s.log.Named("http"),
		limit: rate.NewLimiter(rate.Every(serverLogInterval/serverLogBurst), serverLogBurst),
		looks: rate.NewLimiter(rate.Every(webConfigInterval), 1),
	}
	if webConfig != "" {
		server.mistakes = web.NewMistakes(webConfig, server.log)
	}
	return log.New(server, "", 0)
}

// serverLog logs lines up to a limit. A [log.Logger] writes them one by one.
type serverLog struct {
	log   *zap.Logger
	limit *rate.Limiter
	// mistakes are those in the web config, which is looked at as often as looks allows;
	// nil where there is no web config.
	mistakes *web.Mistakes
	looks    *rate.Limiter
}

// Write logs a line, or leaves it out. Panics of hpad's own are never left out.
func (s *serverLog) Write(line []byte) (int, error) {
	if s.mistakes != nil && bytes.HasPrefix(line, []byte("http: TLS handshake error")) && s.looks.Allow() {
		s.mistakes.Check() // a mistake fails every handshake
	}
	switch {
	case bytes.HasPrefix(line, []byte("http: panic")):
		s.log.Error("panic in the HTTP server", zap.String("err", string(bytes.TrimSpace(line))))
	case s.limit.Allow():
		s.log.Warn("a client was not served", zap.String("err", web.Scrub(string(bytes.TrimSpace(line)))))
	}
	return len(line), nil
}
