package config

import (
	"encoding/json"
	"maps"
	"slices"
)

// Selection selects series by their labels, in the order of labels; empty selects all.
type Selection []LabelValue

// LabelValue is a label with its required value.
type LabelValue struct{ Label, Value string }

// SelectionOf returns the selection of some labels; nil for nil.
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

// Values returns the values by label; nil for nil.
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

// MarshalJSON encodes the values by label.
func (s Selection) MarshalJSON() ([]byte, error) { return json.Marshal(s.Values()) }
