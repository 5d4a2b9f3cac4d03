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

// DelimitedGatherer is a TextGatherer that can write what it gathers as delimited
// protocol buffers too.
type DelimitedGatherer interface {
	TextGatherer
	// WriteDelimited writes what WriteText does, each metric after its length.
	WriteDelimited(w io.Writer, names ...string) error
}

// metricsHandler serves /metrics in the format that the client asks for. What
// gatherer can write itself, it does.
func metricsHandler(gatherer prometheus.Gatherer) http.Handler {
	gathered := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		// One collector that fails does not hide what the others say.
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       metricsTimeout,
	})
	written := map[expfmt.FormatType]http.Handler{}
	if gatherer, ok := gatherer.(TextGatherer); ok {
		written[expfmt.TypeTextPlain] = writtenMetrics(gatherer.WriteText)
	}
	if gatherer, ok := gatherer.(DelimitedGatherer); ok {
		written[expfmt.TypeProtoDelim] = writtenMetrics(gatherer.WriteDelimited)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := written[metricsFormat(r).FormatType()]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		gathered.ServeHTTP(w, r)
	})
}

// metricsFormat returns the format that the client asks for, as promhttp does.
func metricsFormat(r *http.Request) expfmt.Format {
	return expfmt.NegotiateAccept(r.Header,
		expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeProtoText),
		expfmt.NewFormat(expfmt.TypeProtoCompact), expfmt.NewFormat(expfmt.TypeTextPlain))
}

// writtenMetrics serves metrics as they are written, compressed where the client takes
// that. The server bounds how long a slow client may take.
func writtenMetrics(write func(w io.Writer, names ...string) error) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(metricsFormat(r)))
		_ = write(w, r.URL.Query()["name[]"]...) // the client went away
	}))
}
