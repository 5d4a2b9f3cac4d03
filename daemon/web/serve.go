// Package web serves HTTP according to a web config: the file format of Prometheus's
// exporter-toolkit for TLS, client certificates and users with passwords.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// Serve serves on listener with the web config at path, and returns the error of
// [http.Server.Serve]. It reads users, passwords and certificates again whenever it needs them. It
// reads the settings for TLS, http2 and rate_limit once, at startup. outer wraps the handler before
// authentication, so that it can limit the number of password checks. The log contains no secrets
// from the file. Messages of server itself must pass through [Scrub]. While the file is invalid,
// every request gets status 500, and the error is logged.
func Serve(listener net.Listener, server *http.Server, path string, log *zap.Logger, outer func(http.Handler) http.Handler) error {
	// The toolkit wraps the server's handler. It then calls BaseContext before the first
	// connection.
	server.BaseContext = func(net.Listener) context.Context {
		server.Handler = outer(markUsers(path, server.Handler))
		return context.Background()
	}
	logger := slog.New(scrubbing{zapslog.NewHandler(log.Core(), zapslog.WithName(log.Name()))})
	return toolkit.Serve(listener, server, &toolkit.FlagConfig{WebConfigFile: &path}, logger)
}

// scrubbing removes quoted values from log records.
type scrubbing struct{ slog.Handler }

// Handle logs a record without quoted values.
func (s scrubbing) Handle(ctx context.Context, record slog.Record) error {
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
