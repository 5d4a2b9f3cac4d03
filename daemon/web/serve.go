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

// Serve serves on listener as the web config at path says, and returns what
// [http.Server.Serve] does. Users, passwords and certificates are read again as
// they are needed; whether there is TLS at all, http2 and rate_limit are as they
// were when Serve began. What outer makes of the handler sees requests before
// anybody has to say who they are, and so can keep a flood away from the hashes.
// What is logged has no secret of the file; what server logs itself needs [Scrub].
//
// Requests that cannot be let in because of a mistake in the file, and not of the
// client's, go to broken: all of them while the file cannot be read, and those of a
// user whose hash is none.
func Serve(listener net.Listener, server *http.Server, path string, log *zap.Logger, outer func(http.Handler) http.Handler, broken http.Handler) error {
	// The toolkit puts its handler around the server's own. The base context is
	// asked for after that, and before the first connection is accepted.
	guard := &guard{path: path, mistakes: NewMistakes(path, log), broken: broken}
	server.Handler = guard.inside(server.Handler)
	server.BaseContext = func(net.Listener) context.Context {
		server.Handler = outer(guard.outside(markUsers(path, server.Handler)))
		return context.Background()
	}
	logger := slog.New(scrubbing{zapslog.NewHandler(log.Core(), zapslog.WithName(log.Name()))})
	return toolkit.Serve(listener, server, &toolkit.FlagConfig{WebConfigFile: &path}, logger)
}

// scrubbing keeps values that errors quote out of the log.
type scrubbing struct{ slog.Handler }

// unreadable is what the toolkit logs at every request while it cannot read the web
// config, which is logged once in a while instead.
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
