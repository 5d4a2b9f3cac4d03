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

// TestLogs checks the lines and the errors of a request for output.
func TestLogs(t *testing.T) {
	for _, test := range []struct {
		query  string
		daemon apitest.Daemon
		status int
		want   string
	}{
		{"instance=a&tail=10000&follow=true", apitest.Daemon{Output: "one\npassword=hunter22\nlast"}, 200, "one\npassword=<redacted>\nlast\n"},
		{"instance=a", apitest.Daemon{}, 200, ""},
		{"instance=a", apitest.Daemon{Output: strings.Repeat("x", 64<<10+1)}, 200, strings.Repeat("x", 64<<10) + "\nx\n"},
		{"instance=a", apitest.Daemon{ListErr: fmt.Errorf("instance: %w", api.ErrUnknown)}, 404, `"errorType":"not_found"`},
		{"instance=a", apitest.Daemon{ListErr: fmt.Errorf("%w: no journal", api.ErrRefused)}, 409, `"errorType":"refused"`},
		{"instance=a", apitest.Daemon{ListErr: &api.Error{Status: 409, Type: api.ErrorRefused, Message: "the owner"}}, 409, `"error":"the owner"`},
		{"instance=a&tail=0", apitest.Daemon{}, 400, `tail = \"0\"`},
		{"instance=a&tail=10001", apitest.Daemon{}, 400, `tail = \"10001\"`},
		{"instance=a&previous=true", apitest.Daemon{Output: "before"}, 200, "before\n"},
		{"instance=a&previous=true&follow=true", apitest.Daemon{}, 400, "mutually exclusive"},
		{"instance=a&follow=yes", apitest.Daemon{}, 400, "follow"},
	} {
		response := send(t, &test.daemon, api.Full, httptest.NewRequest(http.MethodGet, "/api/v1/autoscalers/web/logs?"+test.query, nil))
		body := response.Body.String()
		if response.Code != test.status || test.status == 200 && body != test.want || !strings.Contains(body, test.want) {
			t.Errorf("%q: %d %.200s", test.query, response.Code, body)
		}
		server := httptest.NewServer(api.NewHandler(&test.daemon, prometheus.NewRegistry(), api.Full))
		var got strings.Builder
		err := api.NewServerClient(api.Server{URL: server.URL}).Logs(t.Context(), "web", "a", targets.LogQuery{Lines: 1}, func(line string) error {
			got.WriteString(line + "\n")
			return nil
		})
		server.Close()
		if test.status == 200 && (err != nil || got.String() != test.want) || test.daemon.ListErr != nil && err == nil {
			t.Errorf("%q: Logs() = %v after %.200q", test.query, err, got.String())
		}
	}
}

// TestLogsCut checks the error of output that ends because the server stops.
func TestLogsCut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("one\n"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	err := api.NewServerClient(api.Server{URL: server.URL}).Logs(t.Context(), "web", "a", targets.LogQuery{Lines: 1}, func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the output is incomplete: hpad stopped") {
		t.Errorf("error %v", err)
	}
}
