package api

import (
	"errors"
	"net/http"
)

// Access returns nil for a request that may write, or an error that says why not and
// what to do. It is called for each write. It is safe for concurrent use.
type Access func(r *http.Request) error

// errReadOnly is why a listener without access refuses writes.
var errReadOnly = errors.New(`which this listener does not accept: use the unix socket, as the hpad commands do, or let clients say who they are with daemon.web_config`)

// ReadOnly refuses every write. It is for TCP as long as nobody has to say who
// they are there.
func ReadOnly(*http.Request) error { return errReadOnly }

// Full allows everything. It is for the unix socket, which file permissions
// guard.
func Full(*http.Request) error { return nil }

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
