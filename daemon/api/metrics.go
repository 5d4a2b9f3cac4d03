package api

import (
	"io"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// metricsTimeout bounds how long a registry gathers and encodes.
const metricsTimeout = 30 * time.Second

// TextGatherer is a Gatherer that can write the text of what it gathers itself,
// for less than what it costs to gather it first. It is safe for concurrent use.
type TextGatherer interface {
	prometheus.Gatherer
	// WriteText writes the metrics of these names in Prometheus's text format, and
	// without any name all that Gather returns.
	WriteText(w io.Writer, names ...string) error
}

// metricsHandler serves /metrics in the format that the client asks for. Where
// gatherer is a TextGatherer, it writes the text.
func metricsHandler(gatherer prometheus.Gatherer) http.Handler {
	gathered := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		// One collector that fails does not hide what the others say.
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       metricsTimeout,
	})
	writer, ok := gatherer.(TextGatherer)
	if !ok {
		return gathered
	}
	text := writtenText(writer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if textFormat(r).FormatType() != expfmt.TypeTextPlain {
			gathered.ServeHTTP(w, r)
			return
		}
		text.ServeHTTP(w, r)
	})
}

// textFormat returns the format that the client asks for, as promhttp does.
func textFormat(r *http.Request) expfmt.Format {
	return expfmt.NegotiateAccept(r.Header,
		expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeProtoText),
		expfmt.NewFormat(expfmt.TypeProtoCompact), expfmt.NewFormat(expfmt.TypeTextPlain))
}

// writtenText serves the text as it is written, compressed where the client takes
// that. The server bounds how long a slow client may take.
func writtenText(metrics TextGatherer) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(textFormat(r)))
		_ = metrics.WriteText(w, r.URL.Query()["name[]"]...) // the client went away
	}))
}
