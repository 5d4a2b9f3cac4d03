package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// mistakeRepeat is after how long the same mistake in a web config is logged again.
const mistakeRepeat = time.Minute

// guard is around the toolkit. Where its answer is owed to a mistake in the web
// config and not to the client, the client is told so.
type guard struct {
	path string
	log  *zap.Logger
	// broken answers a client whose request cannot be let in because of that.
	broken http.Handler

	mu sync.Mutex
	// mistake is what was logged last, and logged when.
	mistake string
	logged  time.Time
}

// guardKey is the context key of a request's answer.
type guardKey struct{}

// answer is what a request is answered with while it is with the toolkit.
type answer struct {
	http.ResponseWriter
	guard   *guard
	request *http.Request
	// refused says that the client is answered already.
	refused bool
}

// outside answers next, which is the toolkit around what inside answered.
func (g *guard) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, guard: g, request: r}
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), guardKey{}, a)))
	})
}

// inside answers next, which the toolkit lets requests to: what it answers is its
// own.
func (*guard) inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(guardKey{}).(*answer); ok {
			w = a.ResponseWriter
		}
		next.ServeHTTP(w, r)
	})
}

// WriteHeader is called by the toolkit where it lets a request in no further.
func (a *answer) WriteHeader(status int) {
	if err := a.guard.mistakeBehind(status, a.request); err != nil {
		a.guard.note(err)
		a.Header().Del("WWW-Authenticate")
		a.refused = true
		a.guard.broken.ServeHTTP(a.ResponseWriter, a.request)
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write leaves out what the toolkit says to a client that is answered already.
func (a *answer) Write(text []byte) (int, error) {
	if a.refused {
		return len(text), nil
	}
	return a.ResponseWriter.Write(text)
}

// mistakeBehind answers the mistake in the web config to which the toolkit's answer
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

// note logs a mistake, once in a while if it stays.
func (g *guard) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); err.Error() != g.mistake || now.Sub(g.logged) >= mistakeRepeat {
		g.mistake, g.logged = err.Error(), now
		g.log.Error("the web config has a mistake", zap.String("web_config", g.path), zap.String("err", err.Error()))
	}
}
