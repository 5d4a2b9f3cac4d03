// Package sources holds what a query answers with. Each kind of source lives in
// a package below this one.
package sources

import (
	"fmt"
	"math"
	"time"
)

// Vector is the answer of an instant query. A scalar result is a Vector of one
// Series without labels. It is shared between readers and not to be modified.
type Vector struct {
	Series []Series
	// Warnings are the server's own words about the answer.
	Warnings []string
}

// Series is one element of a Vector.
type Series struct {
	// Labels includes "__name__" where the query kept it; nil means none.
	Labels map[string]string
	// Value may be NaN or infinite: what that means is the reader's to say.
	Value float64
	// At is the time the answer states for the value.
	At time.Time
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
