package embedded

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// maxAhead is how far in the future a stated time may be: a sample beyond it
// would make the present too old for the database.
const maxAhead = 10 * time.Minute

var staleNaN = math.Float64frombits(value.StaleNaN)

// appendage is the writing of one scrape of one endpoint.
type appendage struct {
	app   storage.AppenderV2
	clock Clock
	cache *seriesCache
	own   labels.Labels
	limit int
	// at is the time, in milliseconds, of samples that state none.
	at      int64
	samples int
	dropped dropped
}

// dropped counts the samples of a scrape that the database rejects.
type dropped struct {
	outOfOrder, duplicate, outOfBounds int
}

func (d dropped) err() error {
	if d == (dropped{}) {
		return nil
	}
	return fmt.Errorf("samples were dropped: %d out of order, %d twice for one time, %d too old or too far in the future", d.outOfOrder, d.duplicate, d.outOfBounds)
}

// append writes one sample of the exposition. An error means that the scrape
// failed.
func (a *appendage) append(sample exposed) error {
	a.samples++
	if a.limit > 0 && a.samples > a.limit {
		return fmt.Errorf("more than %d samples (sample_limit)", a.limit)
	}
	series, cached := a.cache.entries[string(sample.text)]
	if !cached {
		var err error
		if series, err = newSeries(sample, a.own); err != nil {
			return err
		}
	}
	at := a.at
	if sample.at != nil {
		at = a.clock.Steady(time.UnixMilli(*sample.at)).UnixMilli()
	}
	if cached && series.seen == a.cache.pass && sample.at == nil {
		a.dropped.duplicate++
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

func newSeries(sample exposed, own labels.Labels) (*cachedSeries, error) {
	var scraped labels.Labels
	sample.labels(&scraped)
	lset := withEndpointLabels(scraped, own)
	if !lset.Has(model.MetricNameLabel) {
		return nil, fmt.Errorf("series %s has no metric name", sample.text)
	}
	if !lset.IsValid(model.UTF8Validation) {
		return nil, fmt.Errorf("series %s has a name or label that is not valid", sample.text)
	}
	return &cachedSeries{labels: lset}, nil
}

// write appends one value, and counts what the database rejects for its time.
func (a *appendage) write(series *cachedSeries, at int64, v float64) (bool, error) {
	if at > a.at+maxAhead.Milliseconds() {
		a.dropped.outOfBounds++
		return false, nil
	}
	ref, err := a.app.Append(series.ref, series.labels, 0, at, v, nil, nil, storage.AOptions{})
	switch {
	case err == nil:
		series.ref = ref
		return true, nil
	case errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrTooOldSample):
		a.dropped.outOfOrder++
	case errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		a.dropped.duplicate++
	case errors.Is(err, storage.ErrOutOfBounds):
		a.dropped.outOfBounds++
	default:
		return false, fmt.Errorf("store %s: %w", series.labels, err)
	}
	return false, nil
}

// end writes the marker after which a series has no value. That it cannot be
// written only means that the series ends with the lookback instead.
func (a *appendage) end(series *cachedSeries) {
	_, _ = a.app.Append(series.ref, series.labels, 0, a.at, staleNaN, nil, nil, storage.AOptions{})
}
