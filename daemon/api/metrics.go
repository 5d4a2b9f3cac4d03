package api

import (
	"io"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

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
