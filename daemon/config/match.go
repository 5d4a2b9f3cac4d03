package config

import (
	"net"
	"strconv"

	"github.com/hpad/hpad/targets"
)

// Match says which of an instance's names a label holds.
type Match string

// The matches. An address may have a port behind it, which must then be one of
// the instance's.
const (
	MatchID      Match = "id"
	MatchName    Match = "name"
	MatchAddress Match = "address"
)

// Names returns what an instance label may hold for instance i of a reading. An
// instance whose fleet knows no name or place is known by its id.
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
