package config

import (
	"encoding/json"
	"maps"
	"slices"
)

// Selection picks series by their labels: those that have all of these values. It is in
// the order of the labels; nil and an empty one pick all.
type Selection []LabelValue

// LabelValue is the value that a label has to have.
type LabelValue struct{ Label, Value string }

// SelectionOf returns the selection by some values; nil for nil.
func SelectionOf(values map[string]string) Selection {
	if values == nil {
		return nil
	}
	s := make(Selection, 0, len(values))
	for _, label := range slices.Sorted(maps.Keys(values)) {
		s = append(s, LabelValue{label, values[label]})
	}
	return s
}

// Values returns the values by their labels; nil for nil.
func (s Selection) Values() map[string]string {
	if s == nil {
		return nil
	}
	values := make(map[string]string, len(s))
	for _, one := range s {
		values[one.Label] = one.Value
	}
	return values
}

// MarshalJSON writes the values by their labels.
func (s Selection) MarshalJSON() ([]byte, error) { return json.Marshal(s.Values()) }
