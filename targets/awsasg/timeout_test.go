package awsasg

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A request that the fleet's timeout ends says so; one that its context ends does not.
func TestTimedClient(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
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
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			client := &timedClient{&http.Client{Timeout: test.timeout}}
			response, err := client.Do(request)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), says) != test.says {
				t.Errorf("Do() = %v; want that it tells of the fleet's timeout: %v", err, test.says)
			}
		})
	}
}
