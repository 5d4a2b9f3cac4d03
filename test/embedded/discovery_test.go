package embedded

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/sources"
	source "github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

// started starts a source with the given table.
func started(t *testing.T, table string) *source.Source {
	t.Helper()
	cfg := new(source.Config)
	if _, err := toml.Decode(table, cfg); err != nil {
		t.Fatal(err)
	}
	cfg.SetDefaults()
	if errs := cfg.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	s, err := source.New("own", cfg, sources.Env{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// shown returns the sorted series of a query with their values, or the error.
func shown(t *testing.T, s sources.Source, query string) string {
	t.Helper()
	vector, err := s.Query(t.Context(), sources.Query{Text: query}, time.Now())
	if err != nil {
		return err.Error()
	}
	defer vector.Release()
	var lines []string
	for _, series := range vector.Series {
		lines = append(lines, fmt.Sprintf("%s %v", series.Labels, series.Value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// exporter runs an endpoint with a series that shows the path and the query of requests.
func exporter(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, "load{path=%q,instance=\"inner\"} 1\n", r.URL.String())
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestDiscovery checks that hpad scrapes the same endpoints with the same labels as a real Prometheus
// server that reads the same lists, also after changes.
func TestDiscovery(t *testing.T) {
	dir, a, b, c := t.TempDir(), exporter(t), exporter(t), exporter(t)
	var served atomic.Value
	served.Store(fmt.Sprintf(`[{"targets": [%q]}]`, c))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, served.Load())
	}))
	t.Cleanup(server.Close)
	list := func(name, text string) { webtest.Write(t, dir, name, text) }
	list("one.json", fmt.Sprintf(`[{"targets": [%q, %q], "labels": {"zone": "x", "__meta_rack": "1"}}]`, a, b))
	list("two.yml", fmt.Sprintf("- targets: [%q]\n  labels: { job: renamed, instance: web-1, __metrics_path__: /other, __param_module: a b, port: 8080 }\n", c))
	real := promtest.Start(t, fmt.Sprintf(`
global: { scrape_interval: 200ms, scrape_timeout: 200ms }
scrape_configs:
  - job_name: listed
    file_sd_configs: [{ files: [%[1]s/*.yml, %[1]s/one.json], refresh_interval: 1s }]
  - job_name: served
    honor_labels: true
    http_sd_configs: [{ url: %[2]s, refresh_interval: 1s }]
`, dir, server.URL))
	reference := &prometheus.Config{URL: real.URL}
	reference.SetDefaults()
	theirs, err := prometheus.New("real", reference, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	ours := started(t, fmt.Sprintf(`
[[scrape]]
job      = "listed"
file_sd  = [%[1]q, %[2]q]
interval = "200ms"
[[scrape]]
job          = "served"
http_sd      = { url = %[3]q, refresh_interval = "1s" }
interval     = "200ms"
honor_labels = true
`, filepath.Join(dir, "*.yml"), filepath.Join(dir, "one.json"), server.URL))
	const query = `{__name__=~"load|up"}`
	compare := func(series int) {
		t.Helper()
		wait.For(t, time.Minute, "the same series as in Prometheus", func() (string, bool) {
			got, want := shown(t, ours, query), shown(t, theirs, query)
			return fmt.Sprintf("hpad:\n%s\nPrometheus:\n%s\n%q", got, want, ours.Problems()), got == want && strings.Count(got, "\n")+1 == series
		})
	}
	compare(8)
	list("one.json", fmt.Sprintf(`[{"targets": [%q], "labels": {"zone": "y"}}]`, b))
	list("three.yml", fmt.Sprintf("- targets: [%q]\n", a))
	compare(8)
	served.Store(fmt.Sprintf(`[{"targets": [%q, %q]}]`, a, c))
	list("three.yml", "[]\n")
	compare(8)
}

// TestProtectedPrometheus scrapes a real server that requires TLS and basic authentication.
func TestProtectedPrometheus(t *testing.T) {
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "authority")
	cert, key := authority.Issue(t, "server")
	config := webtest.Write(t, dir, "web.yml", fmt.Sprintf(
		"tls_server_config: { cert_file: %s, key_file: %s }\nbasic_auth_users: { hpad: %q }\n", cert, key, webtest.Hash(t, "Password-of-hpad-1")))
	real := promtest.Start(t, "", "--web.config.file="+config)
	password := webtest.Write(t, dir, "password", "wrong")
	s := started(t, fmt.Sprintf(`
[[scrape]]
addresses  = [%q]
scheme     = "https"
interval   = "200ms"
tls        = { ca_file = %q }
basic_auth = { username = "hpad", password_file = %q }
`, strings.TrimPrefix(real.URL, "https://"), authority.File, password))
	wait.For(t, time.Minute, "a rejected scrape", func() (string, bool) {
		problems := fmt.Sprint(s.Problems())
		return problems, strings.Contains(problems, "401 Unauthorized") && shown(t, s, "sum(up)") == "{} 0"
	})
	webtest.Write(t, dir, "password", "Password-of-hpad-1")
	wait.For(t, time.Minute, "samples of Prometheus", func() (string, bool) {
		got := shown(t, s, "count(prometheus_build_info) + sum(up)")
		return got, got == "{} 2"
	})
}
