package embedded

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/hpad/hpad/guard"
)

// seriesUp is the name of the series that reports whether a scrape succeeded.
const seriesUp = "up"

type loop struct {
	endpoint endpoint
	scrape   *Scrape
	client   *http.Client
	store    *store

	// Only the goroutine of run uses the fields below, and the caller of stop after stop returns.
	cache   *seriesCache
	up      cachedSeries
	symbols *labels.SymbolTable
	body    bytes.Buffer

	cancel context.CancelFunc
	done   chan struct{}

	// failure is the error of the last scrape.
	failure atomic.Pointer[error]
}

func newLoop(e endpoint, scrape *Scrape, client *http.Client, to *store) *loop {
	return &loop{
		endpoint: e,
		scrape:   scrape,
		client:   client,
		store:    to,
		cache:    newSeriesCache(),
		up:       cachedSeries{labels: labels.NewBuilder(e.labels).Set(model.MetricNameLabel, seriesUp).Labels()},
		symbols:  labels.NewSymbolTable(),
		done:     make(chan struct{}),
	}
}

func (l *loop) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	guard.Go(func() { l.run(ctx) })
}

// stop stops the loop and discards a scrape in progress.
func (l *loop) stop() {
	l.cancel()
	<-l.done
}

func (l *loop) run(ctx context.Context) {
	defer close(l.done)
	offset := scrapeOffset(l.endpoint.key, l.scrape.Interval)
	timer := time.NewTimer(time.Until(nextTick(time.Now(), l.scrape.Interval, offset)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		l.attempt(ctx)
		timer.Reset(time.Until(nextTick(time.Now(), l.scrape.Interval, offset)))
	}
}

// attempt scrapes once and stores the error.
func (l *loop) attempt(ctx context.Context) {
	err := guard.Call(func() error { return l.scrapeOnce(ctx) })
	if err == nil {
		err = context.Cause(ctx)
	}
	l.failure.Store(&err)
}

// scrapeOffset returns an endpoint's offset within the interval. It distributes the scrapes over
// the interval, and is the same after a restart.
func scrapeOffset(key string, interval time.Duration) time.Duration {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, key) // a hash never returns an error
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
	contentType, err := scraped(l.client, l.endpoint.url, l.scrape.Timeout).fetch(ctx, &l.body)
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
			err = fmt.Errorf("%w (and rollback: %w)", err, rollback)
		}
		a.app = l.store.appender()
		l.cache.failed(a.end)
	}
	up := 0.0
	if err == nil {
		up = 1
	}
	_, _ = a.write(&l.up, a.at, up) // a rejected sample is counted
	if failure := l.store.commit(a.app); failure != nil {
		return nil //nolint:nilerr // It concerns the store, which reports it once for all endpoints.
	}
	if err != nil {
		return err
	}
	if a.dropped > 0 {
		return droppedError(a.dropped)
	}
	return nil
}

// droppedError is the number of dropped samples of a successful scrape.
type droppedError int

func (e droppedError) Error() string {
	return fmt.Sprintf("dropped samples that are out of order, duplicate, too old or too far in the future: %d", int(e))
}

func (l *loop) scrapeWriter(now time.Time) *scrapeWriter {
	a := &scrapeWriter{
		app:   l.store.appender(),
		clock: l.store.clock,
		cache: l.cache,
		own:   l.endpoint.labels,
		honor: l.scrape.HonorLabels,
		limit: l.scrape.SampleLimit,
		at:    l.store.clock.Of(now).UnixMilli(),
	}
	l.cache.last = max(l.cache.last, a.at)
	return a
}

// endSeries marks all series of the endpoint as stale. The loop must have stopped.
func (l *loop) endSeries() error {
	if l.cache.last == 0 {
		return nil
	}
	last := l.cache.last
	a := l.scrapeWriter(time.Now())
	a.at = max(a.at, last+1)
	l.cache.failed(a.end)
	a.end(&l.up)
	return l.store.commit(a.app)
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

// succeeded completes a pass after a successful scrape. It removes the missing series, and
// calls ended for the missing series that were live.
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

// failed completes a pass after a failed scrape. It calls ended for every live series, but
// keeps the series for the next pass.
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
