// Package sources has the results of queries. Each kind of source lives in
// a package below this one.
package sources

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query is a query of a source.
type Query struct {
	// Text is the query in the source's own language.
	Text string
	// Labels are the names of the labels that are used, each once.
	Labels []string
	// MaxAge is how old the newest sample of a series may be: whole seconds, 0 leaves it
	// to the source. It has no bearing on ranges.
	MaxAge time.Duration
	// Diagnosis marks a query that explains the absence of a result. It must not delay other
	// queries: it fails rather than waits, and does not count in a source's limit of them.
	Diagnosis bool
}

// Vector is the result of an instant query. A scalar is a Vector of one
// Series without labels. It is shared between readers and not to be modified.
type Vector struct {
	Series []Series
	// Warnings are the server's own, Infos its remarks that cast no doubt on the result.
	Warnings, Infos []string

	// claim is what the Vector holds of its Budget; nil for none.
	claim *Claim
}

// Partial returns the first warning which means that the result lacks data, for example because
// a store did not respond; "" without such a warning.
func (v *Vector) Partial() string {
	for _, warning := range v.Warnings {
		if MarksPartial(warning) {
			return warning
		}
	}
	return ""
}

// MarksPartial reports whether a warning means that the result lacks data. The PromQL engine
// annotates results too, which mostly concerns the query; but it leaves series out that mix
// floats and histograms, or several kinds of histograms.
func MarksPartial(warning string) bool {
	switch {
	case IsInfo(warning):
		return false
	case strings.HasPrefix(warning, "PromQL warning"):
		return strings.Contains(warning, " a mix of ")
	}
	return true
}

// IsInfo reports whether a warning is a PromQL info, which servers before Prometheus 3 return
// among the warnings.
func IsInfo(warning string) bool { return strings.HasPrefix(warning, "PromQL info") }

// Series is one element of a Vector.
type Series struct {
	// Labels has the labels that the query names, as far as the series has them. Others
	// may be there too: see Collector.
	Labels Labels
	// Value may be NaN or infinite.
	Value float64
	// At is the time that the source states for the value.
	At time.Time
}

// Release gives back what the Vector holds of its Budget; it is not read any more.
// Only the first call counts.
func (v *Vector) Release() { v.claim.Release() }

// Extend takes n bytes more of the Budget, for what a reader makes of the Vector, and
// reports whether there are as many. It does not wait.
func (v *Vector) Extend(n int64) bool { return v.claim.extend(n) }

// Label is the name and the value of a label.
type Label struct{ Name, Value string }

// Labels are those of one series, each name once; nil means none.
type Labels []Label

// LabelsOf returns the labels that a map has, by name.
func LabelsOf(values map[string]string) Labels {
	var labels Labels
	for name, value := range values {
		labels = append(labels, Label{name, value})
	}
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return labels
}

// Get returns the value of a label; "" where there is none.
func (l Labels) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

// String returns the labels as PromQL writes them, in the order of their names.
func (l Labels) String() string {
	var texts []string
	for _, label := range l {
		texts = append(texts, label.Name+"="+strconv.Quote(label.Value))
	}
	slices.Sort(texts)
	return "{" + strings.Join(texts, ", ") + "}"
}

// Milli turns a value into milli-units by truncation toward zero, as
// prometheus-adapter does: 90.00000000000001 is 90000. NaN, an infinity or a
// value whose milli-units do not fit 64 bits (R3) is an error.
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
