package prometheus_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

// TestEngineWarning checks that a warning of a real PromQL engine about omitted series names the key
// that accepts it, and that this key accepts it.
func TestEngineWarning(t *testing.T) {
	registry := client.NewRegistry()
	load := client.NewGauge(client.GaugeOpts{Name: "worker_load"})
	duration := client.NewHistogram(client.HistogramOpts{Name: "worker_seconds", NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(load, duration)
	load.Set(5)
	duration.Observe(1)
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(exporter.Close)
	server := promtest.StartBinary(t, promtest.ModuleBinary(t), `
scrape_configs:
  - job_name: worker
    scrape_interval: 200ms
    scrape_timeout: 200ms
    scrape_native_histograms: true
    static_configs: [{targets: ["`+exporter.Listener.Addr().String()+`"]}]
`)
	query := func(onWarnings string) sources.Vector {
		t.Helper()
		config := &prometheus.Config{URL: server.URL, OnWarnings: onWarnings}
		config.SetDefaults()
		source, err := prometheus.New("prom", config, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = source.Close() }()
		vector, err := source.Query(t.Context(), sources.Query{Text: `sum({__name__=~"worker_load|worker_seconds"}) or vector(1)`}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return vector
	}
	wait.For(t, time.Minute, "a warning", func() (string, bool) {
		vector := query("")
		partial := vector.Partial()
		return fmt.Sprint(partial, vector.Warnings, vector.Infos, vector.Series), strings.Contains(partial, " a mix of ") && strings.HasSuffix(partial, `; PromQL omits such series: change the query, or set on_warnings = "accept" in [sources.prom]`)
	})
	if accepted := query("accept"); accepted.Partial() != "" || len(accepted.Infos) == 0 {
		t.Errorf("with on_warnings = accept: Partial() = %q with infos %q, want none and a warning", accepted.Partial(), accepted.Infos)
	}
}
