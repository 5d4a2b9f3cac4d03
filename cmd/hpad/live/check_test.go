package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/sources/http"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// fakeSource returns vectors from a map and counts the queries.
type fakeSource struct {
	mu       sync.Mutex
	queries  map[string]int
	results  map[string]sources.Vector
	errs     map[string]error
	check    []string
	checkErr error
	closed   bool
}

func (s *fakeSource) Query(_ context.Context, query sources.Query, _ time.Time) (sources.Vector, error) {
	text := query.Text
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries[text]++
	return s.results[text], s.errs[text]
}

func (s *fakeSource) Check(context.Context) ([]string, error) { return s.check, s.checkErr }

func (s *fakeSource) Close() error {
	s.closed = true
	return nil
}

func vector(series ...sources.Series) sources.Vector { return sources.Vector{Series: series} }

func labeled(value float64, labels ...string) sources.Series {
	s := sources.Series{Value: value}
	for i := 0; i < len(labels); i += 2 {
		s.Labels = append(s.Labels, sources.Label{Name: labels[i], Value: labels[i+1]})
	}
	return s
}

// world is a configuration with a fake fleet and a fake source.
type world struct {
	config      *config.Config
	fleet       *targettest.Memory
	source      *fakeSource
	buildFleet  func(name string) (targets.Fleet, error)
	buildSource func(name string) (sources.Source, error)
}

// fleetTable and sourceTable are the configurations of the fake fleet and source.
type (
	fleetTable  struct{ *world }
	sourceTable struct{ *world }
)

func (*world) SetDefaults()                    {}
func (*world) Validate() []settings.FieldError { return nil }

func (c fleetTable) Build(name string, _ targets.Env) (targets.Fleet, error) {
	return c.buildFleet(name)
}

func (c sourceTable) Build(name string, _ sources.Env) (sources.Source, error) {
	return c.buildSource(name)
}

func newWorld() *world {
	w := &world{
		fleet:  targettest.NewMemory("shop"),
		source: &fakeSource{queries: map[string]int{}, results: map[string]sources.Vector{}, errs: map[string]error{}},
	}
	w.fleet.Add("web", targettest.MemoryTarget{Replicas: 2, Age: time.Hour})
	w.config = &config.Config{
		Fleets:      map[string]config.Fleet{"shop": {Name: "shop", Kind: "memory", Config: fleetTable{w}}},
		Sources:     map[string]config.Source{"prom": {Name: "prom", Kind: "fake", Config: sourceTable{w}}},
		Autoscalers: map[string]*config.Autoscaler{},
	}
	w.buildFleet = func(string) (targets.Fleet, error) { return w.fleet, nil }
	w.buildSource = func(string) (sources.Source, error) { return w.source, nil }
	return w
}

// metric adds an autoscaler with one metric.
func (w *world) metric(name string, metricType policy.MetricType, in config.Input) {
	in.Source = "prom"
	w.config.Autoscalers[name] = &config.Autoscaler{
		Name:   name,
		Target: w.fleet.Ref("web"),
		Spec:   policy.Spec{Metrics: []policy.MetricSpec{{Type: metricType, Name: "m"}}},
		Inputs: []config.Input{in},
	}
}

// check returns one line for each finding; problems start with an exclamation mark.
func (w *world) check() []string {
	var lines []string
	for _, finding := range Check(context.Background(), w.config) {
		mark := ""
		if finding.Problem {
			mark = "! "
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s", mark, finding.Key, finding.Text))
	}
	return lines
}

// wantFindings compares the findings with the wanted lines.
func (w *world) wantFindings(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.check()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestMetrics(t *testing.T) {
	reading, err := newWorld().fleet.Snapshot(context.Background(), []targets.Ref{{Fleet: "shop", Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	instances := reading[targets.Ref{Fleet: "shop", Name: "web"}].Instances
	first, second := instances[0].ID, instances[1].ID

	for name, test := range map[string]struct {
		metricType policy.MetricType
		in         config.Input
		result     sources.Vector
		err        error
		// want is a prefix of the finding. part is a substring that the rest of the finding must
		// contain.
		want, part string
	}{
		"sum":                       {policy.ExternalMetric, config.Input{}, vector(labeled(1.5), labeled(2)), nil, "a.metrics[0]: External m: 2 series, total 3.5", ""},
		"select":                    {policy.ExternalMetric, config.Input{Select: sources.Labels{{Name: "q", Value: "a"}}}, vector(labeled(1, "q", "a"), labeled(2, "q", "b")), nil, "a.metrics[0]: External m: 1 series, total 1", ""},
		"none":                      {policy.ExternalMetric, config.Input{}, vector(), nil, "! a.metrics[0]: the query returns no series", ""},
		"none is zero":              {policy.ExternalMetric, config.Input{EmptyZero: true}, vector(), nil, "a.metrics[0]: External m: 0 series, which is treated as 0", ""},
		"none selected":             {policy.ExternalMetric, config.Input{Select: sources.Labels{{Name: "q", Value: "c"}}}, vector(labeled(1, "q", "a")), nil, `! a.metrics[0]:`, `{q="c"}`},
		"none selected is not zero": {policy.ExternalMetric, config.Input{EmptyZero: true, Select: sources.Labels{{Name: "q", Value: "c"}}}, vector(labeled(1, "q", "a")), nil, `! a.metrics[0]:`, `{q="c"}`},
		"not a number":              {policy.ExternalMetric, config.Input{}, vector(labeled(math.NaN(), "q", "a")), nil, "! a.metrics[0]:", "NaN"},
		"refused":                   {policy.ExternalMetric, config.Input{}, vector(), errors.New("query prometheus: refused"), "! a.metrics[0]: query prometheus: refused", ""},
		"object":                    {policy.ObjectMetric, config.Input{}, vector(labeled(7)), nil, "a.metrics[0]: Object m: 1 series with the value 7", ""},
		"several objects":           {policy.ObjectMetric, config.Input{}, vector(labeled(7), labeled(8)), nil, "! a.metrics[0]:", "2 series for one object"},
		"instances":                 {policy.InstancesMetric, config.Input{InstanceLabel: "id", Match: config.MatchID}, vector(labeled(1, "id", first), labeled(1, "id", second), labeled(1, "id", "other")), nil, "a.metrics[0]: Instances m: 3 series, for 2 of 2 instances, values from 1 to 1", ""},
		"one missing":               {policy.InstancesMetric, config.Input{InstanceLabel: "id", Match: config.MatchID}, vector(labeled(1, "id", first)), nil, "a.metrics[0]: Instances m: 1 series, for 1 of 2 instances", ""},
		"no label":                  {policy.InstancesMetric, config.Input{InstanceLabel: "pod", Match: config.MatchID}, vector(labeled(1, "id", first)), nil, "! a.metrics[0]:", `"pod"`},
		"no instance's":             {policy.InstancesMetric, config.Input{InstanceLabel: "id", Match: config.MatchID}, vector(labeled(1, "id", "x")), nil, "! a.metrics[0]:", first},
		"twice":                     {policy.InstancesMetric, config.Input{InstanceLabel: "id", Match: config.MatchID}, vector(labeled(1, "id", first, "cpu", "0"), labeled(1, "id", first, "cpu", "1")), nil, "! a.metrics[0]:", "aggregate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.in.Query = "q"
			w.metric("a", test.metricType, test.in)
			w.source.results["q"], w.source.errs["q"] = test.result, test.err
			got := w.check()
			if len(got) != 3 || !strings.HasPrefix(strings.Replace(got[2], "autoscalers.", "", 1), test.want) || !strings.Contains(got[2], test.part) {
				t.Errorf("findings:\n%s\nwant as the third:\n%s … %s", strings.Join(got, "\n"), test.want, test.part)
			}
			if !w.source.closed {
				t.Errorf("the source was not closed")
			}
		})
	}
}

// TestDocument checks the value and the age of a document, which all metrics share, and that a path without a
// value shows the start of the document.
func TestDocument(t *testing.T) {
	requests := 0
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		requests++
		w.Header().Set("Age", "90")
		_, _ = io.WriteString(w, `{"queue": {"ready": 12}, "password": "hunter2"}`)
	}))
	defer server.Close()
	w := newWorld()
	c := &http.Config{URL: server.URL}
	c.SetDefaults()
	w.config.Sources["prom"] = config.Source{Name: "prom", Kind: "http", Config: c}
	w.metric("a", policy.ExternalMetric, config.Input{Query: "$.queue.ready"})
	w.metric("b", policy.ExternalMetric, config.Input{Query: "$.queue.unacked"})
	got := w.check()
	want := []string{
		"autoscalers.a.metrics[0]: External m: 1 series, total 12, age 1m30s",
		`! autoscalers.b.metrics[0]: the source returned no value: source "prom" at "` + server.URL + `": the path selects no value; the document is "{\"queue\": {\"ready\": 12}, \"password\": \"<redacted>\"}"`,
	}
	if diff := cmp.Diff(want, slices.DeleteFunc(got, func(line string) bool { return !strings.Contains(line, ".metrics[0]") })); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if requests != 1 {
		t.Errorf("%d requests, want 1", requests)
	}
}

// TestTasks checks the task of each ContainerResource metric, also of metrics that the fleet measures.
func TestTasks(t *testing.T) {
	w := newWorld()
	w.fleet.Add("web", targettest.MemoryTarget{Replicas: 2, Age: time.Hour, Tasks: []policy.Task{{Name: "web"}, {Name: "envoy"}}})
	w.fleet.Add("empty", targettest.MemoryTarget{})
	for name, task := range map[string]string{"a": "web", "b": "Web", "c": "nginx", "d": ""} {
		w.metric(name, policy.ContainerResourceMetric, config.Input{})
		w.config.Autoscalers[name].Inputs[0].Source = ""
		w.config.Autoscalers[name].Spec.Metrics[0].Task = task
		if task == "" {
			w.config.Autoscalers[name].Spec.Metrics[0].Type = policy.ResourceMetric
		}
	}
	w.metric("e", policy.ContainerResourceMetric, config.Input{})
	w.config.Autoscalers["e"].Inputs[0].Source, w.config.Autoscalers["e"].Target = "", w.fleet.Ref("empty")
	var got []string
	for _, line := range w.check() {
		if strings.Contains(line, "task") {
			got = append(got, line)
		}
	}
	want := []string{
		`! autoscalers.b.metrics[0].task: no instance has a task "Web": the tasks are envoy, web`,
		`! autoscalers.c.metrics[0].task: no instance has a task "nginx": the tasks are envoy, web`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings about tasks (-want +got):\n%s", diff)
	}
}

// TestUnusedFleet checks the line of a fleet without autoscalers, from which nothing was read.
func TestUnusedFleet(t *testing.T) {
	w := newWorld()
	want := []string{"fleets.shop: no target was read, because the fleet has no autoscaler"}
	if diff := cmp.Diff(want, w.check()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestConnections(t *testing.T) {
	w := newWorld()
	w.metric("a", policy.ExternalMetric, config.Input{Query: "q"})
	w.metric("b", policy.ExternalMetric, config.Input{Query: "q"})
	missing := w.config.Autoscalers["b"]
	missing.Target = w.fleet.Ref("gone")
	w.config.Autoscalers["b"] = missing
	w.source.results["q"] = vector(labeled(1))
	w.source.check = []string{"server responds to queries; its version is 3.0.0"}
	want := []string{
		"fleets.shop: reads 1 of 2 targets",
		"sources.prom: server responds to queries; its version is 3.0.0",
		"autoscalers.a.target: shop/web: 2 replicas desired, 2 running",
		"autoscalers.a.metrics[0]: External m: 1 series, total 1",
		"! autoscalers.b.target: shop/gone: ",
		"autoscalers.b.metrics[0]: External m: 1 series, total 1",
	}
	got := w.check()
	if len(got) == len(want) && strings.HasPrefix(got[4], want[4]) && strings.Contains(got[4], targets.ErrTargetNotFound.Error()) {
		want[4] = got[4]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if w.source.queries["q"] != 1 {
		t.Errorf("queries = %d, want 1", w.source.queries["q"])
	}
}

func TestBrokenConnections(t *testing.T) {
	w := newWorld()
	w.metric("a", policy.ExternalMetric, config.Input{Query: "q"})
	refused := errors.New("refused")
	w.buildFleet = func(string) (targets.Fleet, error) { return nil, refused }
	w.buildSource = func(string) (sources.Source, error) { return nil, refused }
	w.wantFindings(t,
		"! fleets.shop: refused",
		"! sources.prom: refused",
		"! autoscalers.a.metrics[0]: refused",
	)
}

// unreadableFleet is a fleet that passes its check but cannot be read.
type unreadableFleet struct{ targets.Fleet }

func (unreadableFleet) Snapshot(context.Context, []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return nil, errors.New("list jobs: forbidden")
}

func (unreadableFleet) Check(context.Context) ([]string, error) {
	return []string{"server responds; its version is 1.0.0"}, nil
}

// TestUnreadableFleet checks that a failed read is reported once, for the fleet.
func TestUnreadableFleet(t *testing.T) {
	w := newWorld()
	w.metric("a", policy.ExternalMetric, config.Input{Query: "q"})
	w.source.results["q"] = vector(labeled(1))
	w.buildFleet = func(string) (targets.Fleet, error) { return unreadableFleet{w.fleet}, nil }
	w.wantFindings(t,
		"fleets.shop: server responds; its version is 1.0.0",
		"! fleets.shop: list jobs: forbidden",
		"autoscalers.a.metrics[0]: External m: 1 series, total 1",
	)
}

// unreachableFleet is a fleet that cannot connect to its platform.
type unreachableFleet struct{ targets.Fleet }

func (unreachableFleet) Snapshot(context.Context, []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return nil, fmt.Errorf("list jobs: %w: connection refused", targets.ErrTransient)
}

func (unreachableFleet) Check(context.Context) ([]string, error) {
	return nil, fmt.Errorf("get the leader: %w: connection refused", targets.ErrTransient)
}

// TestUnreachableFleet checks that a failed connection causes only one finding.
func TestUnreachableFleet(t *testing.T) {
	w := newWorld()
	w.buildFleet = func(string) (targets.Fleet, error) { return unreachableFleet{w.fleet}, nil }
	w.wantFindings(t, "! fleets.shop: list jobs: temporary failure: connection refused")
}

// TestEmbedded checks the queries of a source that scrapes endpoints: a value, a rate of two scrapes, and a
// query for samples from before the check. A query without endpoints is no problem, because the instances of
// its target may not have started.
func TestEmbedded(t *testing.T) {
	var scrapes atomic.Int64
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		_, _ = fmt.Fprintf(w, "load 12\nrequests_total %d\n", 1000*scrapes.Add(1))
	}))
	defer server.Close()
	t.Setenv("TMPDIR", t.TempDir())
	w := newWorld()
	w.fleet.Add("idle", targettest.MemoryTarget{})
	c := &embedded.Config{Dir: "/nonexistent", Scrape: []embedded.Scrape{
		{Addresses: []string{server.Listener.Addr().String()}, Interval: time.Second / 10},
		{Fleet: "shop", Target: "idle"},
	}}
	c.SetDefaults()
	c.Scrape[0].Timeout = time.Minute
	w.config.Sources["prom"] = config.Source{Name: "prom", Kind: "embedded", Config: c}
	for name, query := range map[string]string{"a": "load", "b": "rate(requests_total[5m])", "c": "load offset 10m", "d": `load{job="static"} > 15`, "e": `load{job="idle"}`} {
		w.metric(name, policy.ExternalMetric, config.Input{Query: query})
	}
	var got []string
	for _, line := range w.check() {
		if strings.Contains(line, ".metrics[0]") {
			got = append(got, line)
		}
	}
	want := []string{
		`autoscalers\.a\.metrics\[0\]: External m: 1 series, total 12(, age .*)?`,
		`autoscalers\.b\.metrics\[0\]: warning of the source: the check has samples of .*s only: longer ranges are shortened to this time.*`,
		`autoscalers\.b\.metrics\[0\]: External m: 1 series, total [1-9]\d.*`,
		`autoscalers\.c\.metrics\[0\]: External m: not tested: source "prom": query "load offset 10m": it needs samples from before the check`,
		`! autoscalers\.d\.metrics\[0\]: .*its series exist, but its functions, comparisons or joins remove all of them`,
		`autoscalers\.e\.metrics\[0\]: External m: not tested: source "prom": query .*: job "idle" has no endpoints now`,
	}
	if text := strings.Join(got, "\n"); !regexp.MustCompile("^" + strings.Join(want, "\n") + "$").MatchString(text) {
		t.Errorf("findings:\n%s\nwant:\n%s", text, strings.Join(want, "\n"))
	}
	if n := scrapes.Load(); n != 2 {
		t.Errorf("%d scrapes, want 2", n)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("temporary files after the check: %v, %v", left, err)
	}
}
