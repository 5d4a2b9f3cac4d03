package page_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// world is a fake daemon.
type world struct {
	*apitest.Daemon
}

func (w *world) AutoscalerConfig(name string) string { return "[autoscalers." + name + "]\n" }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// named returns an autoscaler with a constant count.
func named(name string) api.Autoscaler {
	target := int64(10_000)
	spec := policy.Default(policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{{
		Type: policy.ExternalMetric, Name: "load", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &target},
	}}})
	observation := policy.Observation{SpecReplicas: 3, StatusReplicas: 3, Metrics: []policy.Reading{{ValuesMilli: []int64{27_000}}}}
	d := policy.Decide(policy.Settings{Tolerance: 0.1}, spec, policy.Memory{}, policy.Status{}, observation, noon)
	return api.Autoscaler{
		Name: name, Reference: "prod/" + name, Kind: "nomad", Created: noon, Spec: spec, Status: d.Status, Decision: &d,
		SyncPeriodSeconds: 15, Evaluation: api.Evaluation{Last: noon, Reason: "MetricsAtTarget"},
		Inputs: []api.Input{{Source: "prom", Query: "sum(load)"}},
	}
}

func serve(t *testing.T, d *world, access api.Access) *httptest.Server {
	t.Helper()
	return serveDaemon(t, d, access)
}

func serveDaemon(t *testing.T, d page.Daemon, access api.Access) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(page.New(d, access, api.NewHandler(d, prometheus.NewRegistry(), access)))
	t.Cleanup(server.Close)
	return server
}

// get sends a request with headers, given as pairs of names and values.
func get(t *testing.T, url string, headers ...string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

const hostile = `<img src=x onerror="alert(1)">/../"'`

// TestEscaping checks that names and messages do not become markup.
func TestEscaping(t *testing.T) {
	view := named(hostile)
	view.Reference, view.Labels = "prod/"+hostile, map[string]string{"hpad.enable": hostile}
	view.Status.Conditions = append(view.Status.Conditions, policy.Condition{Type: hostile, Status: policy.ConditionTrue, Message: hostile})
	view.Evaluation.Error, view.Inputs = hostile, []api.Input{{Source: hostile, Query: hostile}}
	d := &world{&apitest.Daemon{List: []api.Autoscaler{view}, Alive: api.Health{Healthy: true}, State: api.Readiness{
		Ready: true, Problems: []api.Problem{{Subject: hostile, Message: hostile}},
	}, Listed: api.InstanceList{Instances: []api.Instance{{ID: hostile, Name: hostile, Node: hostile, Phase: hostile}}}}}
	server := serve(t, d, api.ReadOnly)
	_, _, list := get(t, server.URL+"/?q=%3Cimg&sort=%3Cscript%3E")
	_, link, found := strings.Cut(list, `<a href="autoscalers/`)
	if !found {
		t.Fatalf("the list contains no link:\n%s", list)
	}
	link, _, _ = strings.Cut(link, `"`)
	status, header, details := get(t, server.URL+"/autoscalers/"+link+"?instances")
	if status != http.StatusOK {
		t.Fatalf("GET of the link %q = %d %s", link, status, details)
	}
	for name, text := range map[string]string{"list": list, "details": details} {
		if strings.Contains(text, "<img") || strings.Contains(text, "<script>") || !strings.Contains(text, "&lt;img src=x") {
			t.Errorf("the %s contains unescaped markup:\n%s", name, text)
		}
	}
	if got := header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") || !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("Content-Security-Policy = %q", got)
	}
}

// TestList checks filters, orders and pages of the list without a script.
func TestList(t *testing.T) {
	d := &world{&apitest.Daemon{Alive: api.Health{Healthy: true, RefusedReload: "hpad.toml:3: unknown key"}, State: api.Readiness{Ready: true}}}
	for i := range 250 {
		view := named(fmt.Sprintf("web-%03d", i))
		switch i {
		case 7:
			view.Evaluation.Error = "connection refused"
			view.Status.Conditions = []policy.Condition{{Type: policy.ScalingActive, Status: policy.ConditionFalse, Reason: "FailedGetExternalMetric", Message: "connection refused"}}
		case 8:
			view.Pauses = []policy.Pause{{Message: "paused by alice: deploy"}}
		case 9:
			view.Reference, view.Status.DesiredReplicas = "other/web", 5
		}
		d.List = append(d.List, view)
	}
	server := serve(t, d, api.ReadOnly)
	rows := func(text string) (names []string) {
		text, _, _ = strings.Cut(text, "<template")
		for _, part := range strings.Split(text, `<tr data-name="`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			names = append(names, name)
		}
		return names
	}
	for query, want := range map[string]struct {
		count       int
		first, text string
	}{
		"":                             {100, "web-000", "1 to 100 of 250"},
		"?page=3":                      {50, "web-200", "201 to 250 of 250"},
		"?page=99":                     {50, "web-200", "201 to 250 of 250"},
		"?page=-1":                     {100, "web-000", "1 to 100 of 250"},
		"?q=WEB-00":                    {10, "web-000", "1 to 10 of 10"},
		"?q=refused":                   {1, "web-007", "FailedGetExternalMetric: connection refused"},
		"?state=attention":             {1, "web-007", "1 to 1 of 1"},
		"?state=held":                  {1, "web-008", "paused by alice: deploy"},
		"?state=scaling":               {1, "web-009", "→ 5"},
		"?fleet=other":                 {1, "web-009", "other/web"},
		"?sort=state":                  {100, "web-007", "1 autoscaler needs attention"},
		"?sort=nonsense&fleet=nowhere": {0, "", "No autoscaler matches."},
	} {
		status, _, text := get(t, server.URL+"/"+query)
		names := rows(text)
		if status != http.StatusOK || len(names) != want.count || len(names) > 0 && names[0] != want.first || !strings.Contains(text, want.text) {
			t.Errorf("%q has %d rows, first %.1q, contains %q: %v; want %d rows, first %q", query, len(names), names, want.text, strings.Contains(text, want.text), want.count, want.first)
		}
		for _, line := range []string{"the last reload was rejected", "hpad.toml:3: unknown key", "1 autoscaler is held"} {
			if !strings.Contains(text, line) {
				t.Errorf("%q does not contain %q", query, line)
			}
		}
	}
}

// TestDetails checks the view of an autoscaler without a script.
func TestDetails(t *testing.T) {
	view := named("web")
	view.Evaluation.Late, view.Victims = 3, []drain.Victim{{ID: "i-1", Reason: "the newest"}}
	past := *view.Decision
	past.Time, past.CurrentReplicas, past.DesiredReplicas = noon.Add(-time.Hour), 2, 3
	written := int32(3)
	d := &world{&apitest.Daemon{
		List: []api.Autoscaler{view}, Alive: api.Health{Healthy: true},
		Recorded: []api.Recorded{{Autoscaler: "web", Time: past.Time, Written: &written, Reason: "MetricsAboveTarget", Decision: past}},
		Lacks:    "member b does not respond",
		Listed:   api.InstanceList{Time: noon, Instances: []api.Instance{{ID: "i-1", Name: "web-1", Node: "node-7", Address: "10.0.0.7:80", Phase: "Running", Readiness: "True", Metrics: []api.InstanceMetric{{Name: "load", Measured: policy.Measured{Group: "missing"}}}}}},
		Drawn:    map[string]api.Graph{"web": {Time: []int64{noon.Unix()}, Replicas: api.Column{3}, Desired: api.Column{3}, Min: api.Column{1}, Max: api.Column{10}}},
	}}
	server := serve(t, d, api.ReadOnly)
	for query, want := range map[string][]string{
		"": {
			"Why 3?", "Kept at 3: load", "sum(load)", "decides", "[autoscalers.web]", "MetricsAtTarget", "2 → 3", "read-only",
			"times are in <span id=\"zone\">UTC</span>", "1. Read the target (R25)",
			"The history is incomplete: member b does not respond",
		},
		"?instances":                      {"web-1", "node-7", "10.0.0.7:80", `Running, ready <span class="state" title="the newest">removed next</span>`, "&lt;unknown&gt;</td>", "late 3×"},
		"?at=2026-11-21T11:30:00Z":        {"2 to 3", "back to now"},
		"?at=2026-11-20T11:30:00Z":        {"no decision is recorded before that time"},
		"?at=soon":                        {"must be a time"},
		"?part=why&at=1763722800":         {"no decision is recorded before that time"},
		"?part=why&at=1795259400":         {"2 to 3"},
		"?part=instances":                 {"web-1"},
		"?part=why":                       {"Kept at 3"},
		"?part=nonsense&instances&at=now": {"must be a time"},
	} {
		status, _, text := get(t, server.URL+"/autoscalers/web"+query)
		for _, one := range want {
			if status != http.StatusOK || !strings.Contains(text, one) {
				t.Errorf("%q: status %d, missing %q:\n%s", query, status, one, text)
			}
		}
	}
	if status, _, text := get(t, server.URL+"/autoscalers/missing"); status != http.StatusNotFound || !strings.Contains(text, "No autoscaler named “missing”") {
		t.Errorf("response for an unknown name = %d %s", status, text)
	}
	d.ListErr = errors.New("the agent does not respond")
	if _, _, text := get(t, server.URL+"/autoscalers/web?instances"); !strings.Contains(text, "List instances: the agent does not respond") {
		t.Errorf("no error about the instances:\n%s", text)
	}
}

// TestUnknown checks that the page shows the reason but no values for an autoscaler whose status is
// unknown.
func TestUnknown(t *testing.T) {
	const cause = "member b does not respond"
	view := named("web")
	view.Status, view.Decision, view.Evaluation = policy.Status{}, nil, api.Evaluation{Unevaluated: true, Error: cause}
	server := serve(t, &world{&apitest.Daemon{List: []api.Autoscaler{view}, Alive: api.Health{Healthy: true}}}, api.ReadOnly)
	for _, path := range []string{"/?state=attention", "/autoscalers/web", "/autoscalers/web?part=why"} {
		_, _, text := get(t, server.URL+path)
		text, _, _ = strings.Cut(text, "<template")
		for _, want := range []string{"&lt;unknown&gt;", "The last decision and the next change are unknown: " + cause} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q:\n%s", path, want, text)
			}
		}
		for _, claim := range []string{"has not ended", "three periods", "No change is expected", "0 ready", "<b>0</b>"} {
			if strings.Contains(text, claim) {
				t.Errorf("%s must not contain %q:\n%s", path, claim, text)
			}
		}
	}
}

// TestZone checks that times are in the time zone of the cookie.
func TestZone(t *testing.T) {
	server := serve(t, &world{&apitest.Daemon{List: []api.Autoscaler{named("web")}}}, api.ReadOnly)
	for cookie, want := range map[string]string{
		"Europe%2FBerlin": "2026-11-21 13:00:00", "": "2026-11-21 12:00:00", "No%2FWhere": "2026-11-21 12:00:00", "..%2F..%2Fetc": "2026-11-21 12:00:00", "Local": "2026-11-21 12:00:00",
	} {
		_, _, text := get(t, server.URL+"/autoscalers/web", "Cookie", "zone="+cookie)
		if !strings.Contains(text, "decided <time datetime=\"2026-11-21T12:00:00Z\" title=\"2026-11-21 12:00:00 UTC\">"+want) {
			t.Errorf("page with the cookie %q does not contain %s:\n%s", cookie, want, text)
		}
	}
}

// TestAssets checks content types, ETags and unknown files.
func TestAssets(t *testing.T) {
	server := serve(t, &world{&apitest.Daemon{}}, api.ReadOnly)
	for file, kind := range map[string]string{
		"page.css": "text/css", "list.js": "text/javascript", "uplot.js": "text/javascript", "icon.svg": "image/svg+xml",
	} {
		status, header, text := get(t, server.URL+"/assets/"+file)
		if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), kind) || text == "" || header.Get("ETag") == "" {
			t.Errorf("GET of %s = %d %v", file, status, header)
		}
		if status, _, _ := get(t, server.URL+"/assets/"+file, "If-None-Match", header.Get("ETag")); status != http.StatusNotModified {
			t.Errorf("%s with its ETag: %d, want 304", file, status)
		}
	}
	for _, file := range []string{"nothing.js", "..%2fpage.go", "%2e%2e"} {
		if status, _, _ := get(t, server.URL+"/assets/"+file); status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", file, status)
		}
	}
}

// TestRows checks that /rows returns all rows, or only one row if the request names an autoscaler.
func TestRows(t *testing.T) {
	server := serve(t, &world{&apitest.Daemon{Alive: api.Health{Healthy: true}, List: []api.Autoscaler{named("api"), named("web")}}}, api.ReadOnly)
	for query, want := range map[string][]string{"": {"api", "web"}, "?name=web": {"web"}, "?name=gone": nil} {
		var found struct {
			Rows []struct {
				Name string `json:"name"`
			} `json:"rows"`
		}
		_, _, text := get(t, server.URL+"/rows"+query)
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range found.Rows {
			got = append(got, row.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("/rows%s = %q, want %q", query, got, want)
		}
	}
}
