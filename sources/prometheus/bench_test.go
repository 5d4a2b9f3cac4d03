package prometheus

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	apiv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/sources"
)

// answerOf returns a response whose series have the usual labels of a container, about 230
// bytes each.
func answerOf(series int) []byte {
	var body bytes.Buffer
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range series {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"metric":{"__name__":"http_requests_total","alloc_id":"6fcba8f0-19f8-4d2c-9f5a-%012d","code":"200","env":"production","handler":"/api/v1/orders","instance":"10.0.%d.%d:9100","job":"checkout"},"value":[1767225600,"%d.25"]}`,
			i, i>>8&255, i&255, i)
	}
	body.WriteString(`]}}`)
	return body.Bytes()
}

// BenchmarkQuery measures one query over an open loopback connection to a server that writes
// prepared bytes. "api" is the client of the Prometheus API, for comparison.
func BenchmarkQuery(b *testing.B) {
	for _, series := range []int{10, 1000, 10_000, 250_000} {
		body := answerOf(series)
		server := serve(b, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		})
		b.Run(fmt.Sprintf("reader=hpad/series=%d", series), func(b *testing.B) {
			budget := sources.NewBudget(256<<20, "budget")
			source := newSource(b, server.URL, nil)
			source.budget = budget
			query := sources.Query{Text: "rate(http_requests_total[1m])", Labels: []string{"alloc_id"}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				vector, err := source.Query(b.Context(), query, at)
				if err != nil || len(vector.Series) != series {
					b.Fatalf("Query answered %d series, %v, want %d", len(vector.Series), err, series)
				}
				b.ReportMetric(float64(budget.Usage().Used)/(1<<20), "kept-MiB")
				vector.Release()
			}
		})
		b.Run(fmt.Sprintf("reader=api/series=%d", series), func(b *testing.B) {
			client, err := api.NewClient(api.Config{Address: server.URL})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				value, _, err := apiv1.NewAPI(client).Query(b.Context(), "rate(http_requests_total[1m])", time.Unix(0, 0))
				if vector, ok := value.(model.Vector); err != nil || !ok || len(vector) != series {
					b.Fatalf("the client answered %T, %v, want %d series", value, err, series)
				}
			}
		})
	}
}
