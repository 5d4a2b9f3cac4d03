package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// The interval for discovering the instances of a target is the scrape interval, limited to
// this range.
const (
	minLookup = time.Second
	maxLookup = 15 * time.Second
)

const lookupTimeout = 30 * time.Second

// maxProbes limits the concurrent scrapes of a check.
const maxProbes = 8

type discoverFunc func(ctx context.Context, fleet, target string) (targets.Reading, error)

// pool scrapes the endpoints of one Scrape, and discovers them.
type pool struct {
	scrape   *Scrape
	discover discoverFunc
	client   *http.Client
	lists    *lists
	store    *store

	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	loops   map[string]*loop
	failure error
	// unusable contains the errors of instances that cannot be scraped, and of lists.
	unusable []error
}

// clients contains the HTTP clients of one Scrape. server is nil without http_sd.
type clients struct{ endpoints, server *http.Client }

func newClients(name string, s *Scrape) (c clients, err error) {
	if c.endpoints, err = newClient(s.Access, name); err == nil && s.HTTPSD != nil {
		c.server, err = newClient(s.HTTPSD.Access, name)
	}
	return c, err
}

func (c clients) closeIdle() {
	c.endpoints.CloseIdleConnections()
	if c.server != nil {
		c.server.CloseIdleConnections()
	}
}

func newPool(scrape *Scrape, discover discoverFunc, of clients, to *store) *pool {
	return &pool{
		scrape:   scrape,
		discover: discover,
		client:   of.endpoints,
		lists:    &lists{scrape: scrape, client: of.server},
		store:    to,
		done:     make(chan struct{}),
		loops:    map[string]*loop{},
	}
}

func (p *pool) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	if len(p.scrape.Addresses) > 0 {
		p.sync(staticEndpoints(p.scrape))
		close(p.done)
		return
	}
	guard.Go(func() {
		defer close(p.done)
		guard.Loop(ctx, func() { p.discoverLoop(ctx) })
	})
}

func (p *pool) stop() {
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.loops {
		l.cancel()
	}
	for _, l := range p.loops {
		l.stop()
	}
}

// discoverLoop repeats the discovery of endpoints. While it fails, the previously found
// endpoints are scraped.
func (p *pool) discoverLoop(ctx context.Context) {
	interval := min(max(p.scrape.Interval, minLookup), maxLookup)
	if p.scrape.HTTPSD != nil {
		interval = p.scrape.HTTPSD.RefreshInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		endpoints, unusable, err := p.lookUp(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.failure = err
		if err == nil {
			p.unusable = unusable
		}
		p.mu.Unlock()
		if err == nil {
			p.sync(endpoints)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lookUp returns the endpoints, and the errors of instances without an endpoint and of lists.
func (p *pool) lookUp(ctx context.Context) ([]endpoint, []error, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	switch {
	case len(p.scrape.Addresses) > 0:
		return staticEndpoints(p.scrape), nil, nil
	case p.scrape.Fleet == "":
		endpoints, problems := p.lists.read(ctx)
		return endpoints, problems, nil
	}
	reading, err := p.discover(ctx, p.scrape.Fleet, p.scrape.Target)
	if err != nil {
		return nil, nil, fmt.Errorf("instances of target %q of fleet %q: %w", p.scrape.Target, p.scrape.Fleet, err)
	}
	var endpoints []endpoint
	var unusable []error
	for i, instance := range reading.Instances {
		if instance.Deleting || reading.Locations == nil {
			continue
		}
		e, err := instanceEndpoint(p.scrape, instance.ID, reading.Locations.At(i))
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, unusable, nil
}

// sync starts the loops of new endpoints and stops the loops of removed endpoints.
func (p *pool) sync(endpoints []endpoint) {
	wanted := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		wanted[e.key] = true
	}
	p.mu.Lock()
	var gone []*loop
	for key, l := range p.loops {
		if !wanted[key] {
			delete(p.loops, key)
			gone = append(gone, l)
		}
	}
	p.mu.Unlock()
	for _, l := range gone {
		l.stop()
		// The store reports its own errors.
		_ = l.endSeries()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range endpoints {
		if _, running := p.loops[e.key]; running {
			continue
		}
		l := newLoop(e, p.scrape, p.client, p.store)
		p.loops[e.key] = l
		l.start()
	}
}

func (p *pool) problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var problems []string
	if p.failure != nil {
		problems = append(problems, p.describe(p.failure))
	}
	for _, err := range p.unusable {
		problems = append(problems, p.describe(err))
	}
	for _, l := range p.loops {
		if err := l.failure.Load(); err != nil && *err != nil {
			problems = append(problems, p.describe(fmt.Errorf("scrape %s: %w", l.endpoint.name, *err)))
		}
	}
	return problems
}

// errNotScraped is the problem of an endpoint before the end of its first scrape.
var errNotScraped = errors.New("not finished yet")

// missing returns the first problem of an endpoint from which one of the selectors can select series, or
// of a discovery that has found no endpoints. It returns "" if there is none.
func (p *pool) missing(selectors [][]*labels.Matcher) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var problems []string
	for _, l := range p.loops {
		if !p.selectable(selectors, l.endpoint.labels) {
			continue
		}
		if failure := l.failure.Load(); failure == nil {
			problems = append(problems, p.describe(fmt.Errorf("scrape %s: %w", l.endpoint.name, errNotScraped)))
		} else if *failure != nil {
			problems = append(problems, p.describe(fmt.Errorf("scrape %s: %w", l.endpoint.name, *failure)))
		}
	}
	if len(p.loops) == 0 {
		for _, err := range append(slices.Clone(p.unusable), p.failure) {
			if err != nil {
				problems = append(problems, p.describe(err))
			}
		}
	}
	if len(problems) == 0 {
		return ""
	}
	return slices.Min(problems)
}

// selectable reports whether one of the selectors can select series of an endpoint with the given labels.
func (p *pool) selectable(selectors [][]*labels.Matcher, own labels.Labels) bool {
	return slices.ContainsFunc(selectors, func(matchers []*labels.Matcher) bool {
		return p.scrape.HonorLabels || canMatch(matchers, own)
	})
}

// size returns the number of endpoints.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.loops)
}

// canMatch reports whether a series with the labels of an endpoint can match a selector. Other labels of
// the series are unknown.
func canMatch(matchers []*labels.Matcher, own labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return own.Has(m.Name) && !m.Matches(own.Get(m.Name)) })
}

func (p *pool) describe(err error) string {
	return fmt.Sprintf("job %q: %v", p.scrape.Job, err)
}

// find looks up the endpoints for calls of scrapeOnce.
func (p *pool) find(ctx context.Context) {
	endpoints, unusable, err := p.lookUp(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure, p.unusable = err, unusable
	for _, e := range endpoints {
		p.loops[e.key] = newLoop(e, p.scrape, p.client, p.store)
	}
}

// scrapeOnce scrapes every endpoint once. It returns the number of successful scrapes. The loops must not
// run.
func (p *pool) scrapeOnce(ctx context.Context) (scraped int) {
	p.mu.Lock()
	loops := slices.Collect(maps.Values(p.loops))
	p.mu.Unlock()
	var group guard.Group
	group.SetLimit(maxProbes)
	for _, l := range loops {
		group.Go(func() error {
			l.attempt(ctx)
			return nil
		})
	}
	_ = group.Wait() // each loop stores its own error
	for _, l := range loops {
		if err := *l.failure.Load(); err == nil || errors.As(err, new(droppedError)) {
			scraped++
		}
	}
	return scraped
}
