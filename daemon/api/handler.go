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
	"mime"
	"net/http"
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
	h := handlers{daemon: d, access: access, reading: make(chan struct{}, maxHistoryReads)}
	for _, c := range h.calls(gatherer) {
		mux.Handle(c.path, h.handler(c))
	}
	mux.HandleFunc("/", noSuchPath)

	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, ErrorForbidden, "cross-origin writes are rejected")
	}))
	return withCommonHeaders(withBodyLimit(sameOrigin.Handler(mux)))
}

type handlers struct {
	daemon Daemon
	access Access
	// reading contains an element for each request that is reading the history.
	reading chan struct{}
}

// writing returns a handler that rejects writes that access does not allow.
func writing(access Access, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		author, err := access(r)
		if err != nil {
			writeError(w, ErrorForbidden, r.URL.Path+" is a write, "+err.Error())
			return
		}
		handler(w, r.WithContext(WithAuthor(r.Context(), author)))
	}
}

// withBody returns a handler that rejects bodies that are too large or not JSON.
func withBody(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := checkBody(r)
		if err != nil {
			writeFailure(w, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r)
	}
}

// checkBody returns the body of a POST, or a failure if the body is invalid. It rejects forms,
// because a page on a different site can send them without a preflight request.
func checkBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil && isTooLarge(err):
		return nil, &failure{ErrorTooLarge, errTooLarge}
	case err != nil:
		return nil, &failure{ErrorBadData, fmt.Errorf("read the body: %w", err)}
	case len(body) == 0:
		return nil, nil
	}
	given := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err != nil || media != "application/json" {
		return nil, &failure{ErrorMediaType, fmt.Errorf("the content type is %q, not application/json", given)}
	}
	return body, nil
}

func isTooLarge(err error) bool {
	_, large := errors.AsType[*http.MaxBytesError](err)
	return large
}

var errTooLarge = fmt.Errorf("the body has more than %d bytes", maxBody)

// withBodyLimit rejects requests with large bodies, immediately if the length is declared, and
// otherwise while the body is read.
func withBodyLimit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			w.Header().Set("Connection", "close") // do not read the rest
			writeError(w, ErrorTooLarge, errTooLarge.Error())
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

func noSuchPath(w http.ResponseWriter, r *http.Request) {
	writeError(w, ErrorNotFound, "no such path: "+r.URL.Path)
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

func index(w http.ResponseWriter, _ *http.Request, _ none) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'")
	_, _ = io.WriteString(w, indexPage)
}

// textGatherer is a Gatherer that also writes its metrics as text, which is cheaper for many
// series. It is safe for concurrent use.
type textGatherer interface {
	prometheus.Gatherer
	// WriteText writes the metrics with the given names in Prometheus's text format. If no names
	// are given, it writes all metrics that Gather returns.
	WriteText(w io.Writer, names ...string) error
}

// metricsQuery contains the parameters of /metrics.
type metricsQuery struct {
	// Names selects the metrics with these names.
	Names []string `toml:"name[]"`
}

// metrics serves /metrics in Prometheus's text format.
func metrics(gatherer prometheus.Gatherer) func(http.ResponseWriter, *http.Request, metricsQuery) {
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
	if gatherer, ok := gatherer.(textGatherer); ok {
		handler = writtenMetrics(gatherer)
	}
	return func(w http.ResponseWriter, r *http.Request, _ metricsQuery) { handler.ServeHTTP(w, r) }
}

// writtenMetrics writes metrics without gathering them first. It compresses them if the client
// accepts that.
func writtenMetrics(gatherer textGatherer) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		_ = gatherer.WriteText(w, r.URL.Query()["name[]"]...) // an error means that the client has disconnected
	}))
}

// OpenAPI describes the API in OpenAPI 3. The daemon also serves it at /api/v1/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte

func description(w http.ResponseWriter, _ *http.Request, _ none) {
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
