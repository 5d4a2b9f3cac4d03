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

// ProfileSeconds maps the names of profiles in net/http/pprof to their default duration in
// seconds; 0 means a snapshot.
var ProfileSeconds = map[string]int{"allocs": 0, "goroutine": 0, "heap": 0, "profile": 30, "trace": 5}

// profiling is locked while a profile is in progress, because the runtime takes only one at a
// time.
var profiling sync.Mutex

// profile serves a profile of the process. It extends the server's time limits by the duration of
// the profile.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	seconds, ok := ProfileSeconds[name]
	if !ok {
		names := slices.Sorted(maps.Keys(ProfileSeconds))
		writeError(w, http.StatusNotFound, ErrorNotFound, fmt.Sprintf("no profile named %q: the profiles are %s", name, strings.Join(names, ", ")))
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
	deadlines := http.NewResponseController(w) // fails only for writers without deadlines
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

// identified rejects requests from clients that may not write, and from other web sites. It is
// for expensive reads, and for reads that reveal more than the API.
func identified(access Access, what string, handler http.HandlerFunc) http.HandlerFunc {
	sameOrigin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		asWrite := r.WithContext(r.Context())
		asWrite.Method = http.MethodPost
		if sameOrigin.Check(asWrite) != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, "cross-origin requests for "+what+" are rejected")
			return
		}
		if _, err := access(r); err != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, r.URL.Path+" is "+what+", "+err.Error())
			return
		}
		handler(w, r)
	}
}

// Profile writes a profile of the daemon, which is a snapshot or covers a number of seconds.
func (c *Client) Profile(ctx context.Context, name string, seconds int, to io.Writer) error {
	path := "/debug/pprof/" + name
	if seconds > 0 {
		path += "?seconds=" + strconv.Itoa(seconds)
	}
	return c.fetch(ctx, path, responseTimeout+time.Duration(seconds)*time.Second, to)
}
