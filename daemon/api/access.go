package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Access returns who asks for a write, or an error that says why the request may not
// write and what to do. The name is empty where the system has none. It is called for
// each write. It is safe for concurrent use.
type Access func(r *http.Request) (author string, err error)

// errReadOnly is why a listener without access refuses writes.
var errReadOnly = errors.New(`which this listener does not accept: use the unix socket, as the hpad commands do, or let clients say who they are with daemon.web_config`)

// ReadOnly refuses every write. It is for TCP as long as nobody has to say who
// they are there.
func ReadOnly(*http.Request) (string, error) { return "", errReadOnly }

// Full allows everything. It is for the unix socket, which file permissions guard: who
// asks is the user of the process at its other end, where the server knows its
// connections by PeerContext.
func Full(r *http.Request) (string, error) { return peerUser(r.Context()), nil }

// Writers returns the access of those whom identify finds and writers names. Without a
// name there it is all whom identify finds. Both are asked anew each time.
func Writers(writers func() []string, identify Access) Access {
	return func(r *http.Request) (string, error) {
		author, err := identify(r)
		if err != nil {
			return "", err
		}
		if allowed := writers(); len(allowed) > 0 && !slices.Contains(allowed, author) {
			return "", fmt.Errorf("and %q is not in daemon.writers, which names who may write over TCP: ask one of them, or have the name added and hpad reloaded", author)
		}
		return author, nil
	}
}

// Authors of changes of the configuration that no user requested.
const (
	AuthorLabels = "labels"
	AuthorSignal = "SIGHUP"
)

// WithAuthor returns a context of a write that author requests.
func WithAuthor(ctx context.Context, author string) context.Context {
	return context.WithValue(ctx, authorKey{}, author)
}

// authorKey is the context key of who asked for a write.
type authorKey struct{}

// Author returns who asked for the write that a context is of; empty where the system
// has no name, and for what hpad does by itself.
func Author(ctx context.Context) string {
	author, _ := ctx.Value(authorKey{}).(string)
	return author
}

// BrokenWebConfig returns the handler of requests that cannot be let in because the web
// config has a mistake: it is the server's, and nobody's password is wrong. What is in
// the file is not shown.
func BrokenWebConfig() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusInternalServerError, ErrorInternal, brokenWebConfig)
	})
}

// brokenWebConfig is the message while nobody can be let in.
const brokenWebConfig = `the server cannot tell who asks: its web config has a mistake or cannot be read; its log and "hpad check" on the server say what is wrong`
