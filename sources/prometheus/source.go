package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	apiv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/sources"
)

// Source asks one server. It is safe for concurrent use.
type Source struct {
	name    string
	config  Config
	address string
	http    *http.Client
	client  api.Client
	slots   *semaphore.Weighted
}

// New builds a source from a valid configuration that has its defaults. The name
// is for error messages. Nothing is sent; the files of TLS are read, and one that
// cannot be used is an error. Proxies are those of the environment (HTTPS_PROXY,
// NO_PROXY).
func New(name string, cfg *Config) (*Source, error) {
	address := withoutCredentials(cfg.URL)
	client, err := config.NewClientFromConfig(cfg.ClientConfig(), name, config.WithUserAgent("hpad"))
	if err != nil {
		return nil, fmt.Errorf("source %q: prepare connections to %q: %w", name, address, err)
	}
	client.Transport = boundedTransport{client.Transport}
	answers, err := api.NewClient(api.Config{Address: cfg.URL, Client: client})
	if err != nil {
		return nil, fmt.Errorf("source %q: prepare connections to %q: %w", name, address, err)
	}
	return &Source{
		name:    name,
		config:  *cfg,
		address: address,
		http:    client,
		client:  answers,
		slots:   semaphore.NewWeighted(int64(cfg.MaxConcurrent)),
	}, nil
}

// Query answers what text evaluates to at an instant, to the millisecond; a zero
// instant is the server's own present. A result that is not a vector or scalar of
// plain numbers is an error. Errors name the source, the server, the query and
// what was answered; one that comes from ctx is its error for errors.Is, and one
// that is the query's own matter is a sources.QueryError.
func (s *Source) Query(ctx context.Context, text string, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, text, at)
	if err != nil {
		return sources.Vector{}, fmt.Errorf("source %q: query %q at %q: %w", s.name, shorten(text, maxShownQuery), s.address, err)
	}
	return vector, nil
}

// Close ends the connections that are idle; those in use end with their query.
func (s *Source) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

func (s *Source) query(ctx context.Context, text string, at time.Time) (sources.Vector, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return sources.Vector{}, fmt.Errorf("wait for %d other queries (max_concurrent): %w", s.config.MaxConcurrent, err)
	}
	defer s.slots.Release(1)

	var options []apiv1.Option
	if s.config.MaxAge > 0 {
		options = append(options, apiv1.WithLookbackDelta(s.config.MaxAge))
	}
	var result model.Value
	var warnings apiv1.Warnings
	err := s.ask(ctx, func(ctx context.Context, server apiv1.API) (err error) {
		result, warnings, err = server.Query(ctx, text, at, options...)
		return err
	})
	if err != nil {
		return sources.Vector{}, err
	}
	vector, err := toVector(result)
	vector.Warnings = warnings
	return vector, err
}

// ask runs one request under the source's timeout. Its errors say which of the
// two deadlines ended it, or what the server answered instead.
func (s *Source) ask(ctx context.Context, request func(context.Context, apiv1.API) error) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	client := &answerClient{Client: s.client}
	err := request(limited, apiv1.NewAPI(client))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		// The transport answers the context's cause, which need not be its error.
		if !errors.Is(err, ctx.Err()) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return err
	case limited.Err() != nil:
		return fmt.Errorf("no answer within the timeout of %s (sources.%s.timeout): %w", s.config.Timeout, s.name, limited.Err())
	case client.err == nil:
		return explainBody(err, client.body)
	}
	return client.err
}

// withoutCredentials is a URL as errors show it.
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
