package embedded

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/hpad/hpad/sources"
)

func TestNextTick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(int64(MinInterval), int64(time.Hour)).Draw(t, "interval"))
		key := rapid.String().Draw(t, "key")
		now := time.Unix(0, rapid.Int64Range(1e18, 3e18).Draw(t, "now"))
		offset := spread(key, interval)
		if offset < 0 || offset >= interval {
			t.Fatalf("spread(%q, %s) = %s, want within the interval", key, interval, offset)
		}
		next := nextTick(now, interval, offset)
		if wait := next.Sub(now); wait <= 0 || wait > interval {
			t.Fatalf("nextTick waits %s, want more than 0s and at most %s", wait, interval)
		}
		if (time.Duration(next.UnixNano())-offset)%interval != 0 {
			t.Fatalf("nextTick(%s) = %s is not %s behind a multiple of %s", now, next, offset, interval)
		}
	})
}

func TestEmptyAnswerEndsSeries(t *testing.T) {
	e := newExporter(t, "load 1\n")
	source := started(t, config(e.address()), Options{})
	eventually(t, source, "sum(load)", "{} 1")
	e.set(http.StatusOK, textFormat, "")
	eventually(t, source, "load", "")
	eventually(t, source, "sum(up)", "{} 1")
	eventually(t, source, "sum(scrape_samples_scraped)", "{} 0")
}

func TestTwiceInOneScrape(t *testing.T) {
	e := newExporter(t, "load 1\nload 2\n")
	source := started(t, config(e.address()), Options{})
	eventually(t, source, "sum(load)", "{} 1")
	poll(t, func() bool { return len(source.Problems()) == 1 }, func() string { return "no problem about the second sample" })
	if got, want := source.Problems()[0], "0 out of order, 1 twice for one time, 0 too old"; !strings.Contains(got, want) {
		t.Errorf("Problems() = %q, want %q in it", got, want)
	}
}

// pageOf returns an exposition of n counters with a few labels.
func pageOf(n, value int) string {
	var page strings.Builder
	page.WriteString("# TYPE http_requests_total counter\n")
	for i := range n {
		fmt.Fprintf(&page, "http_requests_total{method=\"GET\",path=\"/api/v1/%d\",code=\"200\"} %d\n", i, value)
	}
	return page.String()
}

// BenchmarkScrape stores a page of 1000 known series; fetching it is left out.
func BenchmarkScrape(b *testing.B) {
	held, err := openStore(b.TempDir(), 6*time.Hour, wallClock{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := held.release(); err != nil {
			b.Error(err)
		}
	}()
	l := newLoop(endpoint{key: "k", labels: labels.FromStrings("job", "static", "instance", "127.0.0.1:1")}, &Scrape{}, nil, held)
	page := []byte(pageOf(1000, 5))
	at := time.Now()
	scrape := func() {
		at = at.Add(time.Second)
		l.cache.pass++
		a := l.appendage(at)
		if _, err := eachSample(page, textFormat, l.symbols, a.append); err != nil {
			b.Fatal(err)
		}
		l.cache.succeeded(a.end)
		l.report(a, true, time.Millisecond)
		if err := held.commit(a.app); err != nil {
			b.Fatal(err)
		}
	}
	scrape()
	b.ReportAllocs()
	for b.Loop() {
		scrape()
	}
}

func BenchmarkQuery(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			source := started(b, config(), Options{})
			l := newLoop(endpoint{key: "k", labels: labels.FromStrings("job", "static")}, &Scrape{}, nil, source.store)
			start := time.Now().Add(-5 * time.Minute)
			for second := range 60 {
				l.cache.pass++
				a := l.appendage(start.Add(time.Duration(second) * 5 * time.Second))
				if _, err := eachSample([]byte(pageOf(n, second)), textFormat, l.symbols, a.append); err != nil {
					b.Fatal(err)
				}
				l.cache.succeeded(a.end)
				if err := source.store.commit(a.app); err != nil {
					b.Fatal(err)
				}
			}
			at := start.Add(5 * time.Minute)
			b.ReportAllocs()
			for b.Loop() {
				vector, err := source.Query(b.Context(), sources.Query{Text: "sum(rate(http_requests_total[5m]))"}, at)
				if err != nil || len(vector.Series) != 1 {
					b.Fatalf("answer = %v, %v, want one series", vector, err)
				}
			}
		})
	}
}

// BenchmarkIdle reports the memory that a source holds which scrapes nothing.
func BenchmarkIdle(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		source := started(b, config(), Options{})
		b.ReportMetric(float64(heap()-before), "heap-bytes/source")
		runtime.KeepAlive(source)
	}
}
