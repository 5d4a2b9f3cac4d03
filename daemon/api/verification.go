package api

import (
	"net/http"
	"time"
)

// Verification is the result of recomputing recorded decisions. Each decision is identical,
// different or not verifiable.
type Verification struct {
	// Engine is the version of the daemon's rules.
	Engine    int `json:"engine"`
	Checked   int `json:"checked"`
	Identical int `json:"identical"`
	// Different is the number of decisions with a different result, including damaged entries.
	Different int `json:"different"`
	// NotVerifiable is the number of decisions made by versions of hpad with different rules or
	// inputs.
	NotVerifiable int `json:"not_verifiable"`
	// Differences lists the newest 100 differences, oldest first.
	Differences []Difference `json:"differences"`
}

// Difference is a decision with different recorded and recomputed results.
type Difference struct {
	Autoscaler string    `json:"autoscaler"`
	Time       time.Time `json:"time"`
	// Error is the reason why the decision could not be recomputed, such as a damaged entry. It
	// is empty if the decision was recomputed.
	Error string `json:"error,omitempty"`
	// Fields lists the fields that differ, sorted by path. It is nil if Error is set.
	Fields []DifferentField `json:"fields,omitempty"`
}

// DifferentField is a field of a decision with different values.
type DifferentField struct {
	// Field is the path of the field in the JSON, such as "stabilization.replicas".
	Field string `json:"field"`
	// Recorded is the value from the history and Now is the recomputed value, both as JSON. A value
	// is empty if the field is absent.
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
}

// verify recomputes the recorded decisions of the autoscaler that the path names, or of all
// autoscalers.
func (h handlers) verify(r *http.Request, in Period) (Verification, error) {
	name := r.PathValue("name")
	found, err := h.daemon.VerifyHistory(r.Context(), name, in.From, in.To)
	if err == nil && name != "" && found.Checked == 0 {
		_, err = h.named(r)
	}
	found.Differences = append([]Difference{}, found.Differences...) // encode an empty list as []
	return found, err
}
