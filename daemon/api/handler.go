package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// NewHandler returns the handler of everything hpad serves over HTTP: the JSON
// API, health, readiness, reload, the metrics of gatherer, profiles of the process
// itself and an index. It is safe for concurrent use.
func NewHandler(d Daemon, gatherer prometheus.Gatherer, access Access) http.Handler {
	mux := http.NewServeMux()
	for pattern, answers := range routes(d, gatherer, access) {
		mux.Handle(pattern, answers)
	}
	mux.HandleFunc("/", noSuchPath)

	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusForbidden, ErrorForbidden, "cross-origin writes are refused")
	}))
	return withCommonHeaders(withBodyLimit(sameOrigin.Handler(mux)))
}

// routes returns every path with its methods. The description of the API has the same.
func routes(d Daemon, gatherer prometheus.Gatherer, access Access) map[string]methods {
	h := handlers{daemon: d, reading: make(chan struct{}, maxHistoryReads)}
	return map[string]methods{
		"/{$}":                               {http.MethodGet: index},
		"/metrics":                           {http.MethodGet: metricsHandler(gatherer).ServeHTTP},
		"/-/healthy":                         {http.MethodGet: h.healthy},
		"/-/ready":                           {http.MethodGet: h.ready},
		"/-/reload":                          {http.MethodPost: writing(access, h.reload)},
		"/api/v1/autoscalers":                {http.MethodGet: h.autoscalers},
		"/api/v1/autoscalers/{name}":         {http.MethodGet: h.autoscaler},
		"/api/v1/autoscalers/{name}/explain": {http.MethodGet: h.explain},
		"/api/v1/autoscalers/{name}/history": {http.MethodGet: h.history},
		"/api/v1/autoscalers/{name}/history/verify": {http.MethodGet: identified(access, "a verification of the history", h.verify)},
		"/api/v1/autoscalers/{name}/instances":      {http.MethodGet: h.instances},
		"/api/v1/autoscalers/{name}/graph":          {http.MethodGet: h.graph},
		"/api/v1/autoscalers/{name}/pause":          {http.MethodPost: writing(access, h.owned(h.pause))},
		"/api/v1/autoscalers/{name}/resume":         {http.MethodPost: writing(access, h.owned(h.resume))},
		"/api/v1/autoscalers/{name}/scale":          {http.MethodPost: writing(access, h.owned(h.scale))},
		"/api/v1/autoscalers/{name}/evaluate":       {http.MethodPost: writing(access, h.owned(h.evaluate))},
		"/api/v1/fleets/{fleet}/pause":              {http.MethodPost: writing(access, h.owned(h.pause))},
		"/api/v1/fleets/{fleet}/resume":             {http.MethodPost: writing(access, h.owned(h.resume))},
		"/api/v1/pause":                             {http.MethodPost: writing(access, h.pause)},
		"/api/v1/resume":                            {http.MethodPost: writing(access, h.resume)},
		"/api/v1/pauses":                            {http.MethodGet: h.pauses},
		"/api/v1/history":                           {http.MethodGet: h.wholeHistory},
		"/api/v1/history/verify":                    {http.MethodGet: identified(access, "a verification of the history", h.verify)},
		"/api/v1/cluster":                           {http.MethodGet: h.cluster},
		"/api/v1/cluster/adopt":                     {http.MethodPost: writing(access, h.adopt)},
		"/api/v1/discovery":                         {http.MethodGet: h.discovery},
		"/api/v1/status/reload":                     {http.MethodGet: identified(access, "a trial of a reload", h.reloadChanges)},
		"/api/v1/status/config":                     {http.MethodGet: h.config},
		"/api/v1/status/buildinfo":                  {http.MethodGet: h.buildInfo},
		"/api/v1/state":                             {http.MethodGet: identified(access, "the state", h.exportState)},
		"/api/v1/openapi.yaml":                      {http.MethodGet: description},
		"/debug/pprof/{name}":                       {http.MethodGet: identified(access, "a profile", profile)},
	}
}

type handlers struct {
	daemon Daemon
	// reading has an element for each request that reads the history.
	reading chan struct{}
}

// methods serve one path by method. HEAD is served where GET is.
type methods map[string]http.HandlerFunc

// ServeHTTP writes 405 and the allowed methods for any other method.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if handler, ok := m[method]; ok {
		handler(w, r)
		return
	}
	allowed := slices.Sorted(maps.Keys(m))
	if _, ok := m[http.MethodGet]; ok {
		allowed = append(allowed, http.MethodHead)
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeError(w, http.StatusMethodNotAllowed, ErrorMethod, r.URL.Path+" answers "+allow+", not "+r.Method)
}

// writing refuses a write that access does not allow, and one whose body is too
// large or of another type than the API's.
func writing(access Access, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		author, err := access(r)
		if err != nil {
			writeError(w, http.StatusForbidden, ErrorForbidden, r.URL.Path+" is a write, "+err.Error())
			return
		}
		body, status, kind, message := checkBody(r)
		if status != 0 {
			writeError(w, status, kind, message)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r.WithContext(WithAuthor(r.Context(), author)))
	}
}

// checkBody returns the body of a write, or what is wrong with it; a status of 0 when
// nothing is. A form is refused: it is what a page of another site can send without
// asking.
func checkBody(r *http.Request) (body []byte, status int, kind ErrorType, message string) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil && isTooLarge(err):
		return nil, http.StatusRequestEntityTooLarge, ErrorTooLarge, tooLarge
	case err != nil:
		return nil, http.StatusBadRequest, ErrorBadData, "read the body: " + err.Error()
	case len(body) == 0:
		return nil, 0, "", ""
	}
	given := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, ErrorMediaType, fmt.Sprintf("the body is %q: a body is application/json", given)
	}
	return body, 0, "", ""
}

func isTooLarge(err error) bool {
	_, large := errors.AsType[*http.MaxBytesError](err)
	return large
}

// tooLarge is the message for a body that is too large.
var tooLarge = fmt.Sprintf("the body has more than %d bytes", maxBody)

// withBodyLimit refuses requests whose body is too large: at once where they say
// so, and else when it is read.
func withBodyLimit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			w.Header().Set("Connection", "close") // nobody reads the rest
			writeError(w, http.StatusRequestEntityTooLarge, ErrorTooLarge, tooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

func noSuchPath(w http.ResponseWriter, r *http.Request) {
	writeError(w, http.StatusNotFound, ErrorNotFound, "no such path: "+r.URL.Path)
}

// withCommonHeaders marks every response as one of this instant and of the type
// it states.
func withCommonHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
