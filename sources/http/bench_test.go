package http

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
)

// BenchmarkShared measures one reading of a document with 10,000 values, and its selection for 10,000
// autoscalers with the same query. For comparison, it measures a query with the same values. Both include
// the cost of the server.
func BenchmarkShared(b *testing.B) {
	at := time.Now()
	var services, series []string
	for i := range 10_000 {
		services = append(services, fmt.Sprintf(`{"service":"shop-%06d","load":%d}`, i, i))
		series = append(series, fmt.Sprintf(`{"metric":{"service":"shop-%06d"},"value":[%d,"%d"]}`, i, at.Unix(), i))
	}
	document := `{"services":[` + strings.Join(services, ",") + `]}`
	vector := `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := vector
		if r.Method == http.MethodGet {
			body = document
		}
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	env := sources.Env{Answers: sources.NewBudget(256<<20, "")}
	for text, config := range map[string]sources.Config{
		"$.services[*].load": &Config{URL: server.URL},
		"load":               &prometheus.Config{URL: server.URL, TimeTolerance: time.Hour},
	} {
		b.Run(text, func(b *testing.B) {
			config.SetDefaults()
			source, err := config.Build("local", env)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(time.Millisecond)
				found, err := source.Query(b.Context(), sources.Query{Text: text, Labels: []string{"service"}}, at)
				if err != nil || len(found.Series) != len(services) {
					b.Fatal(err)
				}
				found.Release()
			}
		})
	}
}
