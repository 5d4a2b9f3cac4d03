package prometheus_test

import (
	"fmt"
	"strings"
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
	for _, mistake := range cfg.Validate() {
		t.Fatal(mistake)
	}
	source, err := prometheus.New("prom", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// The last sample of "silent" is two minutes old. A server that knows
// lookback_delta leaves it out for a max_age of one minute; of an older one Check
// says that it does not.
func TestMaxAge(t *testing.T) {
	for name, binary := range map[string]func(testing.TB) string{
		"installed": func(t testing.TB) string { return promtest.Binary(t, "prometheus") },
		"module":    promtest.ModuleBinary,
	} {
		t.Run(name, func(t *testing.T) {
			server := promtest.StartBinary(t, binary(t), "")
			server.Load(samples())
			source := newSource(t, server.URL, time.Minute)
			sentences, err := source.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			var minor int
			if _, version, _ := strings.Cut(sentences[0], "version is 2."); version != "" {
				_, _ = fmt.Sscanf(version, "%d", &minor)
				if minor < 43 { // which ignores max_age
					want = 1
				}
			}
			got, err := source.Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Series) != want || name == "module" && want != 0 {
				t.Errorf("Query answered %d series, want %d, as Check says %q", len(got.Series), want, sentences)
			}

			got, err = newSource(t, server.URL, 3*time.Minute).Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil || len(got.Series) != 1 {
				t.Errorf("Query answered %d series and the error %v for a max_age of 3m, want 1 and none", len(got.Series), err)
			}
		})
	}
}
