package targets

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// Ref is the name of one target. It is comparable and identifies the target across restarts,
// reloads and processes.
type Ref struct {
	// Fleet is the fleet's key in the configuration.
	Fleet string `json:"fleet"`
	// Name is the canonical name of the target inside the fleet: "worker", "project/service", …
	Name string `json:"name"`
}

func (r Ref) String() string { return r.Fleet + "/" + r.Name }

// Reading is the state of one target. Its slices may be shared between readings, and must not be
// modified.
type Reading struct {
	// Err is an error of this package's classes if this target could not be read. The other
	// fields are then invalid.
	Err error
	// SpecReplicas is the desired count, which SetReplicas sets.
	SpecReplicas int32
	// StatusReplicas is the observed count: instances that exist and are
	// neither terminal nor terminating.
	StatusReplicas int32
	// Min and Max are bounds that the platform enforces, or nil.
	Min, Max *int32
	// Instances are all members of the target for R27. A fleet without requests leaves them out.
	// StartedAt of a Running instance is never zero: if the platform does not report it, it is
	// the time of the first observation.
	Instances []policy.Instance
	// Locations are the locations of Instances; nil if the kind does not know them.
	Locations Locations
	// Version is an argument for SetReplicas; empty if the platform has no compare-and-set. It
	// has no meaning outside the fleet.
	Version string
	// Hold is set if the count must not be written.
	Hold *policy.Hold
	// Notices are other conditions of the target, at most one for each type.
	Notices []policy.Notice
	// Observed is the time of the reading.
	Observed time.Time
}

// Locations are the locations of the instances of a reading. It is an interface, because kinds
// with many instances can create locations on demand.
type Locations interface {
	// At returns the location of Instances[i]. It must not be modified.
	At(i int) Location
}

// LocationList is locations in the order of Instances.
type LocationList []Location

// At returns the location of Instances[i].
func (l LocationList) At(i int) Location { return l[i] }

// Location is the location of an instance, for scraping it, and for joining query results by name
// or address.
type Location struct {
	// Name is the instance's name if it differs from the id.
	Name string
	// Node is the host that it runs on.
	Node string
	// Addresses are host names or IP addresses without port.
	Addresses []string
	// Ports are its ports; a single unnamed port has the label "".
	Ports Ports
	// Labels are the platform's labels of the instance.
	Labels map[string]string
	// Protected reports whether a scale-down must not remove the instance.
	Protected bool
}

// Samples is the resource usage of one target's instances.
type Samples struct {
	Instances []InstanceSample
	// Err is the reason for missing samples, if the fleet knows one.
	Err error
}

// InstanceSample is the resource usage of one instance over a time window.
type InstanceSample struct {
	// ID is the instance's id.
	ID string
	// At is the end of the window, Window its length (R27).
	At     time.Time
	Window time.Duration
	// Tasks is the usage of each task; for missing tasks see R26.
	Tasks []policy.TaskUsage
}

// Port is a port of an instance.
type Port struct {
	// Label is its name; empty for a single unnamed port.
	Label string
	// Number is 1 to 65535.
	Number int
}

// Ports are the ports of an instance, sorted by label. A map would take ten times the memory.
type Ports []Port

// Find returns the number of the port with a label; false if there is none.
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

// Labels returns the labels of all ports.
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

// RemovalClass groups instances for a scale-down. The lowest class is removed first.
type RemovalClass int

// The removal classes, in the order of the ReplicaSet controller.
const (
	RemoveFailed RemovalClass = iota
	RemoveTerminating
	RemoveUnknown
	RemovePending
	RemoveUnready
	RemoveReady
)

// RemovalClassOf returns the removal class of an instance.
func RemovalClassOf(i *policy.Instance) RemovalClass {
	switch {
	case i.Phase == policy.PhaseFailed || i.Phase == policy.PhaseSucceeded:
		return RemoveFailed
	case i.Deleting:
		return RemoveTerminating
	case i.Phase == policy.PhaseUnknown:
		return RemoveUnknown
	case i.Phase == policy.PhasePending:
		return RemovePending
	case i.Readiness != policy.ReadinessTrue:
		return RemoveUnready
	}
	return RemoveReady
}

// CompareForRemoval compares two instances of a target in the removal order of the ReplicaSet
// controller: negative if a is removed before b. Preference, the result of a comparison by a
// fleet's own order, decides between instances of the same class. After it, the instance that
// became ready last is removed first, or, for unready instances, the one that started last. Times
// are compared in whole seconds, as Kubernetes stores them.
func CompareForRemoval(a, b *policy.Instance, preference int) int {
	class := RemovalClassOf(a)
	latest := b.StartedAt.Truncate(time.Second).Compare(a.StartedAt.Truncate(time.Second))
	if class == RemoveReady {
		latest = cmp.Or(b.ReadinessChanged.Truncate(time.Second).Compare(a.ReadinessChanged.Truncate(time.Second)), latest)
	}
	return cmp.Or(cmp.Compare(class, RemovalClassOf(b)), preference, latest)
}
