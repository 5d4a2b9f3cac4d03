package awsasg

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/aws/awstest"
)

// A call that the fleet's timeout ends says so; one that its context ends does not.
func TestTimeout(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	const says = "no answer within the fleet's timeout of 20ms"
	for _, test := range []struct {
		name, path       string
		timeout, context time.Duration
		says             bool
	}{
		{"the fleet's timeout", "/", 20 * time.Millisecond, time.Minute, true},
		{"the context", "/", time.Minute, 20 * time.Millisecond, false},
		{"the fleet's timeout in an answer", "/begun", 20 * time.Millisecond, time.Minute, true},
		{"the context in an answer", "/begun", time.Minute, 20 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.context)
			defer cancel()
			config := testConfig(t, awstest.New(t))
			config.Endpoints.AutoScaling, config.Timeout = server.URL+test.path, test.timeout
			f := openFleet(t, config, targets.Env{})
			_, err := f.Get(ctx, "web")
			if !errors.Is(err, targets.ErrTransient) || strings.Contains(err.Error(), says) != test.says {
				t.Errorf("Get() = %v; want that it tells of the fleet's timeout: %v", err, test.says)
			}
		})
	}
}
