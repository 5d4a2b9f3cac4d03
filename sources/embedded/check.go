package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/sources"
)

// UntestableError is the reason why a check cannot show the result of a query.
type UntestableError struct{ Reason string }

func (e *UntestableError) Error() string { return e.Reason }

// maxPause limits the time between the two scrapes of a check.
const maxPause = 2 * time.Second

// trial contains the scrapes of a source that is checked without a start.
type trial struct {
	pools []*pool
	// pause is the time between the two scrapes.
	pause time.Duration
	began time.Time

	mu       sync.Mutex
	repeated bool
}

// Check returns the Problems of a started source. Otherwise it scrapes every endpoint once, and returns
// the problems; if all scrapes failed, it returns an error. Queries then evaluate these samples at the
// current time, and the first query with a range scrapes every endpoint once more. The samples are in a
// temporary directory, which Close removes.
func (s *Source) Check(ctx context.Context) ([]string, error) {
	opened, created, err := s.openTrial()
	switch {
	case err != nil:
		return nil, fmt.Errorf("source %q: %w", s.name, err)
	case !created:
		return s.Problems(), nil
	}
	defer s.queries.Done()
	for _, p := range opened.trial.pools {
		p.find(ctx)
	}
	scraped := opened.trial.scrape(ctx)
	problems := s.Problems()
	if scraped == 0 && len(problems) > 0 {
		return problems, fmt.Errorf("source %q: no endpoint could be scraped: %s", s.name, problems[0])
	}
	return problems, nil
}

// openTrial returns the store of a started source. Otherwise it creates a store with a trial, and keeps
// it open until a call of s.queries.Done.
func (s *Source) openTrial() (opened *store, created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, false, ErrNotStarted
	case s.store != nil:
		return s.store, false, nil
	}
	dir, err := os.MkdirTemp("", "hpad-check-")
	if err != nil {
		return nil, false, fmt.Errorf("create a directory for samples: %w", err)
	}
	if opened, err = openStore(dir, s.cfg.Retention, s.env.Clock); err != nil {
		return nil, false, errors.Join(err, os.RemoveAll(dir))
	}
	for i := range s.cfg.Scrape {
		s.pools = append(s.pools, newPool(&s.cfg.Scrape[i], s.env.Discover, s.clients[i], opened))
	}
	pause := s.cfg.ScrapeInterval(func(string) bool { return true })
	opened.trial = &trial{pools: s.pools, pause: min(pause, maxPause), began: time.Now()}
	s.store = opened
	s.queries.Add(1)
	return opened, true, nil
}

// scrape scrapes every endpoint once, and returns the number of successful scrapes.
func (t *trial) scrape(ctx context.Context) (scraped int) {
	for _, p := range t.pools {
		scraped += p.scrapeOnce(ctx)
	}
	return scraped
}

// repeat scrapes every endpoint a second time, unless an earlier call has done so.
func (t *trial) repeat(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.repeated {
		return nil
	}
	timer := time.NewTimer(time.Until(t.began.Add(t.pause)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.scrape(ctx)
	t.repeated = true
	return nil
}

// query runs a query at the current time. It shortens ranges to the time since the first scrape, so that
// rates have the correct value.
func (t *trial) query(ctx context.Context, from *store, query sources.Query, run func(sources.Query, time.Time) (sources.Vector, error)) (sources.Vector, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query.Text)
	if err != nil || query.Diagnosis {
		return run(query, time.Now())
	}
	selectors := parser.ExtractSelectors(expr)
	if selectsRange(expr) {
		if err := t.repeat(ctx); err != nil {
			return sources.Vector{}, err
		}
	}
	now := time.Now()
	span := now.Sub(t.began).Truncate(time.Millisecond) + 10*time.Millisecond // a range does not contain its start
	older := shorten(expr, span)
	query.Text = expr.String()
	vector, err := run(query, now)
	if err != nil {
		return vector, err
	}
	switch {
	case len(vector.Series) > 0 && older:
		vector.Infos = append(vector.Infos, fmt.Sprintf("the check has samples of %s only: longer ranges are shortened to this time, and older samples are missing", span.Round(time.Second/10)))
	case len(vector.Series) > 0:
	case older && from.contains(ctx, selectors):
		vector.Release()
		return sources.Vector{}, &UntestableError{"it needs samples from before the check"}
	default:
		if p := t.emptyPool(selectors); p != nil {
			vector.Release()
			return sources.Vector{}, &UntestableError{fmt.Sprintf("job %q has no endpoints now", p.scrape.Job)}
		}
	}
	return vector, nil
}

// emptyPool returns the first pool without endpoints from which one of the selectors could select series, or
// nil. It returns nil if scrapes or the discovery of other endpoints failed.
func (t *trial) emptyPool(selectors [][]*labels.Matcher) (empty *pool) {
	for _, p := range t.pools {
		if p.missing(selectors) != "" {
			return nil
		}
		own := map[string]string{labelJob: p.scrape.Job}
		maps.Copy(own, p.scrape.Labels)
		if empty == nil && p.size() == 0 && p.selectable(selectors, labels.FromMap(own)) {
			empty = p
		}
	}
	return empty
}

func selectsRange(expr parser.Expr) (found bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		_, matrix := node.(*parser.MatrixSelector)
		found = found || matrix
		return nil
	})
	return found
}

// shorten limits the ranges of an expression. It reports whether the expression selects samples that are
// older than the limit.
func shorten(expr parser.Expr, limit time.Duration) (older bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.MatrixSelector:
			older = older || node.Range > limit
			node.Range = min(node.Range, limit)
		case *parser.SubqueryExpr:
			older = true
		case *parser.VectorSelector:
			older = older || node.OriginalOffset > 0 || node.Timestamp != nil
		}
		return nil
	})
	return older
}

// contains reports whether the store has samples for each selector.
func (s *store) contains(ctx context.Context, selectors [][]*labels.Matcher) bool {
	querier, err := s.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return false
	}
	defer func() { _ = querier.Close() }()
	for _, matchers := range selectors {
		if !querier.Select(ctx, false, nil, matchers...).Next() {
			return false
		}
	}
	return true
}
