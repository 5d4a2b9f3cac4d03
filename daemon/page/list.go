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

// pageRows is how many rows a page of the list has where no script shows all.
const pageRows = 100

// maxBrowserRows is up to how many autoscalers the script of the list holds all rows; with
// more it asks for pages.
const maxBrowserRows = 20_000

// listView is what the list shows.
type listView struct {
	frame
	choice
	Rows    []*row
	Notices []notice
	Fleets  []string
	States  []state
	Sorts   []string
	// Total counts all, Chosen those of the choice; First and Last are the rows of this
	// page, from 1.
	Total, Chosen, First, Last int
	// Blank is a row of nothing, which the script fills.
	Blank row
	// Whole is whether the script is to hold all rows.
	Whole          bool
	Before, Behind string
}

// choiceOf reads what a query asks for; what it does not know, it takes for nothing.
func choiceOf(query url.Values) choice {
	c := choice{Text: query.Get("q"), Fleet: query.Get("fleet"), State: state(query.Get("state")), Sort: query.Get("sort")}
	if orders[c.Sort] == nil {
		c.Sort = "name"
	}
	c.Page, _ = strconv.Atoi(query.Get("page"))
	return c
}

// query is the choice as a link to one of its pages.
func (c choice) query(page int) string {
	values := url.Values{}
	for name, value := range map[string]string{"q": c.Text, "fleet": c.Fleet, "state": string(c.State), "sort": c.Sort} {
		if value != "" && (name != "sort" || value != "name") {
			values.Set(name, value)
		}
	}
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	return "./?" + values.Encode()
}

func (p *Page) list(w http.ResponseWriter, r *http.Request) {
	l := p.board.look(zoneOf(r))
	v := listView{
		frame: p.frame(r, "./", "Autoscalers"), choice: choiceOf(r.URL.Query()), Notices: l.Notices, Fleets: l.Fleets, States: states,
		Sorts: []string{"name", "state", "replicas", "late"}, Total: l.Total, Whole: l.Total <= maxBrowserRows,
	}
	chosen := v.of(l.Rows)
	v.Chosen = len(chosen)
	pages := max(1, (v.Chosen+pageRows-1)/pageRows)
	v.Page = min(max(v.Page, 1), pages)
	v.Rows = chosen[(v.Page-1)*pageRows : min(v.Page*pageRows, v.Chosen)]
	if v.First, v.Last = (v.Page-1)*pageRows+1, (v.Page-1)*pageRows+len(v.Rows); len(v.Rows) == 0 {
		v.First = 0
	}
	if v.Page > 1 {
		v.Before = v.query(v.Page - 1)
	}
	if v.Page < pages {
		v.Behind = v.query(v.Page + 1)
	}
	write(w, http.StatusOK, "list.html", v)
}

// rows writes all rows as JSON, or with "name" the row of one autoscaler.
func (p *Page) rows(w http.ResponseWriter, r *http.Request) {
	l := p.board.look(zoneOf(r))
	if name := r.URL.Query().Get("name"); name != "" {
		l = l.of(name)
	}
	writeJSON(w, l)
}

// writeJSON writes data without secrets.
func writeJSON(w http.ResponseWriter, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(redact.JSON(encoded))
}

// The small lines: of how many autoscalers one request gets them, over what time, and with
// how many points at most.
const (
	maxLines   = 100
	lineSpan   = time.Hour
	linePoints = 60
)

// lines writes the counts of the last hour of the autoscalers that are named, at even
// distances; -1 is one that is not known.
func (p *Page) lines(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["name"]
	to := time.Now()
	lines := map[string][]int32{}
	for _, name := range names[:min(len(names), maxLines)] {
		if graph, err := p.daemon.Graph(r.Context(), name, to.Add(-lineSpan), to); err == nil {
			lines[name] = evenly(&graph, to)
		}
	}
	writeJSON(w, lines)
}

// evenly returns the last count known in each of linePoints spans of the time before to.
func evenly(graph *api.Graph, to time.Time) []int32 {
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
	const most = 5 // between two passes of one whose period is long
	for i, gap := 1, 0; i < len(counts); i++ {
		if counts[i] >= 0 || counts[i-1] < 0 {
			gap = 0
		} else if gap++; gap <= most {
			counts[i] = counts[i-1]
		}
	}
	return counts
}
