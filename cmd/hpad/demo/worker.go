package demo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hpad/hpad/guard"
)

// The duration of a job, and the part of it that uses the CPU.
const (
	jobTime = 50 * time.Millisecond
	jobCPU  = 4 * time.Millisecond
)

// A worker retries a failed request to the queue after retryPause. It gives up after retryLimit
// without a response.
const (
	retryPause = 100 * time.Millisecond
	retryLimit = 5 * time.Second
	// callTimeout limits one request, which includes waiting for a job.
	callTimeout = pollWait + 3*time.Second
)

type worker struct {
	// queue is the URL of the queue.
	queue  string
	client *http.Client
	busy   prometheus.Counter
}

// Work takes jobs from the queue at a URL, such as "http://127.0.0.1:4729", and executes them one
// after another until ctx ends. It finishes the current job before it returns. Until then it serves
// /metrics and /ready on the listener, which it closes at the end. It returns an error if the queue
// does not respond or the listener fails.
func Work(ctx context.Context, queue string, listener net.Listener) error {
	registry := prometheus.NewRegistry()
	w := &worker{
		queue:  queue,
		client: &http.Client{Timeout: callTimeout, Transport: &http.Transport{}},
		busy:   prometheus.NewCounter(prometheus.CounterOpts{Name: "demo_worker_busy_seconds_total", Help: "Time spent on jobs."}),
	}
	defer w.client.CloseIdleConnections()
	registry.MustRegister(w.busy)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: callTimeout}

	group, ctx := guard.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	group.Go(func() error { return errors.Join(w.run(ctx), server.Close()) })
	return group.Wait()
}

func (w *worker) run(ctx context.Context) error {
	responded := time.Now()
	for ctx.Err() == nil {
		job, err := w.next(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			responded = time.Now()
			if job {
				w.execute()
			}
		case time.Since(responded) > retryLimit:
			return fmt.Errorf("the queue has not responded for %v: %w", retryLimit, err)
		default:
			pause(ctx, retryPause)
		}
	}
	return nil
}

// next reports whether the queue returned a job.
func (w *worker) next(ctx context.Context) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.queue+nextPath, http.NoBody)
	if err != nil {
		return false, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return false, err
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return false, fmt.Errorf("%s returned %s", request.URL, response.Status)
	}
	return response.StatusCode == http.StatusOK, nil
}

// execute completes a job, even if the worker must stop before the end of the job.
func (w *worker) execute() {
	start := time.Now()
	var sum [sha256.Size]byte
	for time.Since(start) < jobCPU {
		for range 16 {
			sum = sha256.Sum256(sum[:])
		}
	}
	pause(context.Background(), jobTime-time.Since(start))
	w.busy.Add(time.Since(start).Seconds())
}

// pause waits for a duration or until ctx ends.
func pause(ctx context.Context, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	<-ctx.Done()
}
