package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/targets"
)

// TestEndpoints checks the format of Prometheus, and that a failure is never an empty list.
func TestEndpoints(t *testing.T) {
	ref := targets.Ref{Fleet: "nomad", Name: "region/job/gr%2Foup"}
	for name, test := range map[string]struct {
		daemon apitest.Daemon
		status int
		want   string
	}{
		"an instance": {
			apitest.Daemon{Groups: []api.EndpointGroup{{Targets: []string{"10.0.0.1:80"}, Labels: map[string]string{"node": "a"}}}},
			200, `[{"targets":["10.0.0.1:80"],"labels":{"node":"a"}}]`,
		},
		"no instance":    {apitest.Daemon{}, 200, `[]`},
		"no such target": {apitest.Daemon{ListErr: fmt.Errorf("target %s: %w", ref, api.ErrUnknown)}, 404, `{"status":"error","errorType":"not_found",`},
		"not read yet":   {apitest.Daemon{ListErr: api.ErrUnread}, 503, `{"status":"error","errorType":"unavailable","error":"the instances are unknown"}`},
		"an unread owner": {
			apitest.Daemon{ListErr: &api.Error{Status: 503, Type: api.ErrorUnavailable, Message: "the owner"}},
			503, `{"status":"error","errorType":"unavailable","error":"the owner"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			response := send(t, &test.daemon, api.ReadOnly, httptest.NewRequest(http.MethodGet, "/api/v1/sd/nomad/web", nil))
			body := strings.TrimSpace(response.Body.String())
			if response.Code != test.status || !strings.HasPrefix(body, test.want) || response.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %s", response.Code, body)
			}
			server := httptest.NewServer(api.NewHandler(&test.daemon, prometheus.NewRegistry(), api.ReadOnly))
			defer server.Close()
			groups, err := api.NewServerClient(api.Server{URL: server.URL}).Endpoints(t.Context(), ref)
			if (err == nil) != (test.status == 200) || len(groups) != len(test.daemon.Groups) {
				t.Errorf("Endpoints() = %v, %v", groups, err)
			}
			if test.daemon.Asked != ref {
				t.Errorf("the target is %v, want %v", test.daemon.Asked, ref)
			}
		})
	}
}
