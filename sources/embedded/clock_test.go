package embedded

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// stepped is a Clock that nobody sets, beside a wall clock that is ahead of it.
type stepped struct{ ahead atomic.Int64 }

func (s *stepped) Of(instant time.Time) time.Time { return instant }

func (s *stepped) Steady(wall time.Time) time.Time {
	return wall.Add(-time.Duration(s.ahead.Load()))
}

// TestSteppedClock asks by a wall clock that was stepped: what was scraped before
// stays as old as it is, what is scraped since is found, and results are of the
// instant that was asked for.
func TestSteppedClock(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			clock := &stepped{}
			e := newExporter(t, "jobs 1\n")
			source := started(t, config(e.address()), Options{Clock: clock})
			eventually(t, source, "sum(jobs)", "{} 1")
			wall := func() time.Time { return time.Now().Add(time.Duration(clock.ahead.Load())) }
			ask := func(query, want string) {
				t.Helper()
				var got string
				poll(t, func() bool {
					at := wall().Truncate(time.Millisecond)
					vector, err := source.Query(t.Context(), sources.Query{Text: query}, at)
					if err != nil {
						t.Fatal(err)
					}
					for _, series := range vector.Series {
						if !series.At.Equal(at) {
							t.Errorf("%s is of %s, asked for was %s", query, series.At, at)
						}
					}
					got = text(vector)
					return got == want
				}, func() string { return fmt.Sprintf("query %s: got %q, want %q", query, got, want) })
			}
			clock.ahead.Store(int64(by))
			ask("sum(jobs)", "{} 1")
			ask("count(count_over_time(jobs[1m]) > 3)", "{} 1")
			e.set(http.StatusOK, textFormat, "jobs 2\n")
			ask("sum(jobs)", "{} 2")
			ask("max(max_over_time(jobs[1m])) - min(min_over_time(jobs[1m]))", "{} 1")

			// What an exposition dates, it dates by the wall clock.
			e.set(http.StatusOK, textFormat, fmt.Sprintf("dated 3 %d\n", wall().UnixMilli()))
			ask("sum(dated)", "{} 3")
		})
	}
}
