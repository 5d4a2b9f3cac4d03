package config

import (
	"net"
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
