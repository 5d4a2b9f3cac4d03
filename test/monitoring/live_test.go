package monitoring

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMonitoring runs hpad with fleets and sources of every kind. hpad must export all names and
// labels that the rules and the dashboard use. Real Prometheus servers with scrape.yml must
// evaluate every rule, and return data for every query of the dashboard.
func TestMonitoring(t *testing.T) {
	h := start(t)
	servers := map[string]*promtest.Server{
		"installed": promtest.StartBinary(t, promtest.Binary(t, "prometheus"), h.scraped(t)),
		"module":    promtest.StartBinary(t, promtest.ModuleBinary(t), h.scraped(t)),
	}
	h.upAndDown(t)
	if _, err := h.Pause(t.Context(), policy.Pause{Scope: policy.Scope{Autoscaler: "idler"}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	h.exportsAll(t)
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Run("rules", func(t *testing.T) { evaluates(t, server) })
			t.Run("panels", func(t *testing.T) { shows(t, server) })
		})
	}
}

// exportsAll waits until hpad exports everything that the rules and the dashboard use.
func (h *hpad) exportsAll(t *testing.T) {
	t.Helper()
	alerts, board := rules(t), readDashboard(t)
	check := func(t reporter, exported map[string]family) {
		checkAlerts(t, alerts, exported)
		board.check(t, exported)
	}
	var exported map[string]family
	wait.Until(patience, func() (string, bool) {
		var found tally
		exported = h.exported()
		check(&found, exported)
		return found.last, found.wrong == 0
	})
	check(t, exported)
}

// scraped returns a Prometheus configuration that consists of scrape.yml, with hpad's address and a
// scrape interval of 1 s, and the rules in alerts.yml.
func (h *hpad) scraped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(configs + "scrape.yml")
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.NewReplacer("127.0.0.1:4720", h.address, "scrape_interval: 15s", "scrape_interval: 1s").Replace(string(text))
	if !strings.Contains(mine, h.address) || !strings.Contains(mine, "scrape_interval: 1s") {
		t.Fatalf("scrape.yml contains an unexpected target or interval:\n%s", text)
	}
	alerts, err := filepath.Abs(configs + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("global: { scrape_timeout: 1s, evaluation_interval: 1s }\nrule_files: [%q]\n%s", alerts, mine)
}

// upAndDown scales the worker up and then down, so that hpad's metrics count a reversal.
func (h *hpad) upAndDown(t *testing.T) {
	t.Helper()
	const reversals = "hpad_autoscaler_reversals_total"
	await := func(replicas int32) {
		wait.For(t, patience, fmt.Sprintf("%d workers", replicas), func() (string, bool) {
			view, _ := h.Autoscaler("worker")
			return fmt.Sprintf("%+v", view.Status), view.Status.CurrentReplicas == replicas
		})
	}
	await(4)
	if got := h.Metric(reversals, prometheus.Labels{"autoscaler": "worker"}); got != 0 {
		t.Errorf("%s after one scale-up = %v, want 0", reversals, got)
	}
	h.load.Queue("worker", 20)
	await(2)
	if got := h.Metric(reversals, prometheus.Labels{"autoscaler": "worker"}); got != 1 {
		t.Errorf("%s after a scale-up and a scale-down = %v, want 1", reversals, got)
	}
}

// evaluates waits until the server has evaluated every rule without an error.
func evaluates(t *testing.T, server *promtest.Server) {
	wait.For(t, patience, "evaluation of every rule", func() (string, bool) {
		var result struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		fetch(t, server, "/api/v1/rules", nil, &result)
		evaluated := 0
		for _, group := range result.Groups {
			for _, rule := range group.Rules {
				switch rule.Health {
				case "ok":
					evaluated++
				case "err":
					t.Fatalf("%s: %s", rule.Name, rule.LastError)
				}
			}
		}
		return fmt.Sprintf("%d are", evaluated), evaluated == len(rules(t))
	})
}

// shows waits until every query of the dashboard returns data.
func shows(t *testing.T, server *promtest.Server) {
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			wait.For(t, patience, fmt.Sprintf("data of panel %q for\n%s", p.Title, q.Expr), func() (string, bool) {
				series := seriesCount(t, server, q)
				return fmt.Sprintf("%d series", series), series > 0
			})
		}
	}
}

// seriesCount returns the number of series that a dashboard query returns.
func seriesCount(t *testing.T, server *promtest.Server, q query) int {
	t.Helper()
	now := time.Now()
	path, parameters := "/api/v1/query", url.Values{"query": {variables.Replace(q.Expr)}}
	if !q.Instant {
		path = "/api/v1/query_range"
		parameters.Set("start", now.Add(-time.Minute).Format(time.RFC3339))
		parameters.Set("end", now.Format(time.RFC3339))
		parameters.Set("step", "1s")
	}
	var result struct{ Result []any }
	fetch(t, server, path, parameters, &result)
	return len(result.Result)
}

// fetch decodes the data of an API response.
func fetch(t *testing.T, server *promtest.Server, path string, parameters url.Values, data any) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(server.URL + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	result := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if result.Status != "success" {
		t.Fatalf("%s?%s: %s", path, parameters.Encode(), result.Error)
	}
}
