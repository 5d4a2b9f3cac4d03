package observe

import (
	"slices"
	"strings"
	"sync"

	"github.com/hpad/hpad/sources"
)

// Response is the result of a query. Any number of goroutines can read it concurrently. Readers
// find series by label values with an index, which the first reader builds. The zero value contains
// no series.
type Response struct {
	Vector sources.Vector
	// Absence is the reason for an empty result, or empty if the reason is unknown.
	Absence string

	mu    sync.Mutex
	byKey map[string]seriesIndex
}

// because formats the reason for an empty result and the first warning as the end of an error
// message.
func (a *Response) because() string {
	text := ""
	if a.Absence != "" {
		text = ": " + a.Absence
	}
	if len(a.Vector.Warnings) > 0 {
		text += "; warning: " + a.Vector.Warnings[0]
	}
	return text
}

func (a *Response) remarks() []string {
	if len(a.Vector.Infos) == 0 {
		return a.Vector.Warnings
	}
	return slices.Concat(a.Vector.Warnings, a.Vector.Infos)
}

// Release releases the memory. The Response must not be used afterwards.
func (a *Response) Release() {
	a.Vector.Release()
	a.Vector, a.byKey = sources.Vector{}, nil
}

// seriesIndex finds the series in a vector by the values of some labels.
type seriesIndex struct {
	// first maps each key to its first series. next[i] is the next series with the same key as
	// series i, or negative.
	first map[string]int32
	next  []int32
}

// at returns the index of the first series with a key, or a negative number.
func (x seriesIndex) at(key string) int32 {
	if i, ok := x.first[key]; ok {
		return i
	}
	return -1
}

// keySeparator separates the label values in a key. Valid UTF-8 does not contain it.
const keySeparator = "\xff"

// by returns an index by the given labels. Its keys are label values joined with keySeparator. A
// missing label is treated as empty.
func (a *Response) by(labels []string) seriesIndex {
	name := strings.Join(labels, keySeparator)
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, ok := a.byKey[name]; ok {
		return found
	}
	series := a.Vector.Series
	built := seriesIndex{first: make(map[string]int32, len(series)), next: make([]int32, len(series))}
	values := make([]string, len(labels))
	for i, one := range slices.Backward(series) {
		for v, label := range labels {
			values[v] = one.Labels.Get(label)
		}
		key := strings.Join(values, keySeparator)
		built.next[i] = built.at(key)
		built.first[key] = int32(i)
	}
	if a.byKey == nil {
		a.byKey = map[string]seriesIndex{}
	}
	a.byKey[name] = built
	return built
}
