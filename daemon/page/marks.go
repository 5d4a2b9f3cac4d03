package page

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// markKind is the kind of an event in the graph.
type markKind string

const (
	scaledUp          markKind = "up"
	scaledDown        markKind = "down"
	setByOperator     markKind = "person"
	changedExternally markKind = "foreign"
	boundsChanged     markKind = "bounds"
	pauseChanged      markKind = "pause"
	passFailed        markKind = "failed"
	configChanged     markKind = "config"
)

// mark is an event of an autoscaler in the graph.
type mark struct {
	// Time is the Unix time in seconds.
	Time float64  `json:"time"`
	Kind markKind `json:"kind"`
	Text string   `json:"text"`
	// Count is the new count, or nil if the count did not change.
	Count *int32 `json:"count,omitempty"`
}

// maxMarks is the maximum number of history entries to search for marks.
const maxMarks = 2000

// marks writes the events of an autoscaler within a time span.
func (p *page) marks(w http.ResponseWriter, r *http.Request) {
	from, err := api.Instant("from", r.URL.Query().Get("from"))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	to, err := api.Instant("to", r.URL.Query().Get("to"))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	entries, err := p.daemon.History(r.Context(), r.URL.Query().Get("name"), from, to, maxMarks)
	if err != nil {
		writeError(w, http.StatusInternalServerError, err.Error())
		return
	}
	marks := []mark{}
	for i := range entries {
		marks = appendMarks(marks, &entries[i])
	}
	writeJSON(w, marks)
}

// appendMarks appends the marks for a history entry.
func appendMarks(marks []mark, entry *api.Recorded) []mark {
	d, at := &entry.Decision, seconds(entry.Time)
	add := func(kind markKind, count *int32, text string) {
		marks = append(marks, mark{at, kind, explain.OneLine(text), count})
	}
	if reload := entry.Reload; reload != nil && reload.Takeover != nil {
		add(configChanged, nil, explain.TakeoverText(reload.Takeover))
	} else if reload != nil {
		cause, changes := explain.Reload(reload)
		add(configChanged, nil, cause+": "+changes)
	}
	if d.Foreign != nil {
		add(changedExternally, &d.CurrentReplicas, fmt.Sprintf("an external writer changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas))
	}
	for _, event := range entry.Events {
		switch {
		case event.Reason == api.BoundsChanged:
			add(boundsChanged, nil, event.Message)
		case event.IsPause():
			add(pauseChanged, nil, event.Message)
		}
	}
	switch {
	case d.Command != nil:
		add(setByOperator, entry.Written, fmt.Sprintf("%s set the count to %d", cmp.Or(d.Command.Author, "a user"), d.Command.Replicas))
	case entry.Written != nil && *entry.Written < d.CurrentReplicas:
		add(scaledDown, entry.Written, explain.Count(*d, entry.Evaluation()))
	case entry.Written != nil:
		add(scaledUp, entry.Written, explain.Count(*d, entry.Evaluation()))
	}
	if entry.Error != "" {
		add(passFailed, nil, entry.Error)
	}
	return marks
}
