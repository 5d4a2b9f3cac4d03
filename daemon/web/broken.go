package web

import (
	"context"
	"errors"
	"net/http"
)

// guard is around the toolkit. Where its response is owed to a mistake in the web
// config and not to the client, the client learns so.
type guard struct {
	path     string
	mistakes *Mistakes
	// broken serves requests that cannot be let in because of that.
	broken http.Handler
}

type guardKey struct{}

type response struct {
	http.ResponseWriter
	guard   *guard
	request *http.Request
	// done reports whether the client has its response already.
	done bool
}

// outside returns next, which is the toolkit around what inside answered.
func (g *guard) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &response{ResponseWriter: w, guard: g, request: r}
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), guardKey{}, a)))
	})
}

// inside returns next, which the toolkit lets requests to: what it responds is its
// own.
func (*guard) inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(guardKey{}).(*response); ok {
			w = a.ResponseWriter
		}
		next.ServeHTTP(w, r)
	})
}

// WriteHeader is called by the toolkit where it lets a request in no further.
func (a *response) WriteHeader(status int) {
	if err := a.guard.mistakeBehind(status, a.request); err != nil {
		a.guard.mistakes.Log(err)
		a.Header().Del("WWW-Authenticate")
		a.done = true
		a.guard.broken.ServeHTTP(a.ResponseWriter, a.request)
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write leaves out what the toolkit says to a client that is answered already.
func (a *response) Write(text []byte) (int, error) {
	if a.done {
		return len(text), nil
	}
	return a.ResponseWriter.Write(text)
}

// mistakeBehind returns the mistake in the web config to which the toolkit's response
// is owed: the file cannot be used at all, or a user's hash is none, so that no
// password is right. It is nil where it is the client's.
func (g *guard) mistakeBehind(status int, r *http.Request) error {
	switch status {
	case http.StatusInternalServerError:
		if err := Check(g.path); err != nil {
			return err
		}
		return errors.New("it could not be read a moment ago, and can be now")
	case http.StatusUnauthorized:
		user, _, named := r.BasicAuth()
		if !named {
			return nil
		}
		c, err := read(g.path)
		if err != nil {
			return nil //nolint:nilerr // The toolkit could read it a moment ago, and found the password wrong.
		}
		if hash, known := c.Users[user]; known {
			return checkHash(user, string(hash))
		}
	}
	return nil
}
