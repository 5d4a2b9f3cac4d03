package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
)

type answer struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
}

// send sends one request to the handler of d, and compares the response with the OpenAPI
// description.
func send(t *testing.T, d api.Daemon, access api.Access, request *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	api.NewHandler(d, prometheus.NewRegistry(), access).ServeHTTP(recorder, request)
	checkResponse(t, request, recorder)
	return recorder
}

func open(t *testing.T, response *httptest.ResponseRecorder) answer {
	t.Helper()
	if got := response.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q, want application/json", got)
	}
	var a answer
	if err := json.Unmarshal(response.Body.Bytes(), &a); err != nil {
		t.Fatalf("response %q is not an envelope: %v", response.Body, err)
	}
	return a
}

func TestPathsAndMethods(t *testing.T) {
	for _, test := range []struct {
		method, path string
		access       api.Access
		wantStatus   int
		wantAllow    string
		wantType     string
	}{
		{"GET", "/", api.ReadOnly, 200, "", ""},
		{"GET", "/metrics", api.ReadOnly, 200, "", ""},
		{"HEAD", "/metrics", api.ReadOnly, 200, "", ""},
		{"GET", "/-/healthy", api.ReadOnly, 200, "", ""},
		{"HEAD", "/-/healthy", api.ReadOnly, 200, "", ""},
		{"POST", "/-/healthy", api.ReadOnly, 405, "GET, HEAD", "method_not_allowed"},
		{"GET", "/-/ready", api.ReadOnly, 200, "", ""},
		{"GET", "/-/reload", api.Full, 405, "POST", "method_not_allowed"},
		{"HEAD", "/-/reload", api.Full, 405, "POST", "method_not_allowed"},
		{"POST", "/-/reload", api.Full, 200, "", ""},
		{"POST", "/-/reload", api.ReadOnly, 403, "", "forbidden"},
		{"GET", "/api/v1/autoscalers", api.ReadOnly, 200, "", ""},
		{"HEAD", "/api/v1/autoscalers", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/autoscalers/checkout", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/autoscalers/k%C3%A4se%2F1", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/autoscalers/Checkout", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/autoscalers/", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/autoscalers/checkout/explain", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/autoscalers/nobody/explain", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/autoscalers/checkout/history", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/autoscalers/none/history", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/history", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/history?limit=many", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/history?limit=0", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/history?limit=1001", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/history?from=noon", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/history?to=1e300", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/explain?at=NaN", api.ReadOnly, 400, "", "bad_data"},
		{"GET", "/api/v1/autoscalers/checkout/explain?at=2020-01-01T00:00:00Z", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/autoscalers/none/explain?at=0", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/autoscalers/checkout/old", api.ReadOnly, 404, "", "not_found"},
		{"GET", "/api/v1/discovery", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/status/config", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v1/status/buildinfo", api.ReadOnly, 200, "", ""},
		{"GET", "/api/v2/autoscalers", api.ReadOnly, 404, "", "not_found"},
		{"POST", "/nothing", api.Full, 404, "", "not_found"},
		{"GET", "/api/v1/openapi.yaml", api.ReadOnly, 200, "", ""},
		{"GET", "/debug/pprof/", api.Full, 404, "", "not_found"},
		{"GET", "/-/healthy?strict=perhaps", api.ReadOnly, 400, "", "bad_data"},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			response := send(t, twoAutoscalers(), test.access, httptest.NewRequest(test.method, test.path, nil))
			if response.Code != test.wantStatus {
				t.Errorf("status = %d, want %d; body %s", response.Code, test.wantStatus, response.Body)
			}
			if got := response.Header().Get("Allow"); got != test.wantAllow {
				t.Errorf("Allow %q, want %q", got, test.wantAllow)
			}
			if got := response.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control %q, want no-store", got)
			}
			if test.wantType != "" {
				a := open(t, response)
				if a.Status != "error" || a.ErrorType != test.wantType || a.Error == "" {
					t.Errorf("envelope = %+v, want an error of type %s with a message", a, test.wantType)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	d := twoAutoscalers()
	for path, want := range map[string]any{
		"/api/v1/status/config": api.ConfigText{TOML: d.TOML}, "/api/v1/status/buildinfo": api.Build(),
	} {
		wanted, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := open(t, send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodGet, path, nil))).Data
		if string(got) != string(wanted) {
			t.Errorf("data of %s = %s, want %s", path, got, wanted)
		}
	}
}

func TestHealth(t *testing.T) {
	unevaluated := []api.Problem{{Subject: "autoscaler checkout", Message: "not evaluated for 2m0s: query prometheus: timeout"}}
	for _, test := range []struct {
		name, path string
		health     api.Health
		want       int
	}{
		{"ticking", "/-/healthy", api.Health{Healthy: true}, 200},
		{"ticking, strict", "/-/healthy?strict", api.Health{Healthy: true}, 200},
		{"one unevaluated", "/-/healthy", api.Health{Healthy: true, Unevaluated: unevaluated}, 200},
		{"all failing", "/-/healthy", api.Health{Healthy: true, AllFailing: "autoscaler web: no response"}, 200},
		{"all failing, strict", "/-/healthy?strict", api.Health{Healthy: true, AllFailing: "autoscaler web: no response"}, 503},
		{"at the maximum, strict", "/-/healthy?strict", api.Health{Healthy: true, Shortages: unevaluated}, 200},
		{"one unevaluated, strict", "/-/healthy?strict", api.Health{Healthy: true, Unevaluated: unevaluated}, 503},
		{"a rejected reload, strict", "/-/healthy?strict", api.Health{Healthy: true, RefusedReload: "no"}, 503},
		{"a rejected reload", "/-/healthy", api.Health{Healthy: true, RefusedReload: "no"}, 200},
		{"one unevaluated, strict=1", "/-/healthy?strict=1", api.Health{Healthy: true, Unevaluated: unevaluated}, 503},
		{"one unevaluated, strict=false", "/-/healthy?strict=false", api.Health{Healthy: true, Unevaluated: unevaluated}, 200},
		{"stuck", "/-/healthy", api.Health{Unevaluated: unevaluated}, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := send(t, &apitest.Daemon{Alive: test.health}, api.ReadOnly, httptest.NewRequest(http.MethodGet, test.path, nil))
			if response.Code != test.want {
				t.Errorf("status = %d, want %d", response.Code, test.want)
			}
			var got api.Health
			if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.health, got); diff != "" {
				t.Errorf("body differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	problems := []api.Problem{{Subject: "source prom", Message: "connection refused"}}
	for _, test := range []struct {
		readiness api.Readiness
		want      int
	}{
		{api.Readiness{Ready: true, Problems: problems}, 200},
		{api.Readiness{Problems: problems}, 503},
	} {
		response := send(t, &apitest.Daemon{State: test.readiness}, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/-/ready", nil))
		var got api.Readiness
		if err := json.Unmarshal(response.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if response.Code != test.want || !cmp.Equal(test.readiness, got) {
			t.Errorf("status %d and body %+v, want %d and %+v", response.Code, got, test.want, test.readiness)
		}
	}
}

func TestReload(t *testing.T) {
	t.Run("rejected over TCP", func(t *testing.T) {
		d := twoAutoscalers()
		send(t, d, api.ReadOnly, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
		if d.Reloads != 0 {
			t.Error("a read-only listener executed a reload")
		}
	})
	t.Run("returns the error of an invalid configuration", func(t *testing.T) {
		d := twoAutoscalers()
		d.ReloadErr = errBadConfig
		response := send(t, d, api.Full, httptest.NewRequest(http.MethodPost, "/-/reload", nil))
		a := open(t, response)
		if response.Code != 500 || a.ErrorType != "reload" || a.Error != errBadConfig.Error() {
			t.Errorf("status %d, envelope %+v, want 500 with the daemon's error", response.Code, a)
		}
	})
	t.Run("rejected from another site", func(t *testing.T) {
		d := twoAutoscalers()
		request := httptest.NewRequest(http.MethodPost, "/-/reload", nil)
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response := send(t, d, api.Full, request)
		if a := open(t, response); response.Code != 403 || a.ErrorType != "forbidden" || d.Reloads != 0 {
			t.Errorf("status %d, envelope %+v, %d reloads; want 403 without a reload", response.Code, a, d.Reloads)
		}
	})
	t.Run("continues after the client disconnects", func(t *testing.T) {
		d := twoAutoscalers()
		ctx, cancel := context.WithCancel(t.Context())
		d.OnReload = cancel
		send(t, d, api.Full, httptest.NewRequestWithContext(ctx, http.MethodPost, "/-/reload", nil))
		if d.Reloads != 1 || d.ReloadCtx != nil {
			t.Errorf("got %d reloads with context error %v, want 1 without an error", d.Reloads, d.ReloadCtx)
		}
	})
}

// timed is a response whose deadline for writing is recorded.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *timed) SetWriteDeadline(deadline time.Time) error {
	w.deadlines = append(w.deadlines, deadline)
	return nil
}

// TestSlowResponses checks that only a reload and its dry run have no time limit.
func TestSlowResponses(t *testing.T) {
	for call, want := range map[[2]string][]time.Time{
		{http.MethodPost, "/-/reload"}:             {{}},
		{http.MethodGet, "/api/v1/status/reload"}:  {{}},
		{http.MethodGet, "/api/v1/history/verify"}: nil,
		{http.MethodPost, "/api/v1/pause"}:         nil,
	} {
		response := &timed{ResponseRecorder: httptest.NewRecorder()}
		api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full).ServeHTTP(response, httptest.NewRequest(call[0], call[1], nil))
		if response.Code != http.StatusOK || !slices.Equal(response.deadlines, want) {
			t.Errorf("%s %s: status %d and deadlines %v, want 200 and %v", call[0], call[1], response.Code, response.deadlines, want)
		}
	}
}
