package embedded

import (
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

func TestRetention(t *testing.T) {
	const retention = 30 * time.Minute
	held, err := openStore(t.TempDir(), retention, wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := held.release(); err != nil {
			t.Error(err)
		}
	}()
	end := time.Now().UnixMilli()
	for at := end - (3 * time.Hour).Milliseconds(); at <= end; at += (15 * time.Second).Milliseconds() {
		app := held.appender()
		if _, err := app.Append(0, labels.FromStrings("__name__", "load"), 0, at, 1, nil, nil, storage.AOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := held.commit(app); err != nil {
			t.Fatal(err)
		}
	}
	// Old blocks go when the next one is there.
	for range 2 {
		if err := held.db.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	oldest := oldestSample(t, held)
	kept := time.Duration(end-oldest) * time.Millisecond
	if kept < retention || kept > 2*retention {
		t.Errorf("the oldest of 3h of samples is %s old, want at least the retention %s and not twice that", kept, retention)
	}
	if head := time.Duration(held.db.Head().MaxTime()-held.db.Head().MinTime()) * time.Millisecond; head > 3*minBlockDuration {
		t.Errorf("%s of samples are in memory, want them in blocks of %s", head, minBlockDuration)
	}
}

func oldestSample(t *testing.T, held *store) int64 {
	t.Helper()
	querier, err := held.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := querier.Close(); err != nil {
			t.Error(err)
		}
	}()
	set := querier.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "load"))
	if !set.Next() {
		t.Fatalf("no series: %v", set.Err())
	}
	samples := set.At().Iterator(nil)
	if samples.Next() != chunkenc.ValFloat {
		t.Fatalf("no sample: %v", samples.Err())
	}
	return samples.AtT()
}

func TestTroubleLog(t *testing.T) {
	trouble := &troubleLog{}
	log := slog.New(trouble)
	log.Warn("not worth it")
	if got := trouble.recent(time.Now()); got != "" {
		t.Errorf("recent() after a warning = %q, want nothing", got)
	}
	log.With("component", "tsdb").Error("compaction failed", "err", fmt.Errorf("no space left on device"))
	if got, want := trouble.recent(time.Now()), "compaction failed err=no space left on device"; got != want {
		t.Errorf("recent() = %q, want %q", got, want)
	}
	if got := trouble.recent(time.Now().Add(troubleLifetime + time.Second)); got != "" {
		t.Errorf("recent() later = %q, want nothing", got)
	}
}

// FuzzExposition scrapes two pages after another. Whatever they hold, the cache
// afterwards knows what the last good one said and nothing else.
func FuzzExposition(f *testing.F) {
	f.Add("a 1\nb{x=\"y\"} NaN\n", "a 2\n", true)
	f.Add("# TYPE a counter\na_total 1 1793534400.5\n# EOF\n", "{\"a.b\",\"c d\"=\"e\"} 1\n# EOF\n", false)
	f.Add("a 1\na 2\n", "a{job=\"x\",exported_job=\"y\"} 1e400\n", true)
	held, err := openStore(f.TempDir(), 6*time.Hour, wallClock{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := held.release(); err != nil {
			f.Error(err)
		}
	})
	own := labels.FromStrings("job", "static", "instance", "127.0.0.1:1")
	f.Fuzz(func(t *testing.T, first, second string, plain bool) {
		contentType := "application/openmetrics-text"
		if plain {
			contentType = textFormat
		}
		l := newLoop(endpoint{key: "k", labels: own}, &Scrape{}, nil, held)
		for i, page := range []string{first, second} {
			l.cache.pass++
			a := l.appendage(time.Now().Add(time.Duration(i) * time.Second))
			_, err := eachSample([]byte(page), contentType, l.symbols, a.append)
			if rollback := a.app.Rollback(); rollback != nil {
				t.Fatal(rollback)
			}
			a.app = held.appender()
			if err != nil {
				l.cache.failed(a.end)
			} else {
				l.cache.succeeded(a.end)
			}
			if rollback := a.app.Rollback(); rollback != nil {
				t.Fatal(rollback)
			}
			for text, series := range l.cache.entries {
				if err == nil && (!series.live || series.seen != l.cache.pass) || err != nil && series.live {
					t.Errorf("after page %d (%v) the cache has %q: live %t, seen in pass %d of %d", i, err, text, series.live, series.seen, l.cache.pass)
				}
				if series.labels.Get("job") != "static" || series.labels.Get("instance") != "127.0.0.1:1" {
					t.Errorf("series %q lost its endpoint's labels: %s", text, series.labels)
				}
			}
		}
	})
}
