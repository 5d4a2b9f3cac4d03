package page_test

import (
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/daemon/redact/redacttest"
)

// TestNoFieldShowsItsSecret checks that the page, the API and the metrics do not show a secret from
// any string field of any view.
func TestNoFieldShowsItsSecret(t *testing.T) {
	for _, text := range redacttest.Texts {
		view := named("web")
		redacttest.Plant(t, &view, text)
		d := &world{&apitest.Daemon{List: []api.Autoscaler{view}}}
		list := d.List
		redacttest.Plant(t, d.Daemon, text)
		d.List, d.Drawn = list, map[string]api.Graph{text: d.Drawn["queue"]}
		d.TOML, d.Exported = "", "" // other code redacts these fields
		failing := *d.Daemon
		d.ListErr, d.HistoryErr, d.ReloadErr, d.ActErr = nil, nil, nil, nil

		name := "/autoscalers/" + url.PathEscape(text)
		paths := []string{
			"/", "/rows", "/marks?name=" + url.QueryEscape(text), "/rows?name=" + url.QueryEscape(text), name, name + "?instances", name + "?at=2026-11-21T12:00:00Z",
			name + "?part=why", name + "?part=instances", "/autoscalers/x" + url.PathEscape(text), "/marks?from=" + url.QueryEscape(text), "/assets/" + url.PathEscape(text),
			"/metrics", "/-/healthy", "/-/ready", "/api/v1/autoscalers", "/api/v1" + name, "/api/v1" + name + "/explain", "/api/v1" + name + "/explain?at=2026-11-21T12:00:00Z",
			"/api/v1" + name + "/history", "/api/v1" + name + "/history?changes=true", "/api/v1" + name + "/history/verify", "/api/v1" + name + "/instances",
			"/api/v1" + name + "/graph", "/api/v1/pauses", "/api/v1/history", "/api/v1/history/verify", "/api/v1/cluster", "/api/v1/discovery",
			"/api/v1/status/reload", "/api/v1/status/config", "/api/v1/status/buildinfo", "/api/v1/autoscalers/x" + url.PathEscape(text), "/x" + url.PathEscape(text),
			"/api/v1/history?from=" + url.QueryEscape(text), "/api/v1/autoscalers?limit=" + url.QueryEscape(text),
		}
		shown := 0
		for _, daemon := range []*apitest.Daemon{d.Daemon, &failing} {
			registry := prometheus.NewRegistry()
			m := metrics.New(registry)
			m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values(daemon.List) })
			p := page.New(&world{daemon}, api.Full, api.NewHandler(daemon, m.Exposition(registry), api.Full))
			for _, path := range paths {
				request := httptest.NewRequest(http.MethodGet, path, nil)
				response := httptest.NewRecorder()
				p.ServeHTTP(response, request)
				body := response.Body.String()
				if strings.Contains(body, redacttest.Secret) {
					at := strings.Index(body, redacttest.Secret)
					t.Errorf("secret %q in %s: …%s…", text, path, body[max(0, at-200):min(len(body), at+100)])
				}
				if strings.Contains(body, "redacted") {
					shown++
				}
			}
		}
		if shown < len(paths) {
			t.Errorf("only %[2]d responses for %[1]q contain redacted values", text, shown)
		}
	}
}
