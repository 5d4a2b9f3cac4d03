package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/config"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/sources"
)

// The paths of the API.
const (
	queryPath = "/api/v1/query"
	buildPath = "/api/v1/status/buildinfo"
)

// Source queries one server. It is safe for concurrent use.
type Source struct {
	name    string
	config  Config
	address string
	http    *http.Client
	slots   *semaphore.Weighted
	budget  *sources.Budget
	// getOnly is true while the server, or a proxy before it, rejects POST and serves GET.
	getOnly atomic.Bool
	// maxAnswer is maxAnswerBytes, or less for tests.
	maxAnswer int64
}

// New builds a source from a valid configuration that has its defaults. The name
// is for error messages; results are held within the budget, nil for none. Nothing
// is sent; the files of TLS are read, and one that cannot be used is an error.
// Proxies are those of the environment (HTTPS_PROXY, NO_PROXY).
func New(name string, cfg *Config, budget *sources.Budget) (*Source, error) {
	address := withoutCredentials(cfg.URL)
	client, err := config.NewClientFromConfig(cfg.ClientConfig(), name, config.WithUserAgent("hpad"))
	if err != nil {
		return nil, fmt.Errorf("source %q: prepare connections to %q: %w", name, address, err)
	}
	return &Source{
		name:    name,
		config:  *cfg,
		address: address,
		http:    client,
		slots:   semaphore.NewWeighted(int64(cfg.MaxConcurrent)),
		budget:  budget,

		maxAnswer: maxAnswerBytes,
	}, nil
}

// Query returns what the query evaluates to at an instant, to the millisecond; a
// zero instant is the server's own present. A result that is not a vector or scalar
// of plain numbers, of that instant and each of other labels, is an error. Errors
// name the source, the server, the query and the response; one that comes from
// ctx is its error for errors.Is, and one that is the query's own matter is a
// sources.QueryError.
func (s *Source) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, query, at)
	if err != nil {
		return sources.Vector{}, fmt.Errorf("source %q: query %q at %q: %w", s.name, shorten(query.Text, maxShownQuery), s.address, err)
	}
	return vector, nil
}

// Lookback returns the configured max_age.
func (s *Source) Lookback() time.Duration { return s.config.MaxAge }

// Close ends the connections that are idle; those in use end with their query.
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
		// The server is through with a query when its response begins: a large one that
		// waits for memory keeps no other query from being evaluated.
		leave = sync.OnceFunc(func() { s.slots.Release(1) })
	}
	defer leave()

	form := url.Values{"query": {query.Text}}
	if !at.IsZero() {
		form.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', -1, 64))
	}
	if age := cmp.Or(query.MaxAge, s.config.MaxAge); age > 0 {
		form.Set("lookback_delta", age.String())
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		response, err := s.send(ctx, form)
		if err != nil {
			return err
		}
		leave()
		defer func() { _ = response.Body.Close() }()
		collector, err := s.budget.Collect(ctx, query)
		if err != nil {
			return err
		}
		vector, err = readVector(response, s.maxAnswer, collector, moment{at: at, tolerance: s.config.TimeTolerance})
		if err != nil {
			collector.Release()
		}
		return err
	})
	if s.config.OnWarnings == acceptWarnings {
		vector.Warnings, vector.Infos = nil, append(vector.Warnings, vector.Infos...)
	}
	return vector, err
}

// ask makes one request under the source's timeout. Its errors name the deadline that
// ended it.
func (s *Source) ask(ctx context.Context, request func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	err := request(limited)
	switch {
	case err == nil || limited.Err() == nil:
		return explainTransport(err)
	case ctx.Err() != nil:
		// The transport returns the context's cause, which need not be its error.
		if !errors.Is(err, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), explainTransport(err))
		}
		return explainTransport(err)
	case errors.Is(err, sources.ErrNoRoom):
		return err
	}
	return fmt.Errorf("no answer within the timeout of %s (sources.%s.timeout): %w", s.config.Timeout, s.name, limited.Err())
}

// send sends a query as a POST, or as a GET if the server, or a proxy before it, rejects
// POST. The source keeps using GET until a GET fails.
func (s *Source) send(ctx context.Context, form url.Values) (*http.Response, error) {
	address := s.config.at(queryPath)
	if !s.getOnly.Load() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header["Idempotency-Key"] = nil // lets the transport try again on another connection; it is not sent
		response, err := s.http.Do(request)
		if err != nil {
			return nil, err
		}
		switch response.StatusCode {
		case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			_, _ = io.CopyN(io.Discard, response.Body, maxErrorBytes)
			_ = response.Body.Close()
		default:
			return response, nil
		}
	}
	response, err := s.get(ctx, address+"?"+form.Encode())
	s.getOnly.Store(err == nil && response.StatusCode == http.StatusOK)
	return response, err
}

func (s *Source) get(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return s.http.Do(request)
}

// at returns the address of a path of the API.
func (c *Config) at(path string) string { return strings.TrimRight(c.URL, "/") + path }

// withoutCredentials returns a URL as errors show it.
func withoutCredentials(text string) string {
	address, err := url.Parse(text)
	if err != nil {
		return "(unreadable URL)"
	}
	address.User = nil
	address.RawQuery = ""
	address.Fragment = ""
	return address.String()
}
