package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
)

// TestOutputOfInstances checks that only clients that may write can read the output of instances.
func TestOutputOfInstances(t *testing.T) {
	const output = "customer 4711 has no address"
	d := &world{&apitest.Daemon{
		List: []api.Autoscaler{named("web")}, Output: output,
		Listed: api.InstanceList{Time: noon, Instances: []api.Instance{{ID: "i-1", Name: "web-1", Phase: "Failed", LastOutput: output, HealthOutput: output, Failing: true}}},
	}}
	anonymous, operator := serve(t, d, api.ReadOnly), serve(t, d, api.Full)
	for path, shows := range map[string]bool{
		"/": false, "/rows": false, "/autoscalers/web": false, "/autoscalers/web?instances": true, "/autoscalers/web?part=instances": true,
		"/api/v1/autoscalers": false, "/api/v1/autoscalers/web": false, "/api/v1/autoscalers/web/explain": false, "/api/v1/autoscalers/web/history": false,
		"/api/v1/autoscalers/web/instances": true, "/api/v1/autoscalers/web/logs": true, "/api/v1/autoscalers/web/logs?follow=true": true,
		"/api/v1/status/config": false, "/metrics": false,
	} {
		if status, _, text := get(t, anonymous.URL+path); strings.Contains(text, output) || strings.Contains(path, "/logs") != (status == http.StatusForbidden) {
			t.Errorf("%s of an anonymous client: %d %s", path, status, text)
		}
		if status, _, text := get(t, operator.URL+path); status != http.StatusOK || strings.Contains(text, output) != shows {
			t.Errorf("%s of an operator: %d %s; want output: %t", path, status, text, shows)
		}
	}
	if d.Listed.Instances[0].LastOutput != output {
		t.Error("the list of the daemon was modified")
	}
}
