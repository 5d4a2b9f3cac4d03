package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
)

func alice(*http.Request) (string, error) { return "alice", nil }

// post returns a request for an action with a JSON body.
func post(path, body string) *http.Request {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return request
}

// TestActions checks the responses to actions and the authors of the actions.
func TestActions(t *testing.T) {
	for _, test := range []struct {
		path, body string
		refused    error
		status     int
		want       string
	}{
		{"/api/v1/autoscalers/checkout/pause", "", nil, 200, `"direction":"both","author":"alice"`},
		{"/api/v1/autoscalers/checkout/pause", `{"direction":"up","for":"2h","reason":"deploy"}`, nil, 200, `"direction":"up","reason":"deploy","author":"alice","since":"2026-11-21T12:00:00Z","until":"2026-11-21T14:00:00Z"`},
		{"/api/v1/autoscalers/k%C3%A4se%2F1/pause", "", nil, 200, `"autoscaler":"käse/1"`},
		{"/api/v1/autoscalers/nobody/pause", "", nil, 404, `autoscaler \"nobody\": does not exist`},
		{"/api/v1/fleets/prod/pause", "", nil, 200, `"fleet":"prod"`},
		{"/api/v1/pause", "", nil, 200, `"data":{"direction":"both"`},
		{"/api/v1/pause", `{"for":"soon"}`, nil, 400, `for = \"soon\": must be a duration`},
		{"/api/v1/pause", `{"for":"-1h"}`, nil, 400, `longer than 0s`},
		{"/api/v1/pause", `{"ends":"1h"}`, nil, 400, `unknown field`},
		{"/api/v1/pause", `{} {}`, nil, 400, `unexpected data after the object`},
		{"/api/v1/pause", "", fmt.Errorf("%w: no", api.ErrRefused), 409, `"errorType":"refused"`},
		{"/api/v1/pause", "", fmt.Errorf("%w: the disk is full", api.ErrUnstored), 503, `"errorType":"unstored"`},
		{"/api/v1/pause", "", errors.New("a bug"), 500, `"errorType":"internal"`},
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
			response := send(t, d, alice, post(test.path, test.body))
			if response.Code != test.status || !strings.Contains(response.Body.String(), test.want) {
				t.Errorf("got %d %s, want %d %s", response.Code, response.Body, test.status, test.want)
			}
			if refused := send(t, twoAutoscalers(), api.ReadOnly, post(test.path, test.body)); refused.Code != http.StatusForbidden {
				t.Errorf("status without write access = %d, want 403", refused.Code)
			}
		})
	}
}
