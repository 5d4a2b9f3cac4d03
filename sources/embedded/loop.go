package embedded

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// The names of the series that describe a scrape.
const (
	seriesUp       = "up"
	seriesDuration = "scrape_duration_seconds"
	seriesSamples  = "scrape_samples_scraped"
)

type loop struct {
	endpoint endpoint
	scrape   *Scrape
	client   *http.Client
	store    *store

	// The fields below belong to the goroutine of run, and to the caller after stop.
	cache   *seriesCache
	reports *reports
	symbols *labels.SymbolTable
	body    bytes.Buffer

	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	failure error
}

type reports struct {
	up, duration, samples cachedSeries
}

func newReports(own labels.Labels) *reports {
	series := func(name string) cachedSeries {
		return cachedSeries{labels: labels.NewBuilder(own).Set(model.MetricNameLabel, name).Labels()}
	}
	return &reports{up: series(seriesUp), duration: series(seriesDuration), samples: series(seriesSamples)}
}

func newLoop(e endpoint, scrape *Scrape, client *http.Client, held *store) *loop {
	return &loop{
		endpoint: e,
		scrape:   scrape,
		client:   client,
		store:    held,
		cache:    newSeriesCache(),
		reports:  newReports(e.labels),
		symbols:  labels.NewSymbolTable(),
		done:     make(chan struct{}),
	}
}

func (l *loop) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
}

// stop stops the loop and discards a scrape in progress.
func (l *loop) stop() {
	l.cancel()
	<-l.done
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	offset := spread(l.endpoint.key, l.scrape.Interval)
	timer := time.NewTimer(time.Until(nextTick(time.Now(), l.scrape.Interval, offset)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := l.scrapeOnce(ctx)
		l.mu.Lock()
		l.failure = err
		l.mu.Unlock()
		timer.Reset(time.Until(nextTick(time.Now(), l.scrape.Interval, offset)))
	}
}

// spread returns an endpoint's offset within the interval. It distributes the scrapes over the
// interval, and is the same after a restart.
func spread(key string, interval time.Duration) time.Duration {
	hash := fnv.New64a()
	io.WriteString(hash, key) //nolint:errcheck // A hash takes everything.
	return time.Duration(hash.Sum64() % uint64(interval))
}

// nextTick returns the first time after now that has the given offset to a multiple of the
// interval.
func nextTick(now time.Time, interval, offset time.Duration) time.Time {
	behind := (time.Duration(now.UnixNano()) - offset) % interval
	return now.Add(interval - behind)
}

func (l *loop) scrapeOnce(ctx context.Context) error {
	start := time.Now()
	l.body.Reset()
	contentType, err := fetch(ctx, l.client, l.endpoint.url, l.scrape.Timeout, &l.body)
	if ctx.Err() != nil {
		return nil
	}
	l.cache.pass++
	a := l.scrapeWriter(start)
	if err == nil {
		_, err = eachSample(l.body.Bytes(), contentType, l.symbols, a.append)
	}
	if err == nil {
		l.cache.succeeded(a.end)
	} else {
		if rollback := a.app.Rollback(); rollback != nil {
			err = fmt.Errorf("%w (and undoing it: %w)", err, rollback)
		}
		a.app = l.store.appender()
		l.cache.failed(a.end)
	}
	l.report(a, err == nil, time.Since(start))
	if failure := l.store.commit(a.app); failure != nil {
		return nil //nolint:nilerr // It concerns the store, which reports it once for all endpoints.
	}
	if err != nil {
		return err
	}
	return a.dropped.err()
}

func (l *loop) scrapeWriter(now time.Time) *scrapeWriter {
	a := &scrapeWriter{
		app:   l.store.appender(),
		clock: l.store.clock,
		cache: l.cache,
		own:   l.endpoint.labels,
		limit: l.scrape.SampleLimit,
		at:    l.store.clock.Of(now).UnixMilli(),
	}
	l.cache.last = max(l.cache.last, a.at)
	return a
}

func (l *loop) report(a *scrapeWriter, good bool, took time.Duration) {
	up := 0.0
	if good {
		up = 1
	}
	// Rejected samples are counted.
	_, _ = a.write(&l.reports.up, a.at, up)
	_, _ = a.write(&l.reports.duration, a.at, took.Seconds())
	_, _ = a.write(&l.reports.samples, a.at, float64(a.samples))
}

// endSeries marks all series of an endpoint as stale.
func endSeries(held *store, own labels.Labels, cache *seriesCache) error {
	if cache.last == 0 {
		return nil
	}
	a := &scrapeWriter{app: held.appender(), clock: held.clock, cache: cache, at: max(held.clock.Of(time.Now()).UnixMilli(), cache.last+1)}
	cache.failed(a.end)
	about := newReports(own)
	a.end(&about.up)
	a.end(&about.duration)
	a.end(&about.samples)
	return held.commit(a.app)
}

func (l *loop) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// seriesCache contains every series of one endpoint, by its text in the last scrape. It avoids
// parsing labels, and shows which series have ended. It belongs to one scrape loop.
type seriesCache struct {
	entries map[string]*cachedSeries
	pass    uint64
	// last is the time of the newest stored sample in milliseconds.
	last int64
}

type cachedSeries struct {
	ref    storage.SeriesRef
	labels labels.Labels
	// seen is the last pass that contained the series.
	seen uint64
	// tracked is false if the endpoint reports timestamps, because the end of the series is
	// then unknown.
	tracked bool
	// live reports whether the newest stored sample is a value, not a staleness marker.
	live bool
}

func newSeriesCache() *seriesCache {
	return &seriesCache{entries: map[string]*cachedSeries{}}
}

// succeeded ends a successful pass. It removes the missing series, and calls ended for the
// missing series that were live.
func (c *seriesCache) succeeded(ended func(*cachedSeries)) {
	for text, series := range c.entries {
		if series.seen == c.pass {
			series.live = true
			continue
		}
		if series.live && series.tracked {
			ended(series)
		}
		delete(c.entries, text)
	}
}

// failed ends a failed pass. It calls ended for every live series, but keeps the series for the
// next pass.
func (c *seriesCache) failed(ended func(*cachedSeries)) {
	for text, series := range c.entries {
		if !series.live {
			delete(c.entries, text)
			continue
		}
		if series.tracked {
			ended(series)
		}
		series.live = false
	}
}
