package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

const (
	queryPath = "/api/v1/query"
	// lookbackParam is the parameter of a query with the maximum age of a sample.
	lookbackParam = "lookback_delta"
	// idempotencyKey is the header by which the transport recognizes requests that it may repeat.
	idempotencyKey = "Idempotency-Key"
)

// Source queries one server. It is safe for concurrent use.
type Source struct {
	name    string
	config  Config
	address string
	http    *http.Client
	slots   *semaphore.Weighted
	budget  *sources.Budget
	// getOnly is true if queries are GET: the server or a proxy in front of it rejects POST but not GET.
	getOnly atomic.Bool
	// maxAnswer is maxAnswerBytes, except in tests.
	maxAnswer int64
}

// New builds a source from a valid configuration with defaults applied. The name is used in
// errors. budget limits the results; nil means no limit. New reads the TLS files but does not
// connect. The source uses the proxies from the environment (HTTPS_PROXY, NO_PROXY).
func New(name string, cfg *Config, budget *sources.Budget) (*Source, error) {
	address := httpclient.WithoutSecrets(cfg.URL)
	client, err := cfg.NewClient(name, cfg.login())
	if err != nil {
		return nil, fmt.Errorf("source %q: prepare connections to %q: %w", name, address, err)
	}
	s := &Source{
		name:    name,
		config:  *cfg,
		address: address,
		http:    client,
		slots:   semaphore.NewWeighted(int64(cfg.MaxConcurrent)),
		budget:  budget,

		maxAnswer: maxAnswerBytes,
	}
	s.getOnly.Store(cfg.Method == http.MethodGet)
	return s, nil
}

// Query evaluates a query at an instant, to the millisecond. A zero instant means the server's
// current time. Any result other than a vector or scalar of distinct plain numbers at that instant
// is an error. Errors name the source, the server, the query and the response. If ctx has ended,
// they wrap its error. An error that the query causes is a sources.QueryError.
func (s *Source) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, query, at)
	if err != nil {
		return sources.Vector{}, fmt.Errorf("source %q: query %q at %q: %w", s.name, sources.Shorten(query.Text, maxShownQuery), s.address, err)
	}
	return vector, nil
}

// Lookback returns the configured max_age.
func (s *Source) Lookback() time.Duration { return s.config.MaxAge }

// Close closes idle connections.
func (s *Source) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

func (s *Source) query(ctx context.Context, query sources.Query, at time.Time) (vector sources.Vector, err error) {
	leave := func() {}
	if !query.Diagnosis {
		if err := s.slots.Acquire(ctx, 1); err != nil {
			return sources.Vector{}, fmt.Errorf("wait for %d other queries (max_concurrent): %w", s.config.MaxConcurrent, err)
		}
		// When the response begins, the server has already evaluated the query. Release the
		// slot then, so that waiting for memory does not block other queries.
		leave = sync.OnceFunc(func() { s.slots.Release(1) })
	}
	defer leave()

	form := s.form(query)
	if !at.IsZero() {
		form.Set("time", formatTime(at))
	}
	err = s.request(ctx, func(ctx context.Context) error {
		response, err := s.send(ctx, queryPath, form)
		if err != nil {
			return err
		}
		leave()
		defer func() { _ = response.Body.Close() }()
		collector, err := s.budget.Collect(ctx, query)
		if err != nil {
			return err
		}
		vector, err = readVector(response, s.maxAnswer, collector, expectedTime{at: at, tolerance: s.config.TimeTolerance})
		if err != nil {
			collector.Release()
		}
		return err
	})
	s.judgeWarnings(&vector)
	return vector, err
}

// judgeWarnings sets the meaning of a result's warnings.
func (s *Source) judgeWarnings(vector *sources.Vector) {
	switch {
	case s.config.OnWarnings == acceptWarnings:
		vector.Warnings, vector.Infos = nil, append(vector.Warnings, vector.Infos...)
	case len(vector.Warnings) > 0:
		vector.Remedy = fmt.Sprintf("set on_warnings = %q in [sources.%s]", acceptWarnings, s.name)
	}
}

func formatTime(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// form returns the parameters of a query without its time.
func (s *Source) form(query sources.Query) url.Values {
	form := url.Values{"query": {query.Text}}
	if age := cmp.Or(query.MaxAge, s.config.MaxAge); age > 0 {
		form.Set(lookbackParam, age.String())
	}
	return form
}

func (s *Source) request(ctx context.Context, request func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	err := request(limited)
	switch {
	case err == nil || limited.Err() == nil:
		return httpclient.WithoutURL(err)
	case ctx.Err() != nil:
		// The transport returns the context's cause, which may differ from its error.
		if !errors.Is(err, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), httpclient.WithoutURL(err))
		}
		return httpclient.WithoutURL(err)
	case errors.Is(err, sources.ErrBudget):
		return err
	}
	cause := limited.Err()
	if login, ok := errors.AsType[*httpclient.LoginError](err); ok {
		cause = login
	}
	return fmt.Errorf("no response within the timeout of %s (sources.%s.timeout): %w", s.config.Timeout, s.name, cause)
}

// send sends a query as a POST, or as a GET if the server or a proxy in front of it rejects
// POST. The source then uses GET until GET is rejected too.
func (s *Source) send(ctx context.Context, path string, form url.Values) (*http.Response, error) {
	if !s.getOnly.Load() {
		response, err := s.do(ctx, http.MethodPost, path, nil, strings.NewReader(form.Encode()))
		if err != nil || s.config.Method != "" || !rejectsMethod(response) {
			return response, err
		}
		_, _ = io.CopyN(io.Discard, response.Body, maxErrorBytes)
		_ = response.Body.Close()
	}
	response, err := s.do(ctx, http.MethodGet, path, form, http.NoBody)
	if s.config.Method == "" && err == nil {
		s.getOnly.Store(!rejectsMethod(response))
	}
	return response, err
}

// rejectsMethod reports whether a response may reject the method of its request. A proxy with rules
// for methods, as in OpenShift, returns 403.
func rejectsMethod(response *http.Response) bool {
	return slices.Contains([]int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented}, response.StatusCode)
}

// do sends a request with the configured URL parameters and others.
func (s *Source) do(ctx context.Context, method, path string, others url.Values, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.config.at(path), body)
	if err != nil {
		return nil, err
	}
	params := url.Values{}
	for name, value := range s.config.Params {
		params.Set(name, value)
	}
	maps.Copy(params, others) // a range query has a step of its own
	request.URL.RawQuery = params.Encode()
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header[idempotencyKey] = nil // lets the transport retry on a different connection; it is not sent
	}
	return s.http.Do(request)
}

func (c *Config) at(path string) string { return strings.TrimRight(c.URL, "/") + path }
