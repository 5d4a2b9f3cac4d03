package embedded

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// seriesCache has every series of one endpoint by its text in the last scrape, so that
// a steady scrape neither parses nor hashes labels, and it is known which series
// ended. It belongs to one scrape loop at a time.
type seriesCache struct {
	entries map[string]*cachedSeries
	// pass counts scrapes.
	pass uint64
	// last is the newest time, in milliseconds, at which anything was stored.
	last int64
}

// cachedSeries is one series of an endpoint.
type cachedSeries struct {
	ref    storage.SeriesRef
	labels labels.Labels
	// seen is the last pass that had the series.
	seen uint64
	// tracked is false where the endpoint states the times itself: only it can
	// know then when the series ends.
	tracked bool
	// live means that the newest stored sample is a value, not a staleness marker.
	live bool
}

func newSeriesCache() *seriesCache {
	return &seriesCache{entries: map[string]*cachedSeries{}}
}

// succeeded ends a pass: the series it did not have are forgotten, after a call of
// ended for those that were live.
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

// failed ends a pass of which nothing is stored, with a call of ended for every live
// series. They are kept for the next pass, others are forgotten.
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
