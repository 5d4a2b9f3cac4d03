// Package embedded is the source of fleets that have no Prometheus: it scrapes
// endpoints itself, keeps the samples in Prometheus's own database (tsdb) and
// evaluates queries with Prometheus's own engine (promql).
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// ErrNotStarted is the error of a query before Start and after Close.
var ErrNotStarted = errors.New("source is not started")

// Options are the parts of a source besides its configuration.
type Options struct {
	// Dir is the directory of the samples where the configuration names none.
	Dir string
	// Discover returns the instances of a fleet's target; nil where there are no
	// fleets. It is called about as often as the instances are scraped, but not
	// more than once a second for each Scrape.
	Discover func(ctx context.Context, fleet, target string) ([]Endpoint, error)
	// Clock is what samples are dated by, so that a step of the wall clock neither
	// makes old ones new nor loses any; nil means the wall clock.
	Clock Clock
	// Samples bounds the samples that all queries hold at once, Answers the memory that
	// their results take; nil bounds nothing.
	Samples, Answers *sources.Budget
}

// Clock has a time that nobody sets.
type Clock interface {
	// Of returns the time of an instant that time.Now returned in this process.
	Of(instant time.Time) time.Time
	// Steady returns the time at which the wall clock, as it goes now, shows wall.
	Steady(wall time.Time) time.Time
}

// wallClock is the Clock that is set whenever the machine's is.
type wallClock struct{}

func (wallClock) Of(instant time.Time) time.Time  { return instant }
func (wallClock) Steady(wall time.Time) time.Time { return wall }

// Endpoint is one instance of a fleet's target as it concerns scraping.
type Endpoint struct {
	// ID is the instance's, and the label "instance_id" of its series.
	ID string
	// Addresses are host names or IP addresses without port; the first is used.
	Addresses []string
	// Ports are its ports; "" labels a kind's one unnamed port.
	Ports targets.Ports
	// Labels are added to every series; a name's characters that no label may
	// have become "_". The labels that hpad sets itself and those of the Scrape
	// win over them.
	Labels map[string]string
}

// Source scrapes, stores and evaluates. It is safe for concurrent use.
type Source struct {
	name    string
	cfg     *Config
	options Options
	dir     string
	engine  *promql.Engine
	// few is the engine of queries that hold no more samples than every query gets at
	// once; nil where that is as much as any may hold.
	few    *promql.Engine
	client *http.Client

	mu sync.Mutex
	// store is nil before Start or Succeed and after Close.
	store *store
	// older is the source whose scraping Start takes over.
	older *Source
	pools []*pool
	// started and closed are set by Start and Close.
	started, closed bool
	// queries are those under way.
	queries sync.WaitGroup
}

// New builds a source of a defaulted and valid configuration. It has no effect
// outside of the process: Start opens the directory and begins to scrape.
func New(name string, cfg *Config, options Options) (*Source, error) {
	dir := cmp.Or(cfg.Dir, options.Dir)
	if dir == "" {
		return nil, fmt.Errorf("source %q: no directory for its samples: set dir", name)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("source %q: directory %q: %w", name, dir, err)
	}
	for i, scrape := range cfg.Scrape {
		if scrape.Fleet != "" && options.Discover == nil {
			return nil, fmt.Errorf("source %q: scrape[%d]: fleet %q cannot be scraped: there are no fleets here", name, i, scrape.Fleet)
		}
	}
	if options.Clock == nil {
		options.Clock = wallClock{}
	}
	s := &Source{
		name:    name,
		cfg:     cfg,
		options: options,
		dir:     dir,
		engine:  newEngine(cfg, cfg.MaxSamples),
		client:  newClient(),
	}
	if options.Samples != nil && options.Samples.Share() < int64(cfg.MaxSamples) {
		s.few = newEngine(cfg, int(options.Samples.Share()))
	}
	return s, nil
}

// defaultStep is that of a subquery that names none.
const defaultStep = time.Minute

// newEngine builds an engine like that of a Prometheus server without feature flags.
func newEngine(cfg *Config, maxSamples int) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples:    maxSamples,
		Timeout:       cfg.Timeout,
		LookbackDelta: cfg.LookbackDelta,
		// A server evaluates its rules every minute unless told otherwise, and
		// that is the step of a subquery that names none.
		NoStepSubqueryIntervalFn: func(int64) int64 { return defaultStep.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   parser.NewParser(parser.Options{}),
	})
}

// Succeed takes over the open directory of an older source and, at Start, its
// scraping: a series that both scrape goes on without a gap. It returns false when
// the older one has another directory or retention, or is not working.
func (s *Source) Succeed(older any) bool {
	o, ok := older.(*Source)
	if !ok || o == s || o.dir != s.dir || o.cfg.Retention != s.cfg.Retention {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil || s.closed {
		return false
	}
	s.store = o.shareStore()
	if s.store == nil {
		return false
	}
	s.older = o
	return true
}

func (s *Source) shareStore() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	return s.store.share()
}

// Start opens the directory, unless it was taken over, and begins to scrape.
func (s *Source) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("source %q: start: it is closed already", s.name)
	case s.started:
		return fmt.Errorf("source %q: start: it is started already", s.name)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("source %q: start: %w", s.name, err)
	}
	if s.store == nil {
		opened, err := openStore(s.dir, s.cfg.Retention, s.options.Clock)
		if err != nil {
			return fmt.Errorf("source %q: %w", s.name, err)
		}
		s.store = opened
	}
	s.started = true
	s.pools = make([]*pool, len(s.cfg.Scrape))
	if s.older != nil {
		s.older.handOver(s.cfg.Scrape, s.pools)
		s.older = nil
	}
	for i, taken := range s.pools {
		if taken == nil {
			s.pools[i] = newPool(&s.cfg.Scrape[i], s.options.Discover, s.client, s.store)
			s.pools[i].start()
		}
	}
	return nil
}

// handOver moves the pools that can continue to a successor, at the position of their scrapes.
// Others end with their series.
func (s *Source) handOver(scrapes []Scrape, to []*pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		i := slices.IndexFunc(scrapes, func(next Scrape) bool { return p.canBecome(&next) })
		if i < 0 || to[i] != nil {
			p.stop(true)
			continue
		}
		p.become(&scrapes[i])
		to[i] = p
	}
	s.pools = nil
}

// Close ends every scrape, waits for the queries under way and closes the directory,
// unless a successor has it. Series are not marked as stale: a restart goes on with
// them.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, p := range s.pools {
		p.stop(false)
	}
	s.pools = nil
	s.mu.Unlock()
	s.client.CloseIdleConnections()

	s.mu.Lock()
	held := s.store
	s.store = nil
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	s.queries.Wait()
	if err := held.release(); err != nil {
		return fmt.Errorf("source %q: close directory %q: %w", s.name, s.dir, err)
	}
	return nil
}

// Problems returns a sentence for everything that is wrong now: endpoints whose last
// scrape failed, targets whose instances are unknown, trouble with storing.
func (s *Source) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []string
	for _, p := range s.pools {
		problems = append(problems, p.problems()...)
	}
	if s.store != nil {
		problems = append(problems, s.store.problems()...)
	}
	slices.Sort(problems)
	return problems
}

// Check returns the Problems of a started source. One that is not started tries
// every endpoint once, without storing anything, and returns what went wrong; it
// is an error when nothing could be scraped at all.
func (s *Source) Check(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	started := s.started && !s.closed
	s.mu.Unlock()
	if started {
		return s.Problems(), nil
	}
	var (
		sentences []string
		answered  int
	)
	for i := range s.cfg.Scrape {
		p := newPool(&s.cfg.Scrape[i], s.options.Discover, s.client, nil)
		good, problems := p.probe(ctx)
		answered += good
		sentences = append(sentences, problems...)
	}
	s.client.CloseIdleConnections()
	if answered == 0 && len(sentences) > 0 {
		return sentences, fmt.Errorf("source %q: no endpoint could be scraped: %s", s.name, sentences[0])
	}
	return sentences, nil
}
