package api

import (
	"net/http"
	"net/http/pprof"
	rpprof "runtime/pprof"
)

// profileQuery contains the parameters of a profile.
type profileQuery struct {
	// Seconds is the duration of profile (default 30) and trace (default 1). All other kinds are
	// snapshots.
	Seconds float64 `toml:"seconds"`
}

// profile serves a profile of the process, as net/http/pprof does. The handlers of net/http/pprof
// extend the time limit for the response.
func profile(w http.ResponseWriter, r *http.Request, _ profileQuery) {
	switch name := r.PathValue("profile"); {
	case name == "profile":
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case rpprof.Lookup(name) == nil:
		writeError(w, ErrorNotFound, "no such profile: "+name)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
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
			writeError(w, ErrorForbidden, "cross-origin requests for "+what+" are rejected")
			return
		}
		if _, err := access(r); err != nil {
			writeError(w, ErrorForbidden, r.URL.Path+" is "+what+", "+err.Error())
			return
		}
		handler(w, r)
	}
}
