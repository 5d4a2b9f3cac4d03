// Package sources defines the interface of all kinds of sources. Each kind is a subpackage.
package sources

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query is a request to a source.
type Query struct {
	// Text is the query in the source's language.
	Text string
	// Labels lists the distinct names of the labels that are used.
	Labels []string
	// MaxAge is the maximum age of a sample in whole seconds. 0 means the source's default. It
	// does not affect ranges.
	MaxAge time.Duration
	// Diagnosis marks a query that explains a missing result. It must not delay other queries:
	// it fails instead of waiting, and is not counted as a concurrent query.
	Diagnosis bool
}

// Vector is the result of an instant query. A scalar is a Vector with one Series without
// labels. It is shared and must not be modified.
type Vector struct {
	Series []Series
	// Warnings contains the server's warnings. Infos contains remarks that do not affect the
	// result.
	Warnings, Infos []string
	// Absence is the reason why a result has no series; empty if it is unknown.
	Absence string
	// Remedy names the key that accepts a partial result of this source, or is empty.
	Remedy string

	claim *Claim
}

// Partial returns the first warning about missing data, for example because a store did not
// respond, and the remedy. It returns "" if there is no such warning.
func (v *Vector) Partial() string {
	i := slices.IndexFunc(v.Warnings, MarksPartial)
	if i < 0 {
		return ""
	}
	return v.withRemedy(v.Warnings[i])
}

// Doubt returns the first warning and the remedy, or "" without warnings.
func (v *Vector) Doubt() string {
	if len(v.Warnings) == 0 {
		return ""
	}
	return v.withRemedy(v.Warnings[0])
}

func (v *Vector) withRemedy(warning string) string {
	switch fromEngine := strings.HasPrefix(warning, promQLWarning); {
	case fromEngine && v.Remedy == "":
		return warning + "; PromQL omits such series: change the query"
	case fromEngine:
		return warning + "; PromQL omits such series: change the query, or " + v.Remedy
	case v.Remedy != "":
		return warning + "; to use such results, " + v.Remedy
	}
	return warning
}

// MarksPartial reports whether a warning means that data is missing. Annotations of the PromQL
// engine mostly concern the query, but the engine omits series that mix floats and histograms,
// or several kinds of histograms.
func MarksPartial(warning string) bool {
	switch {
	case IsInfo(warning):
		return false
	case strings.HasPrefix(warning, promQLWarning):
		return strings.Contains(warning, " a mix of ")
	}
	return true
}

const promQLWarning = "PromQL warning"

// IsInfo reports whether a warning is a PromQL info. Servers before Prometheus 3 return infos
// as warnings.
func IsInfo(warning string) bool { return strings.HasPrefix(warning, "PromQL info") }

// Series is one element of a Vector.
type Series struct {
	// Labels include those that the query names, and possibly others.
	Labels Labels
	// Value may be NaN or infinite.
	Value float64
	// At is the time that the source reports for the value.
	At time.Time
}

// Release releases the Vector's part of its Budget. It may be called more than once.
func (v *Vector) Release() { v.claim.Release() }

// Label is one label of a series.
type Label struct{ Name, Value string }

// Labels contains the distinct labels of one series; nil means no labels.
type Labels []Label

// LabelsOf returns the labels of a map, sorted by name.
func LabelsOf(values map[string]string) Labels {
	var labels Labels
	for name, value := range values {
		labels = append(labels, Label{name, value})
	}
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return labels
}

// Map returns the labels as a map, or nil without labels.
func (l Labels) Map() map[string]string {
	if l == nil {
		return nil
	}
	values := make(map[string]string, len(l))
	for _, label := range l {
		values[label.Name] = label.Value
	}
	return values
}

// MarshalJSON returns an object with sorted names.
func (l Labels) MarshalJSON() ([]byte, error) { return json.Marshal(l.Map()) }

// Get returns the value of a label, or "".
func (l Labels) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

func (l Labels) String() string {
	var texts []string
	for _, label := range l {
		texts = append(texts, label.Name+"="+strconv.Quote(label.Value))
	}
	slices.Sort(texts)
	return "{" + strings.Join(texts, ", ") + "}"
}

// Milli converts a value to milli-units. Like prometheus-adapter, it truncates toward zero:
// 90.00000000000001 is 90000. It returns an error for NaN, an infinity, or a value outside of
// 64-bit milli-units (R3).
func Milli(value float64) (int64, error) {
	switch {
	case math.IsNaN(value):
		return 0, fmt.Errorf("value is not a number (NaN)")
	case math.IsInf(value, 0):
		return 0, fmt.Errorf("value is infinite (%v)", value)
	}
	milli := value * 1000
	if milli >= math.MaxInt64 || milli <= math.MinInt64 {
		return 0, fmt.Errorf("value %v does not fit 64-bit milli-units", value)
	}
	return int64(milli), nil
}
