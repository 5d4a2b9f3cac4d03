// Package web serves HTTP according to a web config, which is the file format of Prometheus's
// exporter-toolkit for TLS, client certificates and users with passwords.
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
// [http.Server.Serve]. It reads users, passwords and certificates again whenever they are needed.
// The settings for TLS, http2 and rate_limit are read once at startup. Outer wraps the handler
// before authentication, so that it can limit the number of password checks. The log contains no
// secrets from the file. Messages of server itself must pass through [Scrub].
//
// The handler broken serves requests that are rejected because the file is invalid. These are all
// requests while the file cannot be read, and the requests of a user whose hash is invalid.
func Serve(listener net.Listener, server *http.Server, path string, log *zap.Logger, outer func(http.Handler) http.Handler, broken http.Handler) error {
	// The toolkit wraps the server's handler. After that and before the first connection, it calls
	// BaseContext.
	guard := &guard{path: path, mistakes: NewMistakes(path, log), broken: broken}
	server.Handler = guard.inside(server.Handler)
	server.BaseContext = func(net.Listener) context.Context {
		server.Handler = outer(guard.outside(markUsers(path, server.Handler)))
		return context.Background()
	}
	logger := slog.New(scrubbing{zapslog.NewHandler(log.Core(), zapslog.WithName(log.Name()))})
	return toolkit.Serve(listener, server, &toolkit.FlagConfig{WebConfigFile: &path}, logger)
}

// scrubbing removes quoted values from log records.
type scrubbing struct{ slog.Handler }

// unreadable is the message that the toolkit logs for every request while it cannot read the web
// config. [Mistakes] logs the error less often.
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

// mistakeRepeat is the interval at which an unchanged error is logged again.
const mistakeRepeat = time.Minute

// Mistakes logs errors in a web config. It logs a new error immediately and an unchanged error once
// per minute. It is safe for concurrent use.
type Mistakes struct {
	path string
	log  *zap.Logger

	mu sync.Mutex
	// last is the last logged error, and logged is the time when it was logged.
	last   string
	logged time.Time
}

// NewMistakes returns a Mistakes for the web config at path.
func NewMistakes(path string, log *zap.Logger) *Mistakes { return &Mistakes{path: path, log: log} }

// Check checks the file and logs its error. After a valid file, every error is new.
func (m *Mistakes) Check() {
	if err := Check(m.path); err != nil {
		m.Log(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = ""
}

// Log logs an error in the file.
func (m *Mistakes) Log(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); err.Error() != m.last || now.Sub(m.logged) >= mistakeRepeat {
		m.last, m.logged = err.Error(), now
		m.log.Error("invalid web config", zap.String("web_config", m.path), zap.String("err", err.Error()))
	}
}
