package prometheus_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config/query"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

// TestAbsence checks that one additional query to a real server finds the cause of a missing
// result.
func TestAbsence(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "queue_length{queue=\"checkout\"} 5\nqueue_length{queue=\"mails\"} 6")
	}))
	t.Cleanup(exporter.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := listener.Addr().String() // the listener is closed below
	_ = listener.Close()
	server := promtest.Start(t, fmt.Sprintf(`
scrape_configs:
  - job_name: queue
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs: [{targets: [%q]}]
  - job_name: broken
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs: [{targets: [%q]}]
`, exporter.Listener.Addr(), down))
	now := time.Now()
	old := now.Add(-20 * time.Minute).Truncate(time.Second)
	late := now.Add(-2 * time.Minute).Truncate(time.Second)
	server.Load(fmt.Sprintf("# TYPE pushed gauge\npushed{app=\"a\"} 7 %d\n# TYPE late gauge\nlate 7 %d\n# EOF\n", old.Unix(), late.Unix()))
	config := &prometheus.Config{URL: server.URL}
	config.SetDefaults()
	source, err := prometheus.New("prom", config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	await := func(text string, series int) {
		t.Helper()
		wait.For(t, time.Minute, fmt.Sprintf("%d series of %s", series, text), func() (string, bool) {
			vector, err := source.Query(t.Context(), sources.Query{Text: text}, time.Now())
			return fmt.Sprintf("%d, %v", len(vector.Series), err), err == nil && len(vector.Series) == series
		})
	}
	await("queue_length", 2)
	await("up == 0", 1)
	check := func(text string, maxAge time.Duration, wants ...string) {
		t.Helper()
		got := adapters.CauseOf(t.Context(), source, &sources.Query{Text: text, MaxAge: maxAge}, time.Now())
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
	scraped := fmt.Sprintf(`instance=%q, job="queue"`, exporter.Listener.Addr())
	check("queue_sizes", 0, `there is no series named "queue_sizes"`)
	check(`sum(rate(jobs_total{job="broken"}[1m]))`, 0, `there is no series named "jobs_total"; the scrape of {instance="`+down+`", job="broken"} fails`)
	check(`queue_length{queue="chekout"} / queue_length`, 0,
		`there are series named "queue_length", but none with {queue="chekout"}; there are {`+scraped+`, queue="checkout"}, {`+scraped+`, queue="mails"}`)
	check(`sum(queue_length{app="web"})`, 0, `none with {app="web"}; there are {`+scraped)
	check("pushed", 0, "the last sample of pushed is from "+old.UTC().Format(time.RFC3339)+", older than the lookback of 5m")
	check("pushed", time.Hour, "the last sample of pushed is from "+old.UTC().Format(time.RFC3339))
	check(`sum(rate(pushed[2m]))`, 0, "older than the range of 2m")
	check("queue_length > 100", 0, "its series exist")
	check(`{queue="none"}`, 0, `no series matches {queue="none"}`)
	check("queue_length offset 10m", 0, `there are series named "queue_length", but queue_length offset 10m has no samples`)
	await("max_over_time(timestamp(queue_length)[2m:1s])", 2)
	measure, _ := query.Age(&sources.Query{Text: "sum(late) + sum(queue_length)"})
	vector, err := source.Query(t.Context(), measure, time.Now())
	if err != nil || (query.AgeIn(vector)-time.Since(late)).Abs() > 30*time.Second {
		t.Errorf("age of the oldest sample: got %v, %v, want %s", vector.Series, err, time.Since(late))
	}
	exporter.Close()
	await("queue_length", 0)
	check(`max(queue_length{queue="mails"})`, 0, "the scrape of {"+scraped+"} fails; the last sample of queue_length{queue=\"mails\"} is from "+time.Now().UTC().Format("2006-01-02T15:"))
}
