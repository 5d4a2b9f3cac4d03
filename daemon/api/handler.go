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
		"/api/v1/history":                           {http.MethodGet: h.history},
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
	writeError(w, http.StatusMethodNotAllowed, ErrorMethod, r.URL.Path+" supports "+allow+", not "+r.Method)
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

// indexPage links what there is to read.
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
	// A client that is gone is told nothing more.
	_, _ = io.WriteString(w, indexPage)
}

// TextGatherer is a Gatherer that can write the text of what it gathers itself,
// for less than what it costs to gather it first. It is safe for concurrent use.
type TextGatherer interface {
	prometheus.Gatherer
	// WriteText writes the metrics of these names in Prometheus's text format, and
	// without any name all that Gather returns.
	WriteText(w io.Writer, names ...string) error
}

// metricsHandler serves /metrics in Prometheus's text format.
func metricsHandler(gatherer prometheus.Gatherer) http.Handler {
	if gatherer, ok := gatherer.(TextGatherer); ok {
		return writtenMetrics(gatherer)
	}
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}

// writtenMetrics serves metrics as they are written, compressed where the client takes
// that. The server bounds how long a slow client may take.
func writtenMetrics(gatherer TextGatherer) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		_ = gatherer.WriteText(w, r.URL.Query()["name[]"]...) // the client went away
	}))
}

// OpenAPI is the description of the API, in OpenAPI 3. It is also served, at
// /api/v1/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

func description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(OpenAPI)
}

// The limits of a server: what a slow or hostile client can hold of it.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns a server of handler with limits on time and size. It writes
// its own errors to errorLog; nil means the standard logger. The caller serves
// and shuts it down.
func NewServer(handler http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
		// "OPTIONS *" would else be answered past limits and passwords.
		DisableGeneralOptionsHandler: true,
	}
}
