package prometheus_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newSource(t *testing.T, url string, maxAge time.Duration) *prometheus.Source {
	t.Helper()
	cfg := &prometheus.Config{URL: url, MaxAge: maxAge}
	cfg.SetDefaults()
	for _, invalid := range cfg.Validate() {
		t.Fatal(invalid)
	}
	source, err := prometheus.New("prom", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// TestMaxAge queries "silent", whose last sample is two minutes old. A server that supports
// lookback_delta omits this sample if max_age is one minute. Debian's server may be too old for
// lookback_delta.
func TestMaxAge(t *testing.T) {
	for name, binary := range map[string]func(testing.TB) string{
		"installed": func(t testing.TB) string { return promtest.Binary(t, "prometheus") },
		"module":    promtest.ModuleBinary,
	} {
		t.Run(name, func(t *testing.T) {
			server := promtest.StartBinary(t, binary(t), "")
			server.Load(samples())
			source := newSource(t, server.URL, time.Minute)
			got, err := source.Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil {
				t.Fatal(err)
			}
			if name == "module" && len(got.Series) != 0 {
				t.Errorf("Query() with max_age 1m = %d series, want 0", len(got.Series))
			}

			got, err = newSource(t, server.URL, 3*time.Minute).Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil || len(got.Series) != 1 {
				t.Errorf("Query() with max_age 3m = %d series, %v, want 1", len(got.Series), err)
			}
		})
	}
}
