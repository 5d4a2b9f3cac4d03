package embedded

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/sources"
	source "github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/test/wait"
)

// TestAbsence checks that one additional query to an embedded source finds the cause of a missing
// result and remains within the sample budget.
func TestAbsence(t *testing.T) {
	old := time.Now().Add(-20 * time.Minute).Truncate(time.Second)
	var down atomic.Bool
	text := fmt.Sprintf("pushed 7 %d\nqueue_length{queue=\"checkout\"} 5\nqueue_length{queue=\"mails\"} 6\n", old.UnixMilli())
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(endpoint.Close)
	address := strings.TrimPrefix(endpoint.URL, "http://")
	cfg := &source.Config{Scrape: []source.Scrape{{Addresses: []string{address}, Interval: 200 * time.Millisecond}}}
	cfg.SetDefaults()
	s, err := source.New("own", cfg, sources.Env{StateDir: t.TempDir(), Samples: sources.NewBudget(10_000_000, "daemon.query_samples")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	await := func(query string) {
		t.Helper()
		wait.For(t, time.Minute, "series of "+query, func() (string, bool) {
			vector, err := s.Query(t.Context(), sources.Query{Text: query}, time.Now())
			return fmt.Sprint(vector.Series, err), len(vector.Series) > 0
		})
	}
	await("max_over_time(timestamp(queue_length)[2m:1s])")
	check := func(text string, maxAge time.Duration, want string) {
		t.Helper()
		if got := adapters.CauseOf(t.Context(), s, &sources.Query{Text: text, MaxAge: maxAge}, time.Now()); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	scraped := fmt.Sprintf(`instance=%q, job="static"`, address)
	last := "the last sample of pushed is from " + old.UTC().Format(time.RFC3339) + ", older than the "
	check("queue_sizes", 0, `there is no series named "queue_sizes"`)
	check(`queue_length{queue="chekout"}`, 0,
		`none with {queue="chekout"}; there are {`+scraped+`, queue="checkout"}, {`+scraped+`, queue="mails"}`)
	check("pushed", 0, last+"lookback of 5m")
	check("pushed", 30*time.Second, last+"lookback of 30s")
	check("rate(pushed[1m])", 0, last+"range of 1m")
	check("queue_length > 100", 0, "its series exist")
	down.Store(true)
	await("absent(queue_length)")
	check("sum(queue_length)", 0, "the scrape of {"+scraped+"} fails; the last sample of queue_length is from "+time.Now().UTC().Format("2006-01-02T15:"))
}
