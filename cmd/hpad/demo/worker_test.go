package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/test/wait"
)

// startWorker runs a worker on a queue of its own. It returns the queue, the
// worker's address, and how to end the worker.
func startWorker(t *testing.T) (queue *Queue, address string, end func() error) {
	t.Helper()
	queue, registry := testQueue()
	server := httptest.NewServer(NewHandler(queue, registry))
	t.Cleanup(server.Close)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Work(ctx, server.URL, listener) }()
	end = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	return queue, "http://" + listener.Addr().String(), end
}

// get returns a page of a worker.
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

func TestWorkerDoesJobs(t *testing.T) {
	queue, address, end := startWorker(t)
	if code, _ := get(t, address+"/ready"); code != http.StatusNoContent {
		t.Errorf("/ready answers %d, want 204", code)
	}
	queue.Put(4)
	begun, used := time.Now(), cpuTime(t)
	wait.Soon(t, "end of the jobs", func() bool { return queue.Stats().Done == 4 })
	if took := time.Since(begun); took < 4*jobTime {
		t.Errorf("4 jobs took %v, want at least %v", took, 4*jobTime)
	}
	if got := cpuTime(t) - used; got < 2*jobCPU {
		t.Errorf("4 jobs took %v of computing, want about %v", got, 4*jobCPU)
	}
	_, page := get(t, address+"/metrics")
	if !strings.Contains(page, "demo_worker_jobs_total 4\n") || !strings.Contains(page, "demo_worker_busy_seconds_total 0.") {
		t.Errorf("/metrics does not tell of 4 jobs:\n%s", page)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if response, err := http.Get(address + "/ready"); err == nil {
		_ = response.Body.Close()
		t.Error("the worker still serves after its end")
	}
}

// cpuTime returns how long the test has been computing.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

func TestWorkerEndsItsJobFirst(t *testing.T) {
	queue, _, end := startWorker(t)
	queue.Put(2)
	wait.Soon(t, "job that is taken", func() bool { return queue.Stats().Running == 1 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if got := queue.Stats(); got.Done != 1 || got.Waiting != 1 {
		t.Errorf("stats = %+v, want the job in hand done and the other one waiting", got)
	}
}

func TestWorkerSaysThatItCannotServe(t *testing.T) {
	queue, registry := testQueue()
	server := httptest.NewServer(NewHandler(queue, registry))
	defer server.Close()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Work(t.Context(), server.URL, listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error = %v, want that the listener is closed", err)
	}
}

// A transport that responds as a function says.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

func newTestWorker(transport answers) *worker {
	counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}) }
	return &worker{queue: "http://queue", client: &http.Client{Transport: transport}, busy: counter(), jobs: counter()}
}

func TestWorkerGivesUp(t *testing.T) {
	refused := errors.New("connection refused")
	for name, transport := range map[string]answers{
		"connection refused": func(*http.Request) (*http.Response, error) { return nil, refused },
		"500 Internal Server Error": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Body: http.NoBody}, nil
		},
		"take a job from http://queue": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<html>"))}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := newTestWorker(transport).run(t.Context())
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("error = %v, want %q in it", err, name)
				}
				if took := time.Since(begun); took <= patience || took > patience+2*retryPause {
					t.Errorf("gave up after %v, want a little more than %v", took, patience)
				}
			})
		})
	}
}

func TestWorkerBearsWithAShortSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := 0
		worker := newTestWorker(func(*http.Request) (*http.Response, error) {
			asked++
			switch {
			case asked%20 != 0: // never for as long as its patience
				return nil, errors.New("no route to host")
			case asked == 200:
				cancel()
			}
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})
		if err := worker.run(ctx); err != nil || asked != 200 {
			t.Errorf("error = %v after %d questions, want none after 200", err, asked)
		}
	})
}
