package web

import (
	"context"
	"errors"
	"net/http"
)

// guard wraps the toolkit and replaces responses whose cause is an invalid web config and not the
// client.
type guard struct {
	path     string
	mistakes *Mistakes
	// broken serves the requests that are rejected because the web config is invalid.
	broken http.Handler
}

type guardKey struct{}

type response struct {
	http.ResponseWriter
	guard   *guard
	request *http.Request
	// done is set when the response has been replaced.
	done bool
}

// outside wraps the handler that contains the toolkit.
func (g *guard) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &response{ResponseWriter: w, guard: g, request: r}
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), guardKey{}, a)))
	})
}

// inside wraps the handler inside the toolkit. Its responses are not replaced.
func (*guard) inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(guardKey{}).(*response); ok {
			w = a.ResponseWriter
		}
		next.ServeHTTP(w, r)
	})
}

// WriteHeader is called when the toolkit rejects a request.
func (a *response) WriteHeader(status int) {
	if err := a.guard.configError(status, a.request); err != nil {
		a.guard.mistakes.Log(err)
		a.Header().Del("WWW-Authenticate")
		a.done = true
		a.guard.broken.ServeHTTP(a.ResponseWriter, a.request)
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write discards the body of a replaced response.
func (a *response) Write(text []byte) (int, error) {
	if a.done {
		return len(text), nil
	}
	return a.ResponseWriter.Write(text)
}

// configError returns the error in the web config that caused the toolkit's response: an unusable
// file, or an invalid password hash of the user. It returns nil if the client caused the response.
func (g *guard) configError(status int, r *http.Request) error {
	switch status {
	case http.StatusInternalServerError:
		if err := Check(g.path); err != nil {
			return err
		}
		return errors.New("a temporary read error")
	case http.StatusUnauthorized:
		user, _, named := r.BasicAuth()
		if !named {
			return nil
		}
		c, err := read(g.path)
		if err != nil {
			return nil //nolint:nilerr // The toolkit read the file and rejected the password.
		}
		if hash, known := c.Users[user]; known {
			return checkHash(user, string(hash))
		}
	}
	return nil
}
