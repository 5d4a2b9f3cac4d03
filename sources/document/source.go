// Package document implements sources whose queries select values from one document. The source reads
// the document once for each instant, for all queries together.
package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
)

// Limits contains the limits of all sources with documents.
type Limits struct {
	// Timeout limits the time to read the document, for all queries together.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s"`
	// MaxAge is the maximum age of a value in whole seconds, if the document states its time: an
	// older value is omitted. The key max_age of a metric replaces it.
	MaxAge time.Duration `toml:"max_age" default:"5m" min:"1s" whole:"1s"`
	// MaxSize is the maximum size of the document, up to 16Mi. A JSON document needs up to 50 times as
	// much memory.
	MaxSize quantity.Bytes `toml:"max_size" default:"1Mi" min:"1" max:"16Mi"`
}

// Page is a document as it was read.
type Page struct {
	Text []byte
	// Type is the content type; empty if it is unknown.
	Type string
	// Age is the age of the document; 0 if it is unknown.
	Age time.Duration
}

// Source is a sources.Source. It is safe for concurrent use.
type Source struct {
	name, address string
	format        Format
	limits        Limits
	budget        *sources.Budget
	read          func(context.Context) (Page, error)
	// reading allows one reading at a time.
	reading chan struct{}

	mu sync.Mutex
	// latest is the newest reading, or nil.
	latest *reading
}

// New returns a source. The address identifies the document in errors, and must not contain secrets. read
// reads the document, up to the maximum size, until its context ends. budget limits the results; nil means
// no limit.
func New(name, address string, format Format, limits Limits, budget *sources.Budget, read func(context.Context) (Page, error)) *Source {
	return &Source{name: name, address: address, format: format, limits: limits, budget: budget, read: read, reading: make(chan struct{}, 1)}
}

// reading is one reading of the document.
type reading struct {
	at     time.Time
	cancel context.CancelFunc
	// done is closed after selector, page and err are set.
	done     chan struct{}
	document document
	page     Page
	err      error
	// waiting is the number of queries that wait for the reading.
	waiting int
}

// document is a parsed document. collect adds the selected values to a collector. Values without a time
// have the time at, and values before oldest are omitted. absence is the reason if it selects no value.
type document interface {
	collect(query sources.Query, at, oldest time.Time, c *sources.Collector) (absence string, err error)
}

// Close cancels the reading in progress and waits for its end.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.latest != nil {
		s.latest.cancel()
	}
	s.mu.Unlock()
	s.reading <- struct{}{}
	<-s.reading
	return nil
}

// maxShownQuery and maxShownText limit the text quoted in errors, in characters.
const (
	maxShownQuery = 200
	maxShownText  = 300
)

// Query selects values from the document. All queries for the same instant use the same document; the zero
// instant is the current time, for which the document is read again. A diagnosis uses the newest document, as if it had been read at the instant.
// Errors name the source, the document, the query and the start of the document. An error in the query or
// in the selected values is a sources.QueryError.
func (s *Source) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, query, at)
	switch {
	case err == nil && vector.Absence != "":
		vector.Absence = fmt.Sprintf("source %q at %q: %s", s.name, s.address, vector.Absence)
		return vector, nil
	case err == nil:
		return vector, nil
	case query.Text == "":
		return sources.Vector{}, fmt.Errorf("source %q at %q: %w", s.name, s.address, err)
	}
	return sources.Vector{}, fmt.Errorf("source %q: query %q at %q: %w", s.name, sources.Shorten(query.Text, maxShownQuery), s.address, err)
}

func (s *Source) query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	if _, err := s.format.CheckQuery(query.Text); err != nil {
		return sources.Vector{}, &sources.QueryError{Err: err}
	}
	if at.IsZero() {
		at = time.Now()
	}
	found, err := s.await(ctx, query, at)
	if err != nil {
		return sources.Vector{}, err
	}
	age, maxAge := found.page.Age, cmp.Or(query.MaxAge, s.limits.MaxAge)
	if age > maxAge {
		return sources.Vector{}, &sources.QueryError{Err: fmt.Errorf("the document is %s old, and max_age = %s", age.Round(time.Second), maxAge)}
	}
	collector, err := s.budget.Collect(ctx, query)
	if err != nil {
		return sources.Vector{}, err
	}
	if !query.Diagnosis {
		at = found.at
	}
	absence, err := found.document.collect(query, at.Add(-age), at.Add(-maxAge), collector)
	if err != nil {
		collector.Release()
		if ctx.Err() == nil && !errors.Is(err, sources.ErrBudget) {
			err = &sources.QueryError{Err: fmt.Errorf("%w; the document is %s", err, found.page.start())}
		}
		return sources.Vector{}, err
	}
	vector := collector.Vector(nil)
	if len(vector.Series) == 0 {
		vector.Absence = absence + "; the document is " + found.page.start()
	}
	return vector, nil
}

// start returns the quoted start of a document.
func (p *Page) start() string {
	if text := sources.Shorten(string(p.Text[:min(len(p.Text), 64*maxShownText)]), maxShownText); text != "" {
		return fmt.Sprintf("%q", text)
	}
	return "empty"
}

// ofType returns the content type for an error, or "" if it is unknown.
func (p *Page) ofType() string {
	if p.Type == "" {
		return ""
	}
	return fmt.Sprintf(" of type %q", sources.Shorten(p.Type, maxShownQuery))
}

// await returns the document for an instant. It reads the document if no other query for this instant has
// done so, and cancels the reading when no query waits for it any more.
func (s *Source) await(ctx context.Context, query sources.Query, at time.Time) (*reading, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	r := s.latest
	switch {
	case query.Diagnosis && (r == nil || !r.ended() || r.err != nil):
		s.mu.Unlock()
		return nil, errors.New("the document has not been read")
	case !query.Diagnosis && (r == nil || !r.at.Equal(at)):
		r = s.start(at)
	}
	r.waiting++
	s.mu.Unlock()
	var err error
	select {
	case <-r.done:
		err = r.err
	case <-ctx.Done():
		err = fmt.Errorf("the document has not been read yet: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiting--; r.waiting == 0 && !r.ended() {
		r.cancel()
		if s.latest == r {
			s.latest = nil
		}
	}
	return r, err
}

func (r *reading) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// start starts a reading. The caller holds the lock.
func (s *Source) start(at time.Time) *reading {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.limits.Timeout,
		fmt.Errorf("no complete document within the timeout of %s (sources.%s.timeout)", s.limits.Timeout, s.name))
	r := &reading{at: at, cancel: cancel, done: make(chan struct{})}
	s.latest = r
	guard.Go(func() {
		defer close(r.done)
		defer cancel()
		r.err = guard.Call(func() (err error) {
			select {
			case s.reading <- struct{}{}:
			case <-ctx.Done():
				return fmt.Errorf("an earlier reading has not ended: %w", context.Cause(ctx))
			}
			defer func() { <-s.reading }()
			if r.page, err = s.read(ctx); err == nil {
				r.document, err = s.format.parse(r.page)
				if err != nil {
					err = fmt.Errorf("%w; the document is %s", err, r.page.start())
				}
			}
			if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return err
		})
	})
	return r
}
