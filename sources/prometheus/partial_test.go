package prometheus

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// TestPartial holds that each way in which a server marks a result as partial is found, that
// annotations of PromQL are not taken for one, and that on_warnings = "accept" only shows it.
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
		{"VictoriaMetrics, whole", "", `"isPartial":false,`, "", 0, 0},
		{"FiloDB", "", `"partial":true,"message":"a shard is down",`, "the server marks the result as partial (partial)", 1, 0},
		{"M3", "M3-Results-Limited", "", "M3-Results-Limited: max_fetch_series_limit_applied", 1, 0},
		{"M3, returned data", "M3-Returned-Data-Limited", "", "M3-Returned-Data-Limited: max_fetch_series_limit_applied", 1, 0},
		{"infos", "", `"infos":["PromQL info: metric might not be a counter"],`, "", 0, 1},
		{"infos of another form", "", `"infos":[{"a":1}],`, "", 0, 0},
		{"infos of Prometheus 2", "", `"warnings":["PromQL info: metric might not be a counter"],`, "", 0, 1},
		{"about the query", "", `"warnings":` + quoted(many[0]) + `,`, "", 1, 0},
		{"series are left out", "", `"warnings":["PromQL warning: encountered a mix of histograms and floats for aggregation"],`, "PromQL warning: encountered a mix of histograms and floats for aggregation", 1, 0},
		{"after others", "", `"warnings":` + quoted(many[0], unavailable) + `,`, unavailable, 2, 0},
		{"after too many others", "", `"warnings":` + quoted(append(many, unavailable)...) + `,`, unavailable, maxRemarks, 0},
		{"long", "", `"warnings":["` + strings.Repeat("a store is down ", 1000) + `"],`, shorten(strings.Repeat("a store is down ", 1000), maxShownAnswer), 1, 0},
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
			if got.Partial() != test.partial || len(got.Warnings) != test.warnings || len(got.Infos) != test.infos {
				t.Errorf("partial %q with warnings %q and infos %q, want %q, %d and %d", got.Partial(), got.Warnings, got.Infos, test.partial, test.warnings, test.infos)
			}
			accepted := query(func(c *Config) { c.OnWarnings = acceptWarnings })
			if accepted.Partial() != "" || len(accepted.Warnings) != 0 || len(accepted.Infos) != test.warnings+test.infos {
				t.Errorf("accepted: partial %q with warnings %q and infos %q", accepted.Partial(), accepted.Warnings, accepted.Infos)
			}
		})
	}
}
