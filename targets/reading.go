package targets

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// Ref is the name of one target. It is comparable and identifies the target across restarts,
// reloads and processes.
type Ref struct {
	// Fleet is a key of the table fleets in the configuration.
	Fleet string `json:"fleet"`
	// Name is the canonical name of the target inside the fleet: "worker", "project/service", …
	Name string `json:"name"`
}

func (r Ref) String() string { return r.Fleet + "/" + r.Name }

// Reading is the state of one target. Its slices may be shared between readings and must not be
// modified.
type Reading struct {
	// Err is set if this target could not be read, and has one of this package's classes. The other
	// fields are then invalid.
	Err error
	// SpecReplicas is the desired count, which SetReplicas sets.
	SpecReplicas int32
	// StatusReplicas is the observed count: instances that exist and are
	// neither terminal nor terminating.
	StatusReplicas int32
	// Min and Max are bounds that the platform enforces, or nil.
	Min, Max *int32
	// Finite reports whether instances end by themselves. SpecReplicas then falls without a write, and
	// SetReplicas can only raise it, so that Min equals SpecReplicas.
	Finite bool
	// Instances contains all members of the target for R27. A fleet whose platform has no resource
	// requests omits the requests. StartedAt of a Running instance is never zero: if the platform
	// does not report it, it is the time of the first observation.
	Instances []policy.Instance
	// Locations describes where Instances run; nil if the kind does not provide it.
	Locations Locations
	// Version must be passed to SetReplicas. It is empty if the platform has no
	// compare-and-set, and has no meaning outside the fleet.
	Version string
	// Hold is the reason why the count must not be written now, or nil.
	Hold *policy.Hold
	// Notices contains other conditions of the target, at most one per type.
	Notices []policy.Notice
	// Observed is the time of the reading.
	Observed time.Time
}

// NameOf returns the name of Instances[i], or its ID if it has no name.
func (r *Reading) NameOf(i int) string {
	if r.Locations != nil {
		if name := r.Locations.At(i).Name; name != "" {
			return name
		}
	}
	return r.Instances[i].ID
}

// Locations provides the locations of a reading's instances. It is an interface so that kinds
// with many instances can create locations on demand.
type Locations interface {
	// At returns the location of Instances[i]. It must not be modified.
	At(i int) Location
}

// LocationList contains locations in the order of Instances.
type LocationList []Location

// At returns the location of Instances[i].
func (l LocationList) At(i int) Location { return l[i] }

// Location describes how to reach an instance. It is used to scrape the instance, and to join
// query results by name or address.
type Location struct {
	// Name is the instance's name if it differs from the id.
	Name string
	// Node is the host on which the instance runs.
	Node string
	// Addresses contains host names or IP addresses without a port.
	Addresses []string
	// Ports contains the instance's ports; a single unnamed port has the label "".
	Ports Ports
	// Labels contains the platform's labels for the instance.
	Labels map[string]string
	// Limits contains the platform's limits for the whole instance. A resource without a limit, or
	// with a task without a limit, is absent.
	Limits []policy.Amount
	// Protected reports whether a scale-down must not remove the instance.
	Protected bool
	// Failing reports whether the instance failed and has not recovered. Only Loggers set it.
	Failing bool
	// UnreadyReason is the reason why the instance is not ready, such as "paused" or "readiness
	// probe: timeout", or has not been removed yet. It is empty if the instance is ready. A kind
	// passes words of other programs through [Phrase].
	UnreadyReason string
	// HealthOutput is the output of the last health check of an instance that is not ready, as
	// returned by [Phrase]. It is empty if there is none. Like other output of instances, it is only
	// for users that may write.
	HealthOutput string
}

// Endpoint returns the first address of the instance and the number of the port with a label. If
// label is empty, it is the unnamed port, or else the port with the lowest label, and 0 if the
// instance has no ports.
func (l *Location) Endpoint(label string) (host string, port int, err error) {
	if len(l.Addresses) == 0 {
		return "", 0, errors.New("it has no address")
	}
	port, found := l.Ports.Find(label)
	switch {
	case found:
	case label != "" && len(l.Ports) == 0:
		return "", 0, fmt.Errorf("it has no port %q, and no other ports", label)
	case label != "":
		return "", 0, fmt.Errorf("it has no port %q, only: %s", label, strings.Join(l.Ports.Labels(), ", "))
	case len(l.Ports) > 0:
		port = l.Ports[0].Number
	}
	return l.Addresses[0], port, nil
}

// JoinHostPort returns "host:port", or "[host]:port" for an IPv6 address. If port is 0, it returns
// the host alone.
func JoinHostPort(host string, port int) string {
	if port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Samples contains the resource usage of one target's instances.
type Samples struct {
	Instances []InstanceSample
	// Err is the reason why samples are missing; nil if no samples are missing or the reason is
	// unknown.
	Err error
}

// InstanceSample contains the resource usage of one instance over a time window.
type InstanceSample struct {
	// ID is the instance's id.
	ID string
	// At is the end of the window, and Window is its length (R27).
	At     time.Time
	Window time.Duration
	// Tasks contains the usage of each task. For missing tasks, see R26.
	Tasks []policy.TaskUsage
}

// Port is a number at which an instance listens, with a label.
type Port struct {
	// Label is the port's name; empty for a single unnamed port.
	Label string
	// Number is 1 to 65535.
	Number int
}

// Ports belong to one instance, and are sorted by label. A map would need ten times the memory.
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
// controller. The result is negative if a is removed before b. The argument preference is the
// result of comparing the instances by the fleet's own order; it decides between instances of the
// same class. If it is 0, the instance that became ready last is removed first, or, if they are
// unready, the instance that started last. Times are compared in whole seconds, because
// Kubernetes stores them that way.
func CompareForRemoval(a, b *policy.Instance, preference int) int {
	class := RemovalClassOf(a)
	latest := b.StartedAt.Truncate(time.Second).Compare(a.StartedAt.Truncate(time.Second))
	if class == RemoveReady {
		latest = cmp.Or(b.ReadinessChanged.Truncate(time.Second).Compare(a.ReadinessChanged.Truncate(time.Second)), latest)
	}
	return cmp.Or(cmp.Compare(class, RemovalClassOf(b)), preference, latest)
}
