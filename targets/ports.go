package targets

import (
	"slices"
	"strings"
)

// Port is a port of an instance.
type Port struct {
	// Label is what it is called; empty for a kind's one unnamed port.
	Label string
	// Number is 1 to 65535.
	Number int
}

// Ports are the ports of an instance in the order of their labels, which all differ. A
// map would take ten times the memory, and there is one for each instance.
type Ports []Port

// Find returns the number of the port with a label; false where there is none.
func (p Ports) Find(label string) (number int, found bool) {
	i, found := p.search(label)
	if !found {
		return 0, false
	}
	return p[i].Number, true
}

// Set sets the port with a label.
func (p *Ports) Set(label string, number int) {
	i, found := p.search(label)
	if !found {
		*p = slices.Insert(*p, i, Port{Label: label})
	}
	(*p)[i].Number = number
}

// Labels returns the labels of all.
func (p Ports) Labels() []string {
	labels := make([]string, len(p))
	for i, port := range p {
		labels[i] = port.Label
	}
	return labels
}

func (p Ports) search(label string) (int, bool) {
	return slices.BinarySearchFunc(p, label, func(p Port, label string) int { return strings.Compare(p.Label, label) })
}
