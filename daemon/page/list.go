package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/redact"
)

// pageRows is the number of rows on a page of the list if the script does not run.
const pageRows = 100

// maxBrowserRows is the largest number of autoscalers for which the script loads all rows. For
// longer lists, the script requests pages.
const maxBrowserRows = 20_000

// listView contains the data for the list.
type listView struct {
	frame
	filter
	Rows    []row
	Notices []notice
	Fleets  []string
	States  []state
	Sorts   []string
	// Total is the number of autoscalers, and Matching is the number that match the filter. First
	// and Last are the positions of the first and last row on this page, counted from 1.
	Total, Matching, First, Last int
	// EmptyRow is an empty row that the script copies.
	EmptyRow row
	// ScriptFilters reports whether the script loads and filters all rows.
	ScriptFilters          bool
	PreviousPage, NextPage string
}

// filterOf reads a filter from a query. It ignores unknown values.
func filterOf(query url.Values) filter {
	f := filter{Text: query.Get("q"), Fleet: query.Get("fleet"), State: state(query.Get("state")), Sort: query.Get("sort")}
	if orders[f.Sort] == nil {
		f.Sort = "name"
	}
	f.Page, _ = strconv.Atoi(query.Get("page"))
	return f
}

// query returns a link to a page of the filtered list.
func (f filter) query(page int) string {
	values := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "fleet": f.Fleet, "state": string(f.State), "sort": f.Sort} {
		if value != "" && (name != "sort" || value != "name") {
			values.Set(name, value)
		}
	}
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	return "./?" + values.Encode()
}

func (p *page) list(w http.ResponseWriter, r *http.Request) {
	l := p.snapshots.get(zoneOf(r))
	v := listView{
		frame: p.frame(r, "./", "Autoscalers"), filter: filterOf(r.URL.Query()), Notices: l.Notices, Fleets: l.Fleets, States: states,
		Sorts: []string{"name", "state", "replicas", "late"}, Total: l.Total, ScriptFilters: l.Total <= maxBrowserRows,
	}
	matching := v.apply(l.Rows)
	v.Matching = len(matching)
	pages := max(1, (v.Matching+pageRows-1)/pageRows)
	v.Page = min(max(v.Page, 1), pages)
	v.Rows = matching[(v.Page-1)*pageRows : min(v.Page*pageRows, v.Matching)]
	if v.First, v.Last = (v.Page-1)*pageRows+1, (v.Page-1)*pageRows+len(v.Rows); len(v.Rows) == 0 {
		v.First = 0
	}
	if v.Page > 1 {
		v.PreviousPage = v.query(v.Page - 1)
	}
	if v.Page < pages {
		v.NextPage = v.query(v.Page + 1)
	}
	write(w, http.StatusOK, "list.html", v)
}

// rows writes all rows as JSON, or only the row of the autoscaler in the parameter "name".
func (p *page) rows(w http.ResponseWriter, r *http.Request) {
	zone := zoneOf(r)
	if !r.URL.Query().Has("name") {
		writeJSON(w, p.snapshots.get(zone))
		return
	}
	one := snapshot{Rows: []row{}}
	if view, ok := p.daemon.Autoscaler(r.URL.Query().Get("name")); ok {
		one.Rows = append(one.Rows, rowOf(&view, time.Now().In(zone)))
	}
	writeJSON(w, one)
}

// writeJSON writes data as JSON without secrets.
func writeJSON(w http.ResponseWriter, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "encode the response: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(redact.JSON(encoded))
}

// The limits for one request for sparklines.
const (
	maxLines   = 100
	lineSpan   = time.Hour
	linePoints = 60
)

// sparklines writes the named autoscalers' counts during the last hour at equal intervals. An
// unknown count is -1.
func (p *page) sparklines(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["name"]
	to := time.Now()
	lines := map[string][]int32{}
	for _, name := range names[:min(len(names), maxLines)] {
		if graph, err := p.daemon.Graph(r.Context(), name, to.Add(-lineSpan), to); err == nil {
			lines[name] = resampled(&graph, to)
		}
	}
	writeJSON(w, lines)
}

// resampled returns the last known count in each of the linePoints intervals before to.
func resampled(graph *api.Graph, to time.Time) []int32 {
	counts := make([]int32, linePoints)
	for i := range counts {
		counts[i] = -1
	}
	from := to.Add(-lineSpan).Unix()
	for i, at := range graph.Time {
		slot := (at - from) * linePoints / int64(lineSpan/time.Second)
		if count := graph.Replicas[i]; slot >= 0 && slot < linePoints && count >= 0 {
			counts[slot] = int32(count)
		}
	}
	const maxGap = 5 // with a long sync period, up to 5 intervals contain no pass
	for i, gap := 1, 0; i < len(counts); i++ {
		if counts[i] >= 0 || counts[i-1] < 0 {
			gap = 0
		} else if gap++; gap <= maxGap {
			counts[i] = counts[i-1]
		}
	}
	return counts
}
