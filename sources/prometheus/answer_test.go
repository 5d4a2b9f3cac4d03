package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hpad/hpad/sources"
)

// replay is a transport that returns the same response to every request.
type replay struct {
	status int
	body   []byte
}

func (r replay) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return &http.Response{
		StatusCode: r.status,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(r.body)),
		Request:    request,
	}, nil
}

// FuzzAnswer checks that no response makes a source panic or return an empty or long error, and
// that no result comes from a status other than 200, or contains a series with a different time
// or two series with the same labels.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded responses: %v, %v", files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, status := range []int{200, 206, 302, 400, 503} {
			f.Add(status, body)
		}
	}
	f.Add(200, []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"3"}]}]}}`))
	f.Add(200, []byte(`{"status":"success","data":{"resultType":"scalar","result":null}}`))
	f.Add(403, []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		source := newSource(t, "http://127.0.0.1:9090", nil)
		source.http = &http.Client{Transport: replay{status, body}}
		vector, err := source.query(t.Context(), sources.Query{Text: "up", Labels: []string{"job"}}, at)
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 6*maxShownAnswer || !utf8.ValidString(text) || strings.Contains(text, "\n") {
				t.Errorf("error %q is empty, too long, multi-line or not UTF-8", text)
			}
			return
		}
		if status != http.StatusOK {
			t.Errorf("a response with status %d was accepted", status)
		}
		seen := map[string]bool{}
		for i, series := range vector.Series {
			if !series.At.Equal(at) {
				t.Errorf("%q contains a series with a different time: %v", body, series)
			}
			if text := series.Labels.String(); i < 100 && seen[text] {
				t.Errorf("%q contains two series %s", body, text)
			} else {
				seen[text] = true
			}
		}
	})
}

// TestQueryErrorClasses checks that only errors that the query causes are QueryErrors.
func TestQueryErrorClasses(t *testing.T) {
	for _, test := range []struct {
		name       string
		handler    http.HandlerFunc
		queryError bool
	}{
		{"parse error", recorded(t, "400-parse"), true},
		{"execution error", recorded(t, "422-execution"), true},
		{"a range", recorded(t, "200-matrix"), true},
		{"a string", recorded(t, "200-string"), true},
		{"400 from a proxy", answering(400, "text/html", "<html>Bad Request</html>"), false},
		{"timed out", answering(503, "application/json", `{"status":"error","errorType":"timeout","error":"query timed out"}`), false},
		{"overloaded", answering(422, "application/json", `{"status":"error","errorType":"unavailable","error":"too many requests"}`), false},
		{"forbidden", answering(403, "application/json", `{"status":"error","errorType":"bad_data","error":"no"}`), false},
		{"invalid result", answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[null]}}`), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newSource(t, serve(t, test.handler).URL, nil).Query(t.Context(), sources.Query{Text: "up"}, time.Unix(1767225600, 0))
			if _, queryError := errors.AsType[*sources.QueryError](err); err == nil || queryError != test.queryError {
				t.Errorf("error = %v, QueryError = %v, want %v", err, queryError, test.queryError)
			}
		})
	}
}

// TestPartial checks that each mark of a partial result is found, that annotations of PromQL
// are not a mark, and that on_warnings = "accept" only shows the mark.
func TestPartial(t *testing.T) {
	body := func(members string) string {
		return `{"status":"success",` + members + `"data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"30"]}]}}`
	}
	const unavailable = "No StoreAPIs matched: store unavailable"
	quoted := func(texts ...string) string { return `["` + strings.Join(texts, `","`) + `"]` }
	many := slices.Repeat([]string{"PromQL warning: quantile value should be between 0 and 1, got 2"}, 20)
	for _, test := range []struct {
		name            string
		header, members string
		partial         string
		warnings, infos int
	}{
		{"nothing", "", "", "", 0, 0},
		{"warnings", "", `"warnings":` + quoted(unavailable) + `,`, unavailable, 1, 0},
		{"VictoriaMetrics", "", `"isPartial":true,`, "the server marks the result as partial (isPartial)", 1, 0},
		{"VictoriaMetrics, complete", "", `"isPartial":false,`, "", 0, 0},
		{"FiloDB", "", `"partial":true,"message":"a shard is down",`, "the server marks the result as partial (partial)", 1, 0},
		{"M3", "M3-Results-Limited", "", "M3-Results-Limited: max_fetch_series_limit_applied", 1, 0},
		{"M3, returned data", "M3-Returned-Data-Limited", "", "M3-Returned-Data-Limited: max_fetch_series_limit_applied", 1, 0},
		{"infos", "", `"infos":["PromQL info: metric might not be a counter"],`, "", 0, 1},
		{"infos that are not strings", "", `"infos":[{"a":1}],`, "", 0, 0},
		{"infos from Prometheus 2", "", `"warnings":["PromQL info: metric might not be a counter"],`, "", 0, 1},
		{"warning about the query", "", `"warnings":` + quoted(many[0]) + `,`, "", 1, 0},
		{"omitted series", "", `"warnings":["PromQL warning: encountered a mix of histograms and floats for aggregation"],`, "PromQL warning: encountered a mix of histograms and floats for aggregation", 1, 0},
		{"after another warning", "", `"warnings":` + quoted(many[0], unavailable) + `,`, unavailable, 2, 0},
		{"after too many warnings", "", `"warnings":` + quoted(append(many, unavailable)...) + `,`, unavailable, maxAnnotations, 0},
		{"long warning", "", `"warnings":["` + strings.Repeat("a store is down ", 1000) + `"],`, sources.Shorten(strings.Repeat("a store is down ", 1000), maxShownAnswer), 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set(test.header, "max_fetch_series_limit_applied")
				}
				fmt.Fprint(w, body(test.members))
			})
			query := func(edit func(*Config)) sources.Vector {
				t.Helper()
				vector, err := newSource(t, server.URL, edit).Query(t.Context(), sources.Query{Text: "q"}, time.Unix(1767225600, 0))
				if err != nil {
					t.Fatal(err)
				}
				return vector
			}
			got := query(nil)
			if partial, remedy := got.Partial(), `set on_warnings = "accept" in [sources.`; !strings.HasPrefix(partial, test.partial) || strings.Contains(partial, remedy) != (test.partial != "") || len(got.Warnings) != test.warnings || len(got.Infos) != test.infos {
				t.Errorf("Partial() = %q with warnings %q and infos %q, want %q, %d and %d", got.Partial(), got.Warnings, got.Infos, test.partial, test.warnings, test.infos)
			}
			accepted := query(func(c *Config) { c.OnWarnings = acceptWarnings })
			if accepted.Partial() != "" || len(accepted.Warnings) != 0 || len(accepted.Infos) != test.warnings+test.infos {
				t.Errorf("with on_warnings = accept: Partial() = %q, warnings %q, infos %q", accepted.Partial(), accepted.Warnings, accepted.Infos)
			}
		})
	}
}
