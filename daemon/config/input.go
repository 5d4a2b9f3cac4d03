package config

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/hpad/hpad/targets"
)

// Match specifies what an instance label contains.
type Match string

// The values of Match. An address may include a port of the instance.
const (
	MatchID      Match = "id"
	MatchName    Match = "name"
	MatchAddress Match = "address"
)

// Names returns the possible values of the instance label for instance i of a reading. It falls
// back to the ID if the instance's name or location is unknown.
func (m Match) Names(reading *targets.Reading, i int) []string {
	id := reading.Instances[i].ID
	if m == MatchID || reading.Locations == nil {
		return []string{id}
	}
	location := reading.Locations.At(i)
	if m == MatchName {
		if location.Name == "" {
			return []string{id}
		}
		return []string{location.Name}
	}
	var names []string
	for _, address := range location.Addresses {
		names = append(names, address)
		for _, port := range location.Ports {
			names = append(names, net.JoinHostPort(address, strconv.Itoa(port.Number)))
		}
	}
	return names
}

// Selection selects series by label values, sorted by label. If it is empty, all series are
// selected.
type Selection []LabelValue

// LabelValue is a label and its required value.
type LabelValue struct{ Label, Value string }

// SelectionOf converts a map of labels to a Selection. It returns nil for nil.
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

// Values returns the required values by label. It returns nil for nil.
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
