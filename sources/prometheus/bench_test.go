package prometheus

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
)

// BenchmarkQuery is one query over a kept loopback connection, with the labels of
// a usual rate by instance; the server only writes prepared bytes.
func BenchmarkQuery(b *testing.B) {
	for _, series := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("series=%d", series), func(b *testing.B) {
			var body bytes.Buffer
			body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
			for i := range series {
				if i > 0 {
					body.WriteByte(',')
				}
				fmt.Fprintf(&body, `{"metric":{"alloc_id":"6fcba8f0-19f8-4d2c-9f5a-%012d","job":"checkout"},"value":[1767225600,"%d.25"]}`, i, i)
			}
			body.WriteString(`]}}`)
			server := serve(b, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(body.Bytes())
			})
			source := newSource(b, server.URL, nil)
			b.ReportAllocs()
			for b.Loop() {
				vector, err := source.Query(b.Context(), "sum by (alloc_id) (rate(http_requests_total[1m]))", at)
				if err != nil || len(vector.Series) != series {
					b.Fatalf("Query answered %d series, %v, want %d", len(vector.Series), err, series)
				}
			}
		})
	}
}
