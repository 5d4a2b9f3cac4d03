package targets

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// Ref names one target. It is comparable and identifies the target across
// restarts, reloads and processes.
type Ref struct {
	// Fleet is the fleet's key in the configuration.
	Fleet string `json:"fleet"`
	// Name is the target's name inside the fleet, in the one canonical spelling
	// of the fleet's kind: "worker", "project/service", …
	Name string `json:"name"`
}

// String returns "fleet/name".
func (r Ref) String() string { return r.Fleet + "/" + r.Name }

// Reading is what reading one target yields. Its slices belong to the reader,
// which may share them between readings, and are not to be modified.
type Reading struct {
	// Err is one of this package's error classes when this target, as opposed
	// to the whole fleet, could not be read. Nothing else counts then.
	Err error
	// SpecReplicas is the wanted count: what SetReplicas sets.
	SpecReplicas int32
	// StatusReplicas is the observed count: instances that exist and are
	// neither terminal nor terminating.
	StatusReplicas int32
	// Min and Max are bounds that the platform itself enforces; nil means none.
	Min, Max *int32
	// Instances are all members of the target that R27 has to see. A fleet that
	// states no requests leaves them out. StartedAt is never zero for a Running
	// instance: where the platform gives none, it is when the fleet first saw
	// the instance.
	Instances []policy.Instance
	// Locations are where Instances are to be found; nil when the kind does not know.
	Locations Locations
	// Version is handed back to SetReplicas for compare-and-set; empty where the
	// platform has none. It has no meaning outside the fleet.
	Version string
	// Hold is set while the count must not be written.
	Hold *policy.Hold
	// Notices are what else the platform says of the target and a person should
	// know, at most one for each type of condition.
	Notices []policy.Notice
	// Observed is when the platform was read.
	Observed time.Time
}

// Locations are where the instances of a reading are to be found. Few ask for those of a
// target: a kind that has many keeps what they are made of.
type Locations interface {
	// At returns the location of Instances[i], of any of them. It is not to be modified.
	At(i int) Location
}

// LocationList is locations in the order of Instances.
type LocationList []Location

// At returns the location of Instances[i].
func (l LocationList) At(i int) Location { return l[i] }

// Location is where an instance is to be found: for scraping it, and for
// joining query results by name or address.
type Location struct {
	// Name is the instance's name where it differs from its id.
	Name string
	// Node is the machine it runs on.
	Node string
	// Addresses are host names or IP addresses without port.
	Addresses []string
	// Ports are its ports; a kind with one unnamed port labels it "".
	Ports Ports
	// Labels are the platform's own labels of the instance.
	Labels map[string]string
	// Protected reports whether the platform keeps the instance when the count goes down.
	Protected bool
}

// Samples is the resource use of one target's instances.
type Samples struct {
	Instances []InstanceSample
	// Err is why instances have no sample, where the fleet knows more than that
	// there is none yet; nil when it does not.
	Err error
}

// InstanceSample is the resource use of one instance over a window of time.
type InstanceSample struct {
	// ID is the instance's, as in Reading.Instances.
	ID string
	// At is the end of the window, Window its length (R27).
	At     time.Time
	Window time.Duration
	// Tasks is the use of each task; R26 says what a missing one means.
	Tasks []policy.TaskUsage
}

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
