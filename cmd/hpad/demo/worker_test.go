package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/test/wait"
)

func testListener(t *testing.T) net.Listener {
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
	listener := testListener(t)
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
		return queue.Stats().Waiting == 0 && strings.Contains(page, "demo_worker_busy_seconds_total 0.")
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
