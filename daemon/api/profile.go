package api

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxProfileSeconds is the maximum duration of a profile.
const MaxProfileSeconds = 120

// ProfileSeconds has the kinds of profiles of the process, with the names of net/http/pprof, and
// their default duration in seconds; 0 for a snapshot.
var ProfileSeconds = map[string]int{"allocs": 0, "goroutine": 0, "heap": 0, "profile": 30, "trace": 5}

// profiling is locked while a profile is in progress: the runtime takes one at a time.
var profiling sync.Mutex

// profile serves a profile of the process. Its duration does not count for the time limits of
// the server.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	seconds, ok := ProfileSeconds[name]
	if !ok {
		names := slices.Sorted(maps.Keys(ProfileSeconds))
		writeError(w, http.StatusNotFound, ErrorNotFound, fmt.Sprintf("no profile named %q: there are %s", name, strings.Join(names, ", ")))
		return
	}
	if text := r.URL.Query().Get("seconds"); text != "" && seconds > 0 {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil || seconds < 1 || seconds > MaxProfileSeconds {
			writeError(w, http.StatusBadRequest, ErrorBadData, fmt.Sprintf("seconds = %q: must be from 1 to %d", text, MaxProfileSeconds))
			return
		}
	}
	if !profiling.TryLock() {
		w.Header().Set("Retry-After", strconv.Itoa(MaxProfileSeconds))
		writeError(w, http.StatusTooManyRequests, ErrorTooMany, "another profile is in progress, and only one is taken at a time")
		return
	}
	defer profiling.Unlock()
	deadlines := http.NewResponseController(w) // a writer without deadlines has none to move
	_ = deadlines.SetReadDeadline(time.Time{})
	_ = deadlines.SetWriteDeadline(time.Now().Add(time.Duration(seconds)*time.Second + writeTimeout))
	timed := r.Clone(r.Context())
	timed.Form = url.Values{"seconds": {strconv.Itoa(seconds)}}
	switch name {
	case "profile":
		pprof.Profile(w, timed)
	case "trace":
		pprof.Trace(w, timed)
	default:
		timed.Form = url.Values{}
		pprof.Handler(name).ServeHTTP(w, timed)
	}
}

// identified refuses clients who may not write, and other sites: what it serves, a
// profile or what else is said of it, is read, but neither for everybody nor for nothing.
func identified(access Access, what string, handler http.HandlerFunc) http.HandlerFunc {
	sameOrigin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		asWrite := r.WithContext(r.Context())
		asWrite.Method = http.MethodPost
		if sameOrigin.Check(asWrite) != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, "cross-origin requests for "+what+" are refused")
			return
		}
		if _, err := access(r); err != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, r.URL.Path+" is "+what+", "+err.Error())
			return
		}
		handler(w, r)
	}
}

// Profile has the daemon take a profile of itself, of an instant or for so many
// seconds, and writes it as it comes.
func (c *Client) Profile(ctx context.Context, name string, seconds int, to io.Writer) error {
	path := "/debug/pprof/" + name
	if seconds > 0 {
		path += "?seconds=" + strconv.Itoa(seconds)
	}
	return c.fetch(ctx, path, responseTimeout+time.Duration(seconds)*time.Second, to)
}
