// Package api implements the daemon's HTTP interface: the JSON API with its types and its client,
// health, readiness, reload, metrics and profiles.
package api

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// maxBody is the maximum size of a request body in bytes.
const maxBody = 64 << 10

// NewHandler returns the handler for all paths: the JSON API, health, readiness, reload, metrics,
// profiles and an index. It is safe for concurrent use.
func NewHandler(d Daemon, gatherer prometheus.Gatherer, access Access) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range routes(d, gatherer, access) {
		mux.Handle(pattern, handler)
	}
	mux.HandleFunc("/", noSuchPath)

	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusForbidden, ErrorForbidden, "cross-origin writes are rejected")
	}))
	return withCommonHeaders(withBodyLimit(sameOrigin.Handler(mux)))
}

// routes returns every path with its methods. They must match the OpenAPI description.
func routes(d Daemon, gatherer prometheus.Gatherer, access Access) map[string]methods {
	h := handlers{daemon: d, access: access, reading: make(chan struct{}, maxHistoryReads)}
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
		"/api/v1/autoscalers/{name}/logs":           {http.MethodGet: identified(access, "the output of an instance", long(h.logs))},
		"/api/v1/autoscalers/{name}/graph":          {http.MethodGet: h.graph},
		"/api/v1/autoscalers/{name}/pause":          {http.MethodPost: writing(access, h.owned(h.pause, true))},
		"/api/v1/autoscalers/{name}/resume":         {http.MethodPost: writing(access, h.owned(h.resume, false))},
		"/api/v1/autoscalers/{name}/scale":          {http.MethodPost: writing(access, h.owned(h.scale, false))},
		"/api/v1/autoscalers/{name}/evaluate":       {http.MethodPost: writing(access, h.owned(h.evaluate, true))},
		"/api/v1/autoscalers/{name}/restart":        {http.MethodPost: writing(access, h.owned(h.restart, false))},
		"/api/v1/sd/{fleet}/{target...}":            {http.MethodGet: h.endpoints},
		"/api/v1/fleets/{fleet}/pause":              {http.MethodPost: writing(access, h.owned(h.pause, true))},
		"/api/v1/fleets/{fleet}/resume":             {http.MethodPost: writing(access, h.owned(h.resume, false))},
		"/api/v1/pause":                             {http.MethodPost: writing(access, h.pause)},
		"/api/v1/resume":                            {http.MethodPost: writing(access, h.resume)},
		"/api/v1/pauses":                            {http.MethodGet: h.pauses},
		"/api/v1/history":                           {http.MethodGet: h.history},
		"/api/v1/history/verify":                    {http.MethodGet: identified(access, "a verification of the history", h.verify)},
		"/api/v1/cluster":                           {http.MethodGet: h.cluster},
		"/api/v1/cluster/adopt":                     {http.MethodPost: writing(access, h.adopt)},
		"/api/v1/discovery":                         {http.MethodGet: h.discovery},
		"/api/v1/status/reload":                     {http.MethodGet: identified(access, "a dry run of a reload", h.reloadChanges)},
		"/api/v1/status/config":                     {http.MethodGet: h.config},
		"/api/v1/status/buildinfo":                  {http.MethodGet: h.buildInfo},
		"/api/v1/state":                             {http.MethodGet: identified(access, "the state", long(h.exportState))},
		"/api/v1/openapi.yaml":                      {http.MethodGet: description},
		"/debug/pprof/{name}":                       {http.MethodGet: identified(access, "a profile", long(profile))},
	}
}

type handlers struct {
	daemon Daemon
	access Access
	// reading contains an element for each request that is reading the history.
	reading chan struct{}
}

// methods maps the methods of one path to their handlers. The handler for GET also serves HEAD.
type methods map[string]http.HandlerFunc

// ServeHTTP calls the handler for the request's method. For any other method it writes 405 with
// the allowed methods.
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
	writeError(w, http.StatusMethodNotAllowed, ErrorMethod, r.URL.Path+" supports "+allow+", not "+r.Method)
}

// writing returns a handler that rejects writes that access does not allow, and bodies that are
// too large or not JSON.
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
		handler(w, WithWarnings(r.WithContext(WithAuthor(r.Context(), author))))
	}
}

// checkBody returns the body of a write, or the status and the error if the body is invalid. It
// rejects forms, because a page on a different site can send them without a preflight request.
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
		return nil, http.StatusUnsupportedMediaType, ErrorMediaType, fmt.Sprintf("the content type is %q, not application/json", given)
	}
	return body, 0, "", ""
}

func isTooLarge(err error) bool {
	_, large := errors.AsType[*http.MaxBytesError](err)
	return large
}

var tooLarge = fmt.Sprintf("the body has more than %d bytes", maxBody)

// withBodyLimit rejects requests with large bodies, immediately if the length is declared, and
// otherwise while the body is read.
func withBodyLimit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			w.Header().Set("Connection", "close") // do not read the rest
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

// withCommonHeaders disables caching and content sniffing.
func withCommonHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

const indexPage = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>hpad</title></head>
<body>
<h1>hpad</h1>
<ul>
<li><a href="/api/v1/autoscalers">Autoscalers</a> (one: /api/v1/autoscalers/NAME, its last decision: /api/v1/autoscalers/NAME/explain)</li>
<li><a href="/api/v1/discovery">Targets found by their labels</a></li>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/-/healthy">Health</a></li>
<li><a href="/-/ready">Readiness</a></li>
<li><a href="/api/v1/status/config">Configuration</a></li>
<li><a href="/api/v1/status/buildinfo">Build</a></li>
<li><a href="/api/v1/openapi.yaml">Description of the API</a> (OpenAPI)</li>
</ul>
</body>
</html>
`

func index(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'")
	_, _ = io.WriteString(w, indexPage)
}

// TextGatherer is a Gatherer that also writes its metrics as text, which is cheaper for many
// series. It is safe for concurrent use.
type TextGatherer interface {
	prometheus.Gatherer
	// WriteText writes the metrics with the given names in Prometheus's text format. If no names
	// are given, it writes all metrics that Gather returns.
	WriteText(w io.Writer, names ...string) error
}

// metricsHandler serves /metrics in Prometheus's text format.
func metricsHandler(gatherer prometheus.Gatherer) http.Handler {
	if gatherer, ok := gatherer.(TextGatherer); ok {
		return writtenMetrics(gatherer)
	}
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}

// writtenMetrics writes metrics without gathering them first. It compresses them if the client
// accepts that.
func writtenMetrics(gatherer TextGatherer) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		_ = gatherer.WriteText(w, r.URL.Query()["name[]"]...) // an error means that the client has disconnected
	}))
}

// OpenAPI is the OpenAPI 3 description of the API, which is also served at /api/v1/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

func description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(OpenAPI)
}

// Limits that protect a server from slow and hostile clients.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns a server with limits on time and size. If errorLog is nil, it uses the
// standard logger. The caller starts the server and shuts it down.
func NewServer(handler http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
		// "OPTIONS *" would bypass limits and authentication.
		DisableGeneralOptionsHandler: true,
	}
}
