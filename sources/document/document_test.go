package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var limits = Limits{Timeout: 10 * time.Second, MaxAge: 5 * time.Minute, MaxSize: 1 << 20}

// of returns a source with a fixed document.
func of(format Format, text string) *Source {
	return New("local", "document", format, limits, nil, func(context.Context) (Page, error) { return Page{Text: []byte(text)}, nil })
}

// shown returns the series of a query, or its error or absence.
func shown(s *Source, query sources.Query) string {
	vector, err := s.Query(context.Background(), query, time.Unix(1767225600, 0))
	if err != nil {
		return "error: " + err.Error()
	}
	var lines []string
	for _, series := range vector.Series {
		lines = append(lines, fmt.Sprintf("%s %v", series.Labels, series.Value))
	}
	slices.Sort(lines)
	return strings.Join(append(lines, vector.Absence), "\n")
}

const queues = `{"node": "rabbit@a", "totals": {"ready": 12, "text": "1.5", "word": "many", "null": null, "on": true, "list": [1, 2]},
 "queues": [{"name": "work", "id": 7, "durable": true, "stats": {"ready": 5}}, {"name": "mail", "id": 8, "stats": {"ready": 6}}],
 "workers": {"w1": {"busy": 1}, "w2": {"busy": 2}}, "big": 1e300, "json_path": "x", "token": "hunter2"}`

func TestJSON(t *testing.T) {
	source := of(JSON, queues)
	for path, want := range map[string]string{
		"$.totals.ready":                 `{node="rabbit@a", text="1.5", token="hunter2", word="many"} 12`,
		"$.totals.text":                  `{node="rabbit@a", text="1.5", token="hunter2", word="many"} 1.5`,
		"$.big":                          `{node="rabbit@a", token="hunter2"} 1e+300`,
		"$.queues[1].stats.ready":        `{name="mail", node="rabbit@a", token="hunter2"} 6`,
		"$.queues[?@.name=='work'].id":   `{json_path="$['queues'][0]['id']", name="work", node="rabbit@a", token="hunter2"} 7`,
		"$.workers.*.busy":               "{json_key=\"w1\", json_path=\"$['workers']['w1']['busy']\", node=\"rabbit@a\", token=\"hunter2\"} 1\n{json_key=\"w2\", json_path=\"$['workers']['w2']['busy']\", node=\"rabbit@a\", token=\"hunter2\"} 2",
		"$.totals.missing":               `the path selects no value; the document is "{\"node\"`,
		"$.queues[?@.name=='none'].id":   "the path selects no value",
		"$.totals.word":                  `error: source "local": query "$.totals.word" at "document": the value at $['totals']['word'] is the string "many" instead of a number; the document is "{`,
		"$.totals.null":                  "is null instead of a number",
		"$.totals.on":                    "is true instead of a number",
		"$.totals.list":                  "is an array of 2 elements instead of a number",
		"$.totals":                       "is an object instead of a number: select one of its members",
		"$.totals['ready','ready']":      "result contains two series with the same labels",
		"$.totals.*":                     "is an array of 2 elements instead of a number",
		"totals.ready":                   `is not a JSONPath (RFC 9535), such as "$.queue.length"`,
		"$..[?@..id]":                    "can contain .. only once",
		"$.queues[?@.id > $.big].id":     "can contain $ only at the beginning",
		"$['a','b','c','d','e','f']":     "can contain at most 4 commas",
		"$.queues[?match(@.name,'w.*')]": "cannot contain match or search",
		"$.a['" + strings.Repeat("x", maxPath) + "']": "has 1031 bytes, and a JSONPath can have at most 1024",
		"": "is required: a JSONPath",
	} {
		if got := shown(source, sources.Query{Text: path}); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	if got := shown(source, sources.Query{Text: "$.queues[?@['a$$..,,,,,,match(']=='$..' || @.id==8].id"}); !strings.Contains(got, "mail") {
		t.Errorf("limits apply to the contents of strings: %s", got)
	}
}

// TestVisits checks that the cost of a selection is bounded, also for a short path.
func TestVisits(t *testing.T) {
	large := "[" + strings.Repeat("1,", 300_000) + "1]"
	for path, rejected := range map[string]bool{"$[7]": false, "$[?@==2]": false, "$[?@==2" + strings.Repeat("||@==3", 20) + "]": true, "$..[0,0,0,0,0]": true} {
		if got := shown(of(JSON, large), sources.Query{Text: path}); strings.Contains(got, "and at most 4000000 are possible") != rejected {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestLabels checks that a value beyond those with all labels has the labels that the query needs, also
// numbers and Booleans.
func TestLabels(t *testing.T) {
	var elements []string
	for i := range 2 * allLabels {
		elements = append(elements, fmt.Sprintf(`{"id": %d, "name": "w", "up": true, "busy": 1}`, i))
	}
	vector, err := of(JSON, "["+strings.Join(elements, ",")+"]").Query(t.Context(), sources.Query{Text: "$[*].busy", Labels: []string{"id", "up"}}, time.Now())
	if err != nil || len(vector.Series) != 2*allLabels {
		t.Fatal(err)
	}
	for i, series := range vector.Series {
		if series.Labels.Get("id") != fmt.Sprint(i) || series.Labels.Get("up") != "true" {
			t.Errorf("labels of value %d = %s", i, series.Labels)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"12": " 12", " 1e3\n": " 1000", "-5": " -5", "NaN": " NaN",
		"": "the document is not a number; the document is empty", "12 jobs": `the document is not a number; the document is "12 jobs"`, "1\n2": `not a number; the document is "1 2"`, "1,5": "not a number",
	} {
		if got := shown(of(Number, text), sources.Query{}); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := shown(of(Number, "1"), sources.Query{Text: "$"}); !strings.Contains(got, `must be omitted with format = "number"`) {
		t.Errorf("a query for a number: %s", got)
	}
}

func TestExposition(t *testing.T) {
	const page = `# TYPE depth gauge
depth{queue="work"} 5 1767225599000
depth{queue="mail"} 6
depth{queue="old"} 7 1767220000000
depth{queue="twice"} 1
depth{queue="twice"} 2
load NaN
`
	for _, test := range []struct{ text, query, want string }{
		{page, `depth{queue=~"work|mail"}`, "{__name__=\"depth\", queue=\"mail\"} 6\n{__name__=\"depth\", queue=\"work\"} 5"},
		{page, "load", " NaN"},
		{page, `depth{queue="old"}`, "the last sample of depth is from 2025-12-31T22:26:40Z, which is older than max_age"},
		{page, `depth{queue="twice"}`, "two series with the same labels"},
		{page, `depth{queue="none"}`, `there are 5 series named "depth", such as {__name__="depth", queue="work"}, but none matches`},
		{page, "width", `there is no metric "width"`},
		{"", "width", `there is no metric "width"; the document is empty`},
		{page, "sum(depth)", "must be a plain selector"},
		{page, "depth offset 5m", "the document has only current values"},
		{page, "depth[5m]", "the document has only current values"},
		{page, `{queue="work"}`, "with the name of a metric"},
		{page, "depth{", "must be a plain selector"},
		{page[:len(page)-1], "depth", "its last line has no end"},
		{"{\"a\": 1}\n", "depth", "the document is not in the text format of metrics"},
	} {
		if got := shown(of(Prometheus, test.text), sources.Query{Text: test.query}); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", test.query, got, test.want)
		}
	}
	vector, err := of(Prometheus, page).Query(t.Context(), sources.Query{Text: `depth{queue="old"}`, MaxAge: 2 * time.Hour}, time.Unix(1767225600, 0))
	if err != nil || len(vector.Series) != 1 || vector.Series[0].At.UnixMilli() != 1767220000000 {
		t.Errorf("Query() with a longer max_age = %v, %v, want the old sample", vector.Series, err)
	}
}

// counted is a source that counts its readings. Each reading ends when a value is sent to next.
func counted() (s *Source, readings *atomic.Int32, next chan error) {
	readings, next = new(atomic.Int32), make(chan error)
	return New("local", "document", JSON, limits, nil, func(ctx context.Context) (Page, error) {
		readings.Add(1)
		select {
		case err := <-next:
			return Page{Text: []byte("[1, 2]")}, err
		case <-ctx.Done():
			return Page{}, context.Cause(ctx)
		}
	}), readings, next
}

// TestOnePerInstant checks that concurrent and later queries for one instant share a reading, also a failed
// one, and that the next instant has its own.
func TestOnePerInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, readings, next := counted()
		var wait sync.WaitGroup
		for tick := range 2 {
			at := time.Now()
			for i := range 100 {
				wait.Go(func() {
					_, err := source.Query(t.Context(), sources.Query{Text: fmt.Sprintf("$[%d]", i%2)}, at)
					if (err != nil) != (tick == 1) {
						t.Errorf("tick %d: %v", tick, err)
					}
				})
			}
			synctest.Wait()
			next <- map[int]error{1: errors.New("refused")}[tick]
			wait.Wait()
			_, _ = source.Query(t.Context(), sources.Query{Text: "$[0]"}, at)
			if got := readings.Load(); got != int32(tick+1) {
				t.Errorf("%d readings after tick %d", got, tick)
			}
			time.Sleep(time.Second)
		}
		if _, err := source.Query(t.Context(), sources.Query{Text: "$[0]", Diagnosis: true}, time.Now()); err == nil || readings.Load() != 2 {
			t.Errorf("a diagnosis after a failed reading = %v with %d readings, want an error without a reading", err, readings.Load())
		}
	})
}

// TestAge checks that values have the age of their document, that a diagnosis returns the age without another
// reading, and that the max_age of a metric replaces that of the source.
func TestAge(t *testing.T) {
	readings := 0
	source := New("local", "document", JSON, limits, nil, func(context.Context) (Page, error) {
		readings++
		return Page{Text: []byte("[1]"), Age: 90 * time.Second}, nil
	})
	at := time.Now()
	for _, query := range []sources.Query{{Text: "$[0]"}, {Text: "$[0]", Diagnosis: true}, {Text: "$[0]", Diagnosis: true}} {
		vector, err := source.Query(t.Context(), query, at)
		if err != nil || at.Sub(vector.Series[0].At) != 90*time.Second || readings != 1 {
			t.Errorf("%+v: %v, %v after %d readings, want an age of 90s after 1", query, vector.Series, err, readings)
		}
		if query.Diagnosis {
			at = at.Add(time.Second)
		}
	}
	if _, err := source.Query(t.Context(), sources.Query{Text: "$[0]", MaxAge: time.Minute}, at); err == nil || !strings.Contains(err.Error(), "the document is 1m30s old, and max_age = 1m0s") {
		t.Errorf("error with max_age = %v", err)
	}
}

// TestAbandoned checks that a reading ends when no query waits for it, that the same instant can then be read
// again, and that two readings never overlap.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, readings, next := counted()
		at := time.Now()
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the pass ends"))
		defer cancel()
		_, err := source.Query(short, sources.Query{Text: "$[0]"}, at)
		if err == nil || !strings.Contains(err.Error(), "the document has not been read yet: the pass ends") {
			t.Errorf("error = %v, want the cause of the context", err)
		}
		synctest.Wait()
		var wait sync.WaitGroup
		for i := range 2 {
			wait.Go(func() {
				if _, err := source.Query(t.Context(), sources.Query{Text: "$[0]"}, at.Add(time.Duration(i)*time.Second)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if got := readings.Load(); got != 2 {
			t.Errorf("%d readings, want the abandoned one and one in progress", got)
		}
		next <- nil
		next <- nil
		wait.Wait()
		if _, err := source.Query(t.Context(), sources.Query{Text: "$[0]"}, at.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "no complete document within the timeout of 10s (sources.local.timeout)") {
			t.Errorf("error of a hanging reading = %v", err)
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
}
