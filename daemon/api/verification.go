package api

import (
	"context"
	"net/http"
	"time"
)

// Verification is what came of making recorded decisions again. Each one is identical,
// different or not verifiable.
type Verification struct {
	// Engine is the version of the rules that the daemon has.
	Engine    int `json:"engine"`
	Checked   int `json:"checked"`
	Identical int `json:"identical"`
	// Different counts those that come out otherwise than they were recorded, and
	// entries of the history that are damaged.
	Different int `json:"different"`
	// NotVerifiable counts those of other versions of hpad, whose rules or inputs are
	// other ones.
	NotVerifiable int `json:"not_verifiable"`
	// Differences are the newest 100 differences, oldest first.
	Differences []Difference `json:"differences"`
}

// Difference is a decision that comes out otherwise than it was recorded.
type Difference struct {
	Autoscaler string    `json:"autoscaler"`
	Time       time.Time `json:"time"`
	// Error is why the decision could not be made again, as a damaged entry; empty where
	// it was.
	Error string `json:"error,omitempty"`
	// Fields are what is different about the decision, in order; nil with an error.
	Fields []DifferentField `json:"fields,omitempty"`
}

// DifferentField is a field of a decision that is different.
type DifferentField struct {
	// Field is its path in the JSON, as "stabilization.replicas".
	Field string `json:"field"`
	// Recorded is its value as JSON, and Now the one that comes out now; empty where it
	// has none.
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
}

// verify makes the decisions again that were recorded of the autoscaler that the path
// names, or of all.
func (h handlers) verify(w http.ResponseWriter, r *http.Request) {
	from, to, err := requestedPeriod(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	name, r := r.PathValue("name"), MayWarn(r)
	found, err := h.daemon.VerifyHistory(r.Context(), name, from, to)
	if err != nil {
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
		return
	}
	if name != "" && found.Checked == 0 {
		if _, ok := h.named(w, r); !ok {
			return
		}
	}
	if found.Differences == nil {
		found.Differences = []Difference{} // no null in the response
	}
	writePage(w, found, "", Warnings(r.Context()))
}

// VerifyHistory makes the decisions again that were recorded of an autoscaler, or with an
// empty name of all, from one time up to, and not with, another, and compares them; a
// zero time is no bound. An error that is ErrNotFound means that nothing is known of that
// name.
func (c *Client) VerifyHistory(ctx context.Context, name string, from, to time.Time) (Verification, error) {
	query := HistoryQuery{From: from, To: to}.values()
	return call[Verification](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/history/verify?"+query.Encode(), nil)
}
