package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func alice(*http.Request) (string, error) { return "alice", nil }

// post returns a request for an action with a JSON body.
func post(path, body string) *http.Request {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return request
}

// TestActs checks the responses to requests for actions and their authors.
func TestActs(t *testing.T) {
	for _, test := range []struct {
		path, body string
		refused    error
		status     int
		want       string
	}{
		{"/api/v1/autoscalers/checkout/pause", "", nil, 200, `"direction":"both","author":"alice"`},
		{"/api/v1/autoscalers/checkout/pause", `{"direction":"up","for":"2h","reason":"deploy"}`, nil, 200, `"direction":"up","reason":"deploy","author":"alice","since":"2026-11-21T12:00:00Z","until":"2026-11-21T14:00:00Z"`},
		{"/api/v1/autoscalers/k%C3%A4se%2F1/pause", "", nil, 200, `"autoscaler":"käse/1"`},
		{"/api/v1/autoscalers/nobody/pause", "", nil, 404, `autoscaler \"nobody\": not known`},
		{"/api/v1/fleets/prod/pause", "", nil, 200, `"fleet":"prod"`},
		{"/api/v1/pause", "", nil, 200, `"data":{"direction":"both"`},
		{"/api/v1/pause", `{"for":"soon"}`, nil, 400, `for = \"soon\": must be a duration`},
		{"/api/v1/pause", `{"for":"-1h"}`, nil, 400, `longer than 0s`},
		{"/api/v1/pause", `{"ends":"1h"}`, nil, 400, `unknown field`},
		{"/api/v1/pause", `{} {}`, nil, 400, `unexpected data after the object`},
		{"/api/v1/pause", "", fmt.Errorf("%w: no", api.ErrRefused), 409, `"errorType":"refused"`},
		{"/api/v1/pause", "", errors.New("the disk is full"), 500, `"errorType":"internal"`},
		{"/api/v1/resume", "", nil, 409, `all autoscalers: not paused`},
		{"/api/v1/autoscalers/checkout/scale", `{"replicas":8}`, nil, 200, `"name":"checkout"`},
		{"/api/v1/autoscalers/checkout/scale", ``, nil, 400, `the body has no replicas`},
		{"/api/v1/autoscalers/checkout/scale", `{"replicas":3000000000}`, nil, 400, `read the body`},
		{"/api/v1/autoscalers/checkout/scale", `{"replicas":8}`, api.ErrRefused, 409, `refused`},
		{"/api/v1/autoscalers/nobody/scale", `{"replicas":8}`, nil, 404, `no autoscaler named`},
		{"/api/v1/autoscalers/checkout/evaluate", ``, nil, 200, `"name":"checkout"`},
		{"/api/v1/autoscalers/nobody/evaluate", ``, nil, 404, `no autoscaler named`},
	} {
		t.Run(test.path+test.body, func(t *testing.T) {
			d := twoAutoscalers()
			d.ActErr = test.refused
			response := ask(t, d, alice, post(test.path, test.body))
			if response.Code != test.status || !strings.Contains(response.Body.String(), test.want) {
				t.Errorf("%d %s, want %d %s", response.Code, response.Body, test.status, test.want)
			}
			if refused := ask(t, twoAutoscalers(), api.ReadOnly, post(test.path, test.body)); refused.Code != http.StatusForbidden {
				t.Errorf("who may not write gets %d", refused.Code)
			}
		})
	}
}

// TestClientActs checks that the client's requests reach the daemon unchanged.
func TestClientActs(t *testing.T) {
	socket, d := socketPath(t), twoAutoscalers()
	serve(t, socket, api.NewHandler(d, prometheus.NewRegistry(), alice))
	client, ctx := api.NewClient(socket), t.Context()
	scope := policy.Scope{Autoscaler: "käse/1"}
	want := policy.Pause{Scope: scope, Direction: policy.Down, Reason: "deploy", Author: "alice", Since: noon, Until: noon.Add(90 * time.Minute), Message: `paused for autoscaler "käse/1": deploy`}
	if got, err := client.Pause(ctx, scope, api.PauseRequest{Direction: policy.Down, For: "90m", Reason: "deploy"}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("paused %+v, %v", got, err)
	}
	if _, err := client.Pause(ctx, policy.Scope{Fleet: "prod"}, api.PauseRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Pause(ctx, policy.Scope{}, api.PauseRequest{}); err != nil {
		t.Error(err)
	}
	if list, err := client.Pauses(ctx); err != nil || !cmp.Equal(list, d.Paused) || len(list) != 3 {
		t.Errorf("pauses %+v, %v", list, err)
	}
	if got, err := client.Resume(ctx, scope); err != nil || !cmp.Equal(got, want) {
		t.Errorf("resumed %+v, %v", got, err)
	}
	var answered *api.Error
	if _, err := client.Resume(ctx, scope); !errors.As(err, &answered) || answered.Type != api.ErrorNotPaused {
		t.Errorf("a second resume ends with %v", err)
	}
	if _, err := client.Pause(ctx, policy.Scope{Autoscaler: "nobody"}, api.PauseRequest{}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("a pause of nobody ends with %v", err)
	}
	if view, err := client.Scale(ctx, "checkout", 0, true); err != nil || view.Name != "checkout" {
		t.Errorf("scaled %s, %v", view.Name, err)
	}
	if got := d.Scaled; !cmp.Equal(got, []policy.Command{{Replicas: 0, Force: true, Author: "alice"}}) {
		t.Errorf("scaled %+v", got)
	}
	if view, err := client.Evaluate(ctx, "checkout"); err != nil || view.Name != "checkout" {
		t.Errorf("evaluated %s, %v", view.Name, err)
	}
}
