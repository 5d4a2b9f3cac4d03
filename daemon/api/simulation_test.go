package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// passes returns a recording with passes at the start of each minute.
func passes(n int) simulate.Recording {
	recording := simulate.Recording{Name: "web", Origin: simulate.FromGraphs, Metrics: []string{"queue"}, Step: time.Minute}
	for i := range n {
		recording.Ticks = append(recording.Ticks, simulate.Tick{
			Time: time.Date(2026, 3, 1, 0, i, 0, 0, time.UTC), Replicas: 2, Desired: 2, Observed: 2, Ready: 2, Readings: []simulate.Reading{{Milli: 150_000}},
		})
	}
	return recording
}

// simulated returns a daemon with an autoscaler that can be simulated.
func simulated() *apitest.Daemon {
	return &apitest.Daemon{
		List: []api.Autoscaler{{Name: "web"}}, Passes: passes(120),
		Simulated: []simulate.Policy{{
			Label: "active", SyncPeriod: time.Minute,
			Settings: policy.Settings{Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute},
			Spec: policy.Default(policy.Spec{MaxReplicas: 9, Metrics: []policy.MetricSpec{{
				Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(100_000))},
			}}}),
			Queries: []string{"queue_length"},
		}},
	}
}

func ask(t *testing.T, d api.Daemon, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return send(t, d, api.ReadOnly, request)
}

// TestRecording checks that clients without write access get the data of a simulation, with the values
// of the first origin that has data.
func TestRecording(t *testing.T) {
	queried := passes(3)
	queried.Origin = simulate.FromPrometheus
	for _, test := range []struct {
		name, body string
		change     func(*apitest.Daemon)
		want       string
	}{
		{"graphs", "", nil, `"origin":"graphs"`},
		{"period", `{"from":"2026-03-01T00:00:00Z","until":"2026-03-02T00:00:00Z","variants":[{"set":["max_replicas=5"]}]}`, nil, `"policies":[{"label":"active"`},
		{"no graphs", "", func(d *apitest.Daemon) { d.Passes.Ticks, d.QueriedPasses = nil, queried }, `"origin":"prometheus"`},
		{"delays of the graphs", `{"data":"prometheus"}`, func(d *apitest.Daemon) {
			d.QueriedPasses, d.Passes.Ticks[5].Desired = queried, 3
			for i := 6; i < 120; i++ {
				d.Passes.Ticks[i].Replicas, d.Passes.Ticks[i].Desired, d.Passes.Ticks[i].Observed, d.Passes.Ticks[i].Ready = 3, 3, 3, 3
			}
		}, `"startup":{"duration":60000000000,"measured":1}`},
		{"prometheus", `{"data":"prometheus"}`, func(d *apitest.Daemon) { d.QueriedPasses = queried }, `"origin":"prometheus"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := simulated()
			if test.change != nil {
				test.change(d)
			}
			response := ask(t, d, "/api/v1/autoscalers/web/recording", test.body)
			if response.Code != http.StatusOK || !strings.Contains(response.Body.String(), test.want) {
				t.Errorf("%d: %.300s", response.Code, response.Body)
			}
		})
	}
}

// TestRecordingErrors checks the error of each invalid request.
func TestRecordingErrors(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		change           func(*apitest.Daemon)
		status           int
		want             string
	}{
		{"unknown", "db", "", nil, 404, `no autoscaler named \"db\"`},
		{
			"no data", "web", `{"from":"2026-03-01T00:00:00Z","until":"2026-03-02T00:00:00Z"}`, func(d *apitest.Daemon) { d.Passes.Ticks = nil }, 400,
			`autoscaler \"web\" has no data from 2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z`,
		},
		{"order", "web", `{"from":"2026-03-02T00:00:00Z","until":"2026-03-01T00:00:00Z"}`, nil, 400, `from must be before until`},
		{"too long", "web", `{"from":"2026-01-01T00:00:00Z","until":"2026-03-01T00:00:00Z"}`, nil, 400, `the period has 1416h0m0s, and at most 744h0m0s are possible`},
		{"data", "web", `{"data":"csv"}`, nil, 400, `data = \"csv\": must be \"graphs\" or \"prometheus\"`},
		{"field", "web", `{"since":"7d"}`, nil, 400, `unknown field`},
		{"variants", "web", `{"variants":[{},{},{},{},{},{},{},{},{},{},{}]}`, nil, 400, `11 variants are given, and at most 10 are possible`},
		{"invalid variant", "web", "", func(d *apitest.Daemon) {
			d.DataErr = config.Errors{{Key: "autoscalers.web.max", Detail: "unknown key"}}
		}, 400, `autoscalers.web.max: unknown key`},
		{"changed target", "web", "", func(d *apitest.Daemon) {
			d.Passes.Notes = []simulate.Note{{Time: time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC), Text: simulate.TargetChanged}}
		}, 400, `the target or the kind of its fleet changed at 2026-03-01T01:00:00Z: select a period that begins after this time`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := simulated()
			if test.change != nil {
				test.change(d)
			}
			response := ask(t, d, "/api/v1/autoscalers/"+test.path+"/recording", test.body)
			if response.Code != test.status || !strings.Contains(response.Body.String(), test.want) {
				t.Errorf("%d: %s", response.Code, response.Body)
			}
		})
	}
}

// TestSimulation checks that a client without write access gets the rows of a simulation.
func TestSimulation(t *testing.T) {
	d := simulated()
	varied := d.Simulated[0]
	varied.Label, varied.Spec.MaxReplicas = "max_replicas=1", 1
	d.Simulated = append(d.Simulated, varied)
	d.Simulated[0].SyncPeriod = 45 * time.Second // the last pass is before the last tick
	d.Passes = passes(3 * 2000)
	response := ask(t, d, "/api/v1/autoscalers/web/simulation", `{"variants":[{"set":["max_replicas=1"]}],"assumptions":{"metrics":{"queue":{"model":"total"}},"price":0.1}}`)
	var body struct{ Data simulate.Result }
	if err := json.Unmarshal(response.Body.Bytes(), &body); err != nil || response.Code != http.StatusOK || len(body.Data.Rows) != 2 {
		t.Fatalf("%d, %v: %.300s", response.Code, err, response.Body)
	}
	active, lower := &body.Data.Rows[0], &body.Data.Rows[1]
	if len(body.Data.Times) != 2000 || len(lower.Replicas) != 2000 || len(active.Replicas) != 2000 || len(body.Data.Demand) != 2000 || active.Shortage != 0 || lower.Shortage < 0.9 || lower.Cost >= active.Cost {
		t.Errorf("%d instants, active: %+v, lower: %+v", len(body.Data.Times), active.Score, lower.Score)
	}
	response = ask(t, d, "/api/v1/autoscalers/web/simulation", `{"assumptions":{"metrics":{"cpu":{"model":"total"}}}}`)
	if response.Code != http.StatusBadRequest || !strings.Contains(response.Body.String(), `simulate autoscaler \"web\": `) {
		t.Errorf("unknown metric: %d %s", response.Code, response.Body)
	}
	d.Passes = passes(2)
	response = ask(t, d, "/api/v1/autoscalers/web/simulation", "")
	if response.Code != http.StatusBadRequest || !strings.Contains(response.Body.String(), "data") {
		t.Errorf("too little data: %d %s", response.Code, response.Body)
	}
}

// slowDaemon blocks in Recording until it is released.
type slowDaemon struct {
	*apitest.Daemon
	begun, release chan struct{}
}

func (d *slowDaemon) Recording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error) {
	d.begun <- struct{}{}
	<-d.release
	return d.Daemon.Recording(ctx, name, from, to)
}

// TestOneSimulation checks that a second simulation is rejected, but not the request of another member.
func TestOneSimulation(t *testing.T) {
	d := &slowDaemon{simulated(), make(chan struct{}, 1), make(chan struct{})}
	handler := api.NewHandler(d, prometheus.NewRegistry(), api.ReadOnly)
	post := func(member string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/api/v1/autoscalers/web/recording", http.NoBody)
		if member != "" {
			request.Header.Set(api.MemberHeader, member)
		}
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		return response
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- post("") }()
	<-d.begun
	if response := post(""); response.Code != http.StatusTooManyRequests || response.Header().Get("Retry-After") == "" ||
		!strings.Contains(response.Body.String(), "another simulation is running; try again in a few seconds") {
		t.Errorf("second simulation: %d %s", response.Code, response.Body)
	}
	close(d.release)
	if response := post("other"); response.Code != http.StatusOK {
		t.Errorf("request of a member: %d %s", response.Code, response.Body)
	}
	if response := <-first; response.Code != http.StatusOK {
		t.Errorf("first simulation: %d %s", response.Code, response.Body)
	}
	<-d.begun
	if response := post(""); response.Code != http.StatusOK {
		t.Errorf("later simulation: %d %s", response.Code, response.Body)
	}
}

// silentDaemon never responds to QueriedRecording.
type silentDaemon struct{ *apitest.Daemon }

func (d silentDaemon) QueriedRecording(ctx context.Context, _ string, _, _ time.Time) (simulate.Recording, error) {
	<-ctx.Done()
	return simulate.Recording{}, ctx.Err()
}

// TestSlowData checks that a slow source does not block simulations for more than a minute.
func TestSlowData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		response := ask(t, silentDaemon{simulated()}, "/api/v1/autoscalers/web/recording", `{"data":"prometheus"}`)
		if response.Code != http.StatusBadRequest || !strings.Contains(response.Body.String(), "reading the data takes more than 1m0s: select a shorter period") {
			t.Errorf("%d %s", response.Code, response.Body)
		}
	})
}
