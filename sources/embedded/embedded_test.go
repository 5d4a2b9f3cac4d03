package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

func TestScrapeAndQuery(t *testing.T) {
	page := "# TYPE jobs gauge\njobs{queue=\"a\",instance=\"inner\",job=\"x\",exported_job=\"y\"} 3\nnot_a_number NaN\n"
	e := newExporter(t, page)
	cfg := config(e.address())
	cfg.Scrape[0].Labels = map[string]string{"env": "test"}
	source := started(t, cfg, sources.Env{})

	// The exposition already contains "exported_job", so "job" gets the prefix twice.
	eventually(t, source, "jobs", fmt.Sprintf(`{__name__="jobs",env="test",exported_exported_job="x",exported_instance="inner",exported_job="y",instance="%s",job="static",queue="a"} 3`, e.address()))
	eventually(t, source, "up", fmt.Sprintf(`{__name__="up",env="test",instance="%s",job="static"} 1`, e.address()))
	vector, err := source.Query(t.Context(), sources.Query{Text: "not_a_number"}, time.Now())
	if err != nil || !isNaN(vector) {
		t.Errorf("not_a_number = %v, %v, want NaN", vector, err)
	}
	if !strings.Contains(e.accept, "application/openmetrics-text") {
		t.Errorf("Accept = %q, want OpenMetrics in it", e.accept)
	}
	if problems := source.Problems(); len(problems) > 0 {
		t.Errorf("Problems() = %q, want none", problems)
	}
}

func TestStaleness(t *testing.T) {
	e := newExporter(t, "kept 1\nvanishing 1\n")
	source := started(t, config(e.address()), sources.Env{})
	eventually(t, source, "count({__name__=~'kept|vanishing'})", "{} 2")

	e.set(http.StatusOK, textFormat, "kept 2\n")
	eventually(t, source, "count({__name__=~'kept|vanishing'})", "{} 1")
	eventually(t, source, "sum(kept)", "{} 2")

	e.set(http.StatusInternalServerError, textFormat, "pump failure")
	eventually(t, source, "sum(up)", "{} 0")
	eventually(t, source, "kept", "")
	want := `job "static": scrape ` + e.URL + `/metrics: endpoint returned 500 Internal Server Error: "pump failure"`
	if got := source.Problems(); !slices.Equal(got, []string{want}) {
		t.Errorf("Problems() = %q, want %q", got, want)
	}

	e.set(http.StatusOK, textFormat, "kept 3\n")
	eventually(t, source, "sum(kept)", "{} 3")
	eventually(t, source, "sum(up)", "{} 1")
}

func TestFailedScrapes(t *testing.T) {
	for _, test := range []struct {
		name, contentType, page, want string
		limit                         int
	}{
		{"invalid text", textFormat, "good 1\n{{{{\n", "parse response: ", 0},
		{"truncated OpenMetrics", "application/openmetrics-text; version=1.0.0", "good 1\n", "parse response: ", 0},
		{"no name", textFormat, "good 1\n{a=\"b\"} 1\n", "parse response: ", 0},
		{"too many samples", textFormat, "good 1\nb 1\nc 1\n", "more than 2 samples (sample_limit)", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newExporter(t, test.page)
			e.set(http.StatusOK, test.contentType, test.page)
			cfg := config(e.address())
			cfg.Scrape[0].SampleLimit = test.limit
			source := started(t, cfg, sources.Env{})
			eventually(t, source, "sum(up)", "{} 0")
			eventually(t, source, "good", "")
			if got := strings.Join(source.Problems(), "\n"); !strings.Contains(got, test.want) {
				t.Errorf("Problems() = %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestSlowAndMissingEndpoints(t *testing.T) {
	release := make(chan struct{})
	slow := newExporter(t, "")
	slow.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	absent := newExporter(t, "")
	absent.Close()
	good := newExporter(t, "good 1\n")
	cfg := config(slow.address(), absent.address(), good.address())
	cfg.Scrape[0].Path = "/metrics?key=hunter2"
	source := started(t, cfg, sources.Env{})
	eventually(t, source, "sum(good)", "{} 1")
	eventually(t, source, "count(up == 0)", "{} 2")
	poll(t, func() bool {
		got := strings.Join(source.Problems(), "\n")
		return strings.Contains(got, "no complete response within 100ms") && strings.Contains(got, "connection refused")
	}, func() string { return fmt.Sprintf("Problems() = %q", source.Problems()) })
	if got := strings.Join(source.Problems(), "\n"); strings.Contains(got, "hunter2") {
		t.Errorf("Problems() = %q, want URLs without queries, which may contain secrets", got)
	}
}

func TestStatedTimes(t *testing.T) {
	now := time.Now()
	page := fmt.Sprintf("past 1 %d\nfuture 1 %d\n", now.Add(-30*time.Second).UnixMilli(), now.Add(time.Hour).UnixMilli())
	e := newExporter(t, page)
	source := started(t, config(e.address()), sources.Env{})
	eventually(t, source, "sum(timestamp(past)) - "+fmt.Sprint(float64(now.Add(-30*time.Second).UnixMilli())/1000), "{} 0")
	poll(t, func() bool { return len(source.Problems()) == 1 }, func() string { return "no problem with future samples" })
	if got, want := source.Problems()[0], "dropped samples that are out of order, duplicate, too old or too far in the future: 1"; !strings.HasSuffix(got, want) {
		t.Errorf("Problems() = %q, want %q at its end", got, want)
	}
	for age, want := range map[time.Duration]string{0: "{} 1", 20 * time.Second: "", time.Hour: "{} 1"} {
		vector, err := source.Query(t.Context(), sources.Query{Text: "sum(past)", MaxAge: age}, time.Now())
		if got := text(vector); err != nil || got != want {
			t.Errorf("result at age %s = %q, %v, want %q", age, got, err, want)
		}
	}
	// The endpoint reports timestamps, so only the endpoint itself ends the series.
	e.set(http.StatusOK, textFormat, "other 1\n")
	eventually(t, source, "sum(other)", "{} 1")
	eventually(t, source, "sum(past)", "{} 1")
}

// fleet contains a target whose instances can be changed.
type fleet struct {
	mu        sync.Mutex
	instances map[string]targets.Location
	err       error
}

func (f *fleet) discover(_ context.Context, name, target string) (targets.Reading, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "local" || target != "worker" {
		return targets.Reading{}, fmt.Errorf("unknown target %s/%s", name, target)
	}
	var reading targets.Reading
	var locations targets.LocationList
	for id, location := range f.instances {
		reading.Instances = append(reading.Instances, policy.Instance{ID: id})
		locations = append(locations, location)
	}
	reading.Locations = locations
	return reading, f.err
}

func (f *fleet) set(instances map[string]targets.Location, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances, f.err = instances, err
}

func (e *exporter) location() targets.Location {
	port := e.Listener.Addr().(*net.TCPAddr).Port
	return targets.Location{Addresses: []string{"127.0.0.1"}, Ports: targets.Ports{{Label: "http", Number: port}}, Labels: map[string]string{"com.example/zone": "z", "job": "no"}}
}

func fleetConfig() *Config {
	cfg := &Config{Scrape: []Scrape{{Fleet: "local", Target: "worker", Interval: minInterval}}}
	cfg.SetDefaults()
	return cfg
}

func TestFleet(t *testing.T) {
	a, b := newExporter(t, "load 1\n"), newExporter(t, "load 2\n")
	f := &fleet{instances: map[string]targets.Location{"w-0": a.location(), "w-1": b.location()}}
	source := started(t, fleetConfig(), sources.Env{Discover: f.discover})
	eventually(t, source, `sort(load)`, fmt.Sprintf(
		`{__name__="load",com_example_zone="z",fleet="local",instance="%s",instance_id="w-0",job="worker",target="worker"} 1
{__name__="load",com_example_zone="z",fleet="local",instance="%s",instance_id="w-1",job="worker",target="worker"} 2`, a.address(), b.address()))

	f.set(nil, errors.New("the fleet does not exist"))
	poll(t, func() bool { return len(source.Problems()) == 1 }, func() string { return "no problem with the fleet" })
	if got, want := source.Problems()[0], `job "worker": instances of target "worker" of fleet "local": the fleet does not exist`; got != want {
		t.Errorf("Problems() = %q, want %q", got, want)
	}
	eventually(t, source, "sum(load)", "{} 3")

	// One instance disappears and one has no usable port. All their series end, including up.
	odd := b.location()
	odd.Ports.Set("admin", 1)
	f.set(map[string]targets.Location{"w-0": a.location(), "w-2": odd}, nil)
	eventually(t, source, "sum(load)", "{} 1")
	eventually(t, source, "count(up)", "{} 1")
	want := `job "worker": instance "w-2" does not have exactly one port, so port_label is required; its ports are admin, http`
	if got := source.Problems(); !slices.Equal(got, []string{want}) {
		t.Errorf("Problems() = %q, want %q", got, want)
	}
}

func TestRestartKeepsSamples(t *testing.T) {
	e := newExporter(t, "load 1\n")
	cfg := config(e.address())
	first := started(t, cfg, sources.Env{})
	eventually(t, first, "sum(load)", "{} 1")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Query(t.Context(), sources.Query{Text: "load"}, time.Now()); !errors.Is(err, ErrNotStarted) {
		t.Errorf("query after Close: %v, want ErrNotStarted", err)
	}
	e.set(http.StatusOK, textFormat, "load 2\n")
	second := started(t, cfg, sources.Env{})
	eventually(t, second, "sum(min_over_time(load[1m]))", "{} 1")
	eventually(t, second, "sum(load)", "{} 2")
}

func TestDirectoryInUse(t *testing.T) {
	cfg := config()
	started(t, cfg, sources.Env{})
	other, err := New("other", cfg, sources.Env{})
	if err != nil {
		t.Fatal(err)
	}
	err = other.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), cfg.Dir) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("Start() = %v, want an error that the directory is in use", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestQueryErrors(t *testing.T) {
	source := started(t, config(), sources.Env{})
	for _, test := range []struct{ query, want string }{
		{"sum(", "parse error"},
		{"up[5m]", "range of samples (matrix)"},
		{`"text"`, "result is a string"},
	} {
		_, err := source.Query(t.Context(), sources.Query{Text: test.query}, time.Now())
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `source "local": query "`) {
			t.Errorf("query %s: %v, want an error with %q, the source and the query", test.query, err, test.want)
		}
		if _, fieldErr := errors.AsType[*sources.QueryError](err); !fieldErr {
			t.Errorf("query %s: got %v, want a QueryError", test.query, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Query(ctx, sources.Query{Text: "up"}, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled query: %v, want context.Canceled", err)
	}
	vector, err := source.Query(t.Context(), sources.Query{Text: "1 + 1"}, time.UnixMilli(1500))
	if err != nil || text(vector) != "{} 2" || !vector.Series[0].At.Equal(time.UnixMilli(1500)) {
		t.Errorf("1 + 1 = %v, %v, want 2 at the requested time", vector, err)
	}
}
