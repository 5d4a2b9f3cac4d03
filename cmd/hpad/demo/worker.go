package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// How a worker bears with a queue that does not respond: it asks again after a
// pause, and gives up after a while.
const (
	retryPause = 100 * time.Millisecond
	patience   = 5 * time.Second
	// callTimeout bounds one call to the queue; a wait for a job is part of it.
	callTimeout = pollWait + 3*time.Second
)

type worker struct {
	queue  string
	client *http.Client
	busy   prometheus.Counter
	jobs   prometheus.Counter
}

// Work takes jobs from the queue at an address, as "http://127.0.0.1:4729", and
// does them one after the other until ctx ends; the job in hand is done first.
// Meanwhile it serves /metrics and /ready on the listener, which it closes. The
// error is that the queue does not respond, or that nothing could be served.
func Work(ctx context.Context, queue string, listener net.Listener) error {
	registry := prometheus.NewRegistry()
	w := &worker{
		queue:  queue,
		client: &http.Client{Timeout: callTimeout, Transport: &http.Transport{}},
		busy:   prometheus.NewCounter(prometheus.CounterOpts{Name: "demo_worker_busy_seconds_total", Help: "Time spent on jobs."}),
		jobs:   prometheus.NewCounter(prometheus.CounterOpts{Name: "demo_worker_jobs_total", Help: "Jobs done."}),
	}
	defer w.client.CloseIdleConnections()
	registry.MustRegister(w.busy, w.jobs)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: callTimeout}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve on %s: %w", listener.Addr(), err))
		}
	}()
	err := w.run(ctx)
	closed := server.Close()
	<-served
	return errors.Join(err, closed)
}

func (w *worker) run(ctx context.Context) error {
	answered := time.Now()
	for ctx.Err() == nil {
		job, err := w.next(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			answered = time.Now()
			if job != nil {
				err = w.do(ctx, *job)
			}
		case time.Since(answered) > patience:
			return fmt.Errorf("the queue has not answered for %v: %w", patience, err)
		}
		if err != nil {
			pause(ctx, retryPause)
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// next returns the next job, nil when there is none for now.
func (w *worker) next(ctx context.Context) (*Job, error) {
	response, err := w.post(ctx, nextPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	job := new(Job)
	if err := json.NewDecoder(response.Body).Decode(job); err != nil {
		return nil, fmt.Errorf("take a job from %s: %w", w.queue, err)
	}
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
	return job, nil
}

// do does a job and reports it, also when ctx ends meanwhile. A job that cannot
// be reported comes back to the queue by itself.
func (w *worker) do(ctx context.Context, job Job) error {
	begun := time.Now()
	compute(time.Duration(job.CPUMillis) * time.Millisecond)
	ctx = context.WithoutCancel(ctx)
	pause(ctx, time.Duration(job.TimeMillis)*time.Millisecond-time.Since(begun))
	w.busy.Add(time.Since(begun).Seconds())
	w.jobs.Inc()
	response, err := w.post(ctx, donePath+"?id="+strconv.FormatUint(job.ID, 10))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// post calls the queue; any response but success is an error.
func (w *worker) post(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.queue+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	return response, nil
}

func compute(span time.Duration) {
	var sum [sha256.Size]byte
	for begun := time.Now(); time.Since(begun) < span; {
		for range 16 {
			sum = sha256.Sum256(sum[:])
		}
	}
}

func pause(ctx context.Context, span time.Duration) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
