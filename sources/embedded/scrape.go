package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets/clock"
)

// maxAhead limits timestamps in the future, because after a later sample, the database would
// reject current samples.
const maxAhead = 10 * time.Minute

var staleNaN = math.Float64frombits(value.StaleNaN)

// scrapeWriter writes one scrape of one endpoint.
type scrapeWriter struct {
	app   storage.AppenderV2
	clock *clock.Clock
	cache *seriesCache
	own   labels.Labels
	// honor is the value of Scrape.HonorLabels.
	honor bool
	limit int
	// at is the default timestamp in milliseconds.
	at      int64
	samples int
	// dropped is the number of samples that the database rejects because of their time.
	dropped int
}

// append writes one sample. If it returns an error, the scrape fails.
func (a *scrapeWriter) append(sample scrapedSample) error {
	a.samples++
	if a.limit > 0 && a.samples > a.limit {
		return fmt.Errorf("more than %d samples (sample_limit)", a.limit)
	}
	series, cached := a.cache.entries[string(sample.text)]
	if !cached {
		var err error
		if series, err = newSeries(sample, a.own, a.honor); err != nil {
			return err
		}
	}
	at := a.at
	if sample.at != nil {
		at = a.clock.Monotonic(time.UnixMilli(*sample.at)).UnixMilli()
	}
	if cached && series.seen == a.cache.pass && sample.at == nil {
		a.dropped++
		return nil
	}
	stored, err := a.write(series, at, sample.value)
	if err != nil || !stored {
		return err
	}
	series.seen, series.tracked = a.cache.pass, sample.at == nil
	if !cached {
		a.cache.entries[string(sample.text)] = series
	}
	return nil
}

func newSeries(sample scrapedSample, own labels.Labels, honor bool) (*cachedSeries, error) {
	var scraped labels.Labels
	sample.labels(&scraped)
	lset := withEndpointLabels(scraped, own, honor)
	if !lset.Has(model.MetricNameLabel) {
		return nil, fmt.Errorf("series %s has no metric name", sample.text)
	}
	if !lset.IsValid(model.UTF8Validation) {
		return nil, fmt.Errorf("series %s has an invalid name or label", sample.text)
	}
	return &cachedSeries{labels: lset}, nil
}

// write appends one value.
func (a *scrapeWriter) write(series *cachedSeries, at int64, v float64) (bool, error) {
	if at > a.at+maxAhead.Milliseconds() {
		a.dropped++
		return false, nil
	}
	ref, err := a.app.Append(series.ref, series.labels, 0, at, v, nil, nil, storage.AOptions{})
	switch {
	case err == nil:
		series.ref = ref
		return true, nil
	case errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrTooOldSample),
		errors.Is(err, storage.ErrDuplicateSampleForTimestamp), errors.Is(err, storage.ErrOutOfBounds):
		a.dropped++
		return false, nil
	}
	return false, fmt.Errorf("store %s: %w", series.labels, err)
}

// end writes a staleness marker. If that fails, the series ends after the lookback delta.
func (a *scrapeWriter) end(series *cachedSeries) {
	_, _ = a.app.Append(series.ref, series.labels, 0, a.at, staleNaN, nil, nil, storage.AOptions{})
}

const fallbackType = "text/plain"

type scrapedSample struct {
	// text is the unparsed series, which is valid until the next sample.
	text  []byte
	value float64
	// at is the timestamp in milliseconds, or nil.
	at     *int64
	labels func(*labels.Labels)
}

// eachSample calls f for every sample of a scrape. It returns the number of samples before the
// end or the first error.
func eachSample(body []byte, contentType string, symbols *labels.SymbolTable, f func(scrapedSample) error) (int, error) {
	parser, err := textparse.New(body, contentType, symbols, textparse.ParserOptions{FallbackContentType: fallbackType})
	if parser == nil {
		return 0, fmt.Errorf("content type %q: %w", contentType, err)
	}
	sample := scrapedSample{labels: parser.Labels}
	for count := 0; ; {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return count, nil
		case err != nil:
			return count, fmt.Errorf("parse response: %w", err)
		case entry != textparse.EntrySeries:
			continue
		}
		count++
		sample.text, sample.at, sample.value = parser.Series()
		if err := f(sample); err != nil {
			return count, err
		}
	}
}

// maxBody limits the size of the uncompressed response, in bytes.
const maxBody = 64 << 20

// maxQuoted limits the part of a response that is quoted in an error, in bytes.
const maxQuoted = 200

// acceptHeader prefers OpenMetrics over the text format.
const acceptHeader = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"

// newClient builds a client for the endpoints of a source, or for a server for discovery. Like a
// Prometheus server, it ignores the environment's proxy and follows redirects.
func newClient(access httpclient.Access, name string) (*http.Client, error) {
	cfg := access.ClientConfig()
	cfg.ProxyConfig, cfg.FollowRedirects = promconfig.ProxyConfig{}, true
	return httpclient.NewClient(access, cfg, name, nil)
}

// page is a page to get. limit is the maximum size in bytes.
type page struct {
	client  *http.Client
	url     string
	header  http.Header
	timeout time.Duration
	limit   int64
}

// scraped returns the page of an endpoint.
func scraped(client *http.Client, address string, timeout time.Duration) page {
	return page{client, address, http.Header{
		"Accept":                              {acceptHeader},
		"X-Prometheus-Scrape-Timeout-Seconds": {strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64)},
	}, timeout, maxBody}
}

// fetch gets the page. It returns the type of the content.
func (p page) fetch(ctx context.Context, body *bytes.Buffer) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no complete response within %s", p.timeout))
	defer cancel()
	contentType, err := p.get(ctx, body)
	if _, login := errors.AsType[*httpclient.LoginError](err); err != nil && ctx.Err() != nil && !login {
		return "", context.Cause(ctx)
	}
	return contentType, err
}

func (p page) get(ctx context.Context, body *bytes.Buffer) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return "", httpclient.WithoutURL(err)
	}
	request.Header = p.header
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := p.client.Do(request)
	if err != nil {
		return "", httpclient.WithoutURL(err)
	}
	defer response.Body.Close()
	content, release, err := uncompressed(response)
	if err != nil {
		return "", fmt.Errorf("read response: %w", err)
	}
	defer release()
	if response.StatusCode != http.StatusOK {
		return "", statusError(response.Status, content)
	}
	return response.Header.Get("Content-Type"), readBody(content, p.limit, body)
}

var unzippers sync.Pool

// uncompressed returns the content of a response, which may be compressed with gzip, and a function that
// must be called after its use.
func uncompressed(response *http.Response) (content io.Reader, release func(), err error) {
	if response.Header.Get("Content-Encoding") != "gzip" {
		return response.Body, func() {}, nil
	}
	unzipper, ok := unzippers.Get().(*gzip.Reader)
	if !ok {
		unzipper = new(gzip.Reader)
	}
	return unzipper, func() { unzippers.Put(unzipper) }, unzipper.Reset(response.Body)
}

func statusError(status string, content io.Reader) error {
	quoted, err := io.ReadAll(io.LimitReader(content, maxQuoted))
	if text := strings.TrimSpace(string(quoted)); err == nil && text != "" {
		return fmt.Errorf("endpoint returned %s: %q", status, text)
	}
	return fmt.Errorf("endpoint returned %s", status)
}

func readBody(content io.Reader, limit int64, body *bytes.Buffer) error {
	n, err := body.ReadFrom(io.LimitReader(content, limit+1))
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	if n > limit {
		return fmt.Errorf("content is longer than %d MiB", limit>>20)
	}
	return nil
}
