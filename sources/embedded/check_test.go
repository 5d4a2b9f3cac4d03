package embedded

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// checked returns a source after a successful Check without a start. It allows slow scrapes.
func checked(t *testing.T, cfg *Config) (source *Source, problems []string) {
	t.Helper()
	cfg.Scrape[0].Timeout = time.Minute
	source, err := New("local", cfg, sources.Env{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	problems, err = source.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return source, problems
}

// TestCheckProblems checks that a check names the endpoints that cannot be scraped, and leaves no files.
func TestCheckProblems(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	future := fmt.Sprintf("load 1 %d\n", time.Now().Add(time.Hour).UnixMilli())
	good, bad, dropped := newExporter(t, "load 1\n"), newExporter(t, "load\n"), newExporter(t, future)
	cfg := config(good.address(), bad.address(), dropped.address())
	source, problems := checked(t, cfg)
	if text := strings.Join(problems, "\n"); len(problems) != 2 || !strings.Contains(text, bad.URL) || !strings.Contains(text, dropped.URL+"/metrics: dropped samples") {
		t.Errorf("Check() = %q, want problems with %s and %s", problems, bad.URL, dropped.URL)
	}
	if err := source.Start(t.Context()); err == nil {
		t.Error("Start() after Check() = nil, want an error")
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(source.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory after Check() = %v, want no directory", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("temporary files after Close() = %v, %v", left, err)
	}

	source, _ = checked(t, config(dropped.address())) // a scrape with dropped samples is successful
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	source, err := New("local", config(bad.address()), sources.Env{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Check(t.Context()); err == nil {
		t.Error("Check() of endpoints that all fail = nil, want an error")
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
}

// TestCheckQueries checks that a range has the samples of two scrapes, that a rate is correct although its
// range is longer than the check, and that a query for older samples is an error.
func TestCheckQueries(t *testing.T) {
	var scrapes atomic.Int64
	e := newExporter(t, "")
	e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "load 12\nrequests_total %d\n", 100*scrapes.Add(1))
	})
	begin := time.Now()
	source, _ := checked(t, config(e.address()))
	t.Cleanup(func() { _ = source.Close() })
	query := func(text string) sources.Vector {
		t.Helper()
		vector, err := source.Query(t.Context(), sources.Query{Text: text}, begin)
		if err != nil {
			t.Fatal(err)
		}
		return vector
	}
	if got := query("sum(load)"); text(got) != "{} 12" || len(got.Infos) > 0 || scrapes.Load() != 1 || got.Series[0].At.Sub(begin).Abs() > time.Millisecond {
		t.Errorf("load = %+v after %d scrapes, want 12 after one", got, scrapes.Load())
	}
	if got := query("sum(idelta(requests_total[5m]))"); text(got) != "{} 100" || len(got.Infos) != 1 || scrapes.Load() != 2 {
		t.Errorf("difference = %+v after %d scrapes, want 100 and an info after two", got, scrapes.Load())
	}
	if got, least := query("rate(requests_total[5m])"), 100/(time.Since(begin)+20*time.Millisecond).Seconds(); len(got.Series) != 1 || got.Series[0].Value < least {
		t.Errorf("rate = %+v, want at least %v", got, least)
	}
	for _, empty := range []string{"load > 15", "rate(missing[5m])", "missing offset 10m"} {
		if got := query(empty); len(got.Series) > 0 {
			t.Errorf("%s = %+v, want no series", empty, got)
		}
	}
	for _, older := range []string{"load offset 10m", "load @ 1700000000", "rate(requests_total[5m]) - rate(requests_total[5m] offset 5m)"} {
		if vector, err := source.Query(t.Context(), sources.Query{Text: older}, begin); !errors.As(err, new(*UntestableError)) {
			t.Errorf("%s = %v, %v, want an UntestableError", older, vector, err)
		}
	}
	if _, err := source.Query(t.Context(), sources.Query{Text: "sum("}, begin); !errors.As(err, new(*sources.QueryError)) {
		t.Errorf("invalid query = %v, want a QueryError", err)
	}
	if n := scrapes.Load(); n != 2 {
		t.Errorf("%d scrapes, want 2", n)
	}
}
