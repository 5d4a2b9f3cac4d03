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
func (r *Response) because() string {
	text := ""
	if r.Absence != "" {
		text = ": " + r.Absence
	}
	if len(r.Vector.Warnings) > 0 {
		text += "; warning: " + r.Vector.Warnings[0]
	}
	return text
}

func (r *Response) remarks() []string {
	if len(r.Vector.Infos) == 0 {
		return r.Vector.Warnings
	}
	return slices.Concat(r.Vector.Warnings, r.Vector.Infos)
}

// Release releases the memory. The Response must not be used afterwards.
func (r *Response) Release() {
	r.Vector.Release()
	r.Vector, r.byKey = sources.Vector{}, nil
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

// indexBy returns an index by the given labels. Its keys are label values joined with keySeparator. A
// missing label is treated as empty.
func (r *Response) indexBy(labels []string) seriesIndex {
	name := strings.Join(labels, keySeparator)
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, ok := r.byKey[name]; ok {
		return found
	}
	series := r.Vector.Series
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
	if r.byKey == nil {
		r.byKey = map[string]seriesIndex{}
	}
	r.byKey[name] = built
	return built
}
