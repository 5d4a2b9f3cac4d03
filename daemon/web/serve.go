// Package web serves HTTP with a web config: the file format of Prometheus's exporter-toolkit for
// TLS, client certificates and users with passwords.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// Serve serves on listener with the web config at path, and returns the error of
// [http.Server.Serve]. It reads users, passwords and certificates again when they are needed,
// but uses TLS, http2 and rate_limit of the start. Outer wraps the handler
// before authentication, so that it can limit the number of password checks. The log has no
// secrets of the file; messages of server itself need [Scrub].
//
// The handler broken serves requests that are rejected because of an invalid file: all requests
// while the file cannot be read, and the requests of a user with an invalid hash.
func Serve(listener net.Listener, server *http.Server, path string, log *zap.Logger, outer func(http.Handler) http.Handler, broken http.Handler) error {
	// The toolkit wraps the handler of the server. It requests the base context afterwards and
	// before the first connection.
	guard := &guard{path: path, mistakes: NewMistakes(path, log), broken: broken}
	server.Handler = guard.inside(server.Handler)
	server.BaseContext = func(net.Listener) context.Context {
		server.Handler = outer(guard.outside(markUsers(path, server.Handler)))
		return context.Background()
	}
	logger := slog.New(scrubbing{zapslog.NewHandler(log.Core(), zapslog.WithName(log.Name()))})
	return toolkit.Serve(listener, server, &toolkit.FlagConfig{WebConfigFile: &path}, logger)
}

// scrubbing removes quoted values from the log.
type scrubbing struct{ slog.Handler }

// unreadable is the message of the toolkit at every request while it cannot read the web
// config. [Mistakes] logs it less often.
const unreadable = "Unable to parse configuration"

// Handle logs a record without quoted values.
func (s scrubbing) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == unreadable {
		return nil
	}
	scrubbed := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(Scrub(attr.Value.String()))
		}
		scrubbed.AddAttrs(attr)
		return true
	})
	return s.Handler.Handle(ctx, scrubbed)
}

// mistakeRepeat is the interval at which the same error is logged again.
const mistakeRepeat = time.Minute

// Mistakes logs errors in a web config: a new error immediately, and the same error again after
// a minute. It is safe for concurrent use.
type Mistakes struct {
	path string
	log  *zap.Logger

	mu sync.Mutex
	// last is the last logged error, and logged its time.
	last   string
	logged time.Time
}

// NewMistakes returns a logger for errors in the web config at path.
func NewMistakes(path string, log *zap.Logger) *Mistakes { return &Mistakes{path: path, log: log} }

// Check checks the file and logs its error. An error after a valid file is new.
func (m *Mistakes) Check() {
	if err := Check(m.path); err != nil {
		m.Log(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = ""
}

// Log logs an error.
func (m *Mistakes) Log(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); err.Error() != m.last || now.Sub(m.logged) >= mistakeRepeat {
		m.last, m.logged = err.Error(), now
		m.log.Error("invalid web config", zap.String("web_config", m.path), zap.String("err", err.Error()))
	}
}
