package api_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
)

// writer is a registry whose text output differs from the metrics that it gathers.
type writer struct{ *prometheus.Registry }

// written is long enough for the response to be compressed.
var written = "# a comment\n" + strings.Repeat("hpad_written 1\n", 1000)

func (writer) WriteText(w io.Writer, names ...string) error {
	_, err := io.WriteString(w, written+strings.Join(names, "\n"))
	return err
}

// TestMetricsFormats requests metrics in several formats and encodings, and checks that the
// response is always text.
func TestMetricsFormats(t *testing.T) {
	const text, delimited = "text/plain; version=0.0.4", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	handler := api.NewHandler(&apitest.Daemon{}, writer{prometheus.NewRegistry()}, api.ReadOnly)
	tests := []struct {
		name, path, accept, encoding string
		wantType, wantEncoding       string
		want                         string
	}{
		{name: "anything", path: "/metrics", wantType: text, want: written},
		{name: "compressed", path: "/metrics", encoding: "gzip", wantType: text, wantEncoding: "gzip", want: written},
		{name: "not compressed", path: "/metrics", encoding: "gzip;q=0, identity", wantType: text, want: written},
		{
			// The Accept header of Prometheus.
			name: "OpenMetrics or text", path: "/metrics", encoding: "gzip",
			accept:   "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
			wantType: text, wantEncoding: "gzip", want: written,
		},
		{name: "protocol buffers", path: "/metrics", accept: delimited, wantType: text, want: written},
		{name: "some names", path: "/metrics?name[]=hpad_this&name[]=hpad_that", wantType: text, want: written + "hpad_this\nhpad_that"},
		{name: "another parameter", path: "/metrics?name=hpad_this", wantType: text, want: written},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, test.path, http.NoBody)
			request.Header.Set("Accept", test.accept)
			request.Header.Set("Accept-Encoding", test.encoding)
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if got := response.Header().Get("Content-Type"); response.Code != http.StatusOK || !strings.HasPrefix(got, test.wantType) {
				t.Errorf("status = %d, type = %q, want 200 and %q", response.Code, got, test.wantType)
			}
			if got := response.Header().Get("Content-Encoding"); got != test.wantEncoding {
				t.Errorf("encoding = %q, want %q", got, test.wantEncoding)
			}
			body := io.Reader(response.Body)
			if test.wantEncoding == "gzip" {
				var err error
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("body ends with %q, want %q", got[max(0, len(got)-50):], test.want[len(test.want)-50:])
			}
		})
	}
}
