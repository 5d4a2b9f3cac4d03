package api

import (
	"context"
	"net/http"
	"time"
)

// Verification is the result of evaluating recorded decisions again. Each is identical, different
// or not verifiable.
type Verification struct {
	// Engine is the version of the daemon's rules.
	Engine    int `json:"engine"`
	Checked   int `json:"checked"`
	Identical int `json:"identical"`
	// Different counts decisions with another result, and damaged entries.
	Different int `json:"different"`
	// NotVerifiable counts decisions of versions with other rules or inputs.
	NotVerifiable int `json:"not_verifiable"`
	// Differences are the newest 100 differences, oldest first.
	Differences []Difference `json:"differences"`
}

// Difference is a decision with another result than the recorded one.
type Difference struct {
	Autoscaler string    `json:"autoscaler"`
	Time       time.Time `json:"time"`
	// Error is the reason why the decision could not be evaluated, such as a damaged entry; empty
	// if it was.
	Error string `json:"error,omitempty"`
	// Fields are the different fields, in order; nil with an error.
	Fields []DifferentField `json:"fields,omitempty"`
}

// DifferentField is a field of a decision with another value.
type DifferentField struct {
	// Field is its path in the JSON, such as "stabilization.replicas".
	Field string `json:"field"`
	// Recorded is the recorded value as JSON and Now the new one; empty if absent.
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
}

// verify evaluates the recorded decisions of the autoscaler in the path again, or of all.
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
		found.Differences = []Difference{} // encode no differences as []
	}
	writePage(w, found, "", Warnings(r.Context()))
}

// VerifyHistory evaluates the recorded decisions of an autoscaler in [from, to) again, or of all
// with an empty name, and compares them. A zero time is no bound. An error that is ErrNotFound
// means that the name is unknown.
func (c *Client) VerifyHistory(ctx context.Context, name string, from, to time.Time) (Verification, error) {
	query := HistoryQuery{From: from, To: to}.values()
	return call[Verification](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/history/verify?"+query.Encode(), nil)
}
