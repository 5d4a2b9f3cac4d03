package page

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// markKind is what happened at a mark of the drawing.
type markKind string

// The kinds of marks.
const (
	scaledUp      markKind = "up"
	scaledDown    markKind = "down"
	setByPerson   markKind = "person"
	changedByElse markKind = "foreign"
	boundsChanged markKind = "bounds"
	pauseChanged  markKind = "pause"
	passFailed    markKind = "failed"
	configChanged markKind = "config"
)

// mark is something that happened to an autoscaler.
type mark struct {
	// Time is in seconds since 1970.
	Time float64  `json:"time"`
	Kind markKind `json:"kind"`
	Text string   `json:"text"`
	// Count is the count from then on; nil where it is none that changed.
	Count *int32 `json:"count,omitempty"`
}

// maxMarks is how many entries of the history are looked at for marks, the newest.
const maxMarks = 2000

// marks writes what happened to an autoscaler from one time on.
func (p *Page) marks(w http.ResponseWriter, r *http.Request) {
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

// appendMarks appends the marks of an entry of the history.
func appendMarks(marks []mark, entry *api.Recorded) []mark {
	d, at := &entry.Decision, seconds(entry.Time)
	add := func(kind markKind, count *int32, text string) {
		marks = append(marks, mark{at, kind, explain.OneLine(text), count})
	}
	if entry.Reload != nil {
		cause, changes := explain.Reload(entry.Reload)
		add(configChanged, nil, cause+": "+changes)
	}
	if d.Foreign != nil {
		add(changedByElse, &d.CurrentReplicas, fmt.Sprintf("somebody else changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas))
	}
	for _, event := range entry.Events {
		switch {
		case event.Reason == api.BoundsChanged:
			add(boundsChanged, nil, event.Message)
		case event.TellsOfPause():
			add(pauseChanged, nil, event.Message)
		}
	}
	switch {
	case d.Command != nil:
		add(setByPerson, entry.Written, fmt.Sprintf("%s set the count to %d", cmp.Or(d.Command.Author, "a person"), d.Command.Replicas))
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
