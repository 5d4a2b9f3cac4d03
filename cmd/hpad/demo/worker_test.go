package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/test/wait"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestWork(t *testing.T) {
	registry := prometheus.NewRegistry()
	queue := NewQueue(registry)
	server := httptest.NewServer(NewHandler(queue, registry))
	defer server.Close()
	listener := listen(t)
	address := "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Work(ctx, server.URL, listener) }()

	if code, _ := get(t, address+"/ready"); code != http.StatusNoContent {
		t.Errorf("/ready returns %d, want 204", code)
	}
	start := time.Now()
	queue.Put(4)
	wait.Soon(t, "time of 3 jobs", func() bool { // the 4th job may still run
		_, page := get(t, address+"/metrics")
		return queue.Stats().Waiting == 0 && strings.Contains(page, "demo_worker_busy_seconds_total 0.1")
	})
	if took := time.Since(start); took < 3*jobTime {
		t.Errorf("3 jobs took %v, want at least %v", took, 3*jobTime)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Work() = %v", err)
	}
	if response, err := http.Get(address + "/ready"); err == nil {
		_ = response.Body.Close()
		t.Error("the worker serves after its end")
	}
}

// responder is a transport that calls a function.
type responder func(*http.Request) (*http.Response, error)

func (r responder) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func newTestWorker(transport responder) *worker {
	return &worker{
		queue: "http://queue", client: &http.Client{Transport: transport},
		busy: prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}),
	}
}

func TestWorkerGivesUp(t *testing.T) {
	refused := errors.New("connection refused")
	for name, transport := range map[string]responder{
		"connection refused": func(*http.Request) (*http.Response, error) { return nil, refused },
		"500 Internal Server Error": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Body: http.NoBody}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := newTestWorker(transport).run(t.Context())
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("error = %v, want %q in it", err, name)
				}
				if took := time.Since(start); took <= retryLimit || took > retryLimit+2*retryPause {
					t.Errorf("gave up after %v, want slightly more than %v", took, retryLimit)
				}
			})
		})
	}
}
