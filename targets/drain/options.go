package drain

import (
	"cmp"
	"context"
	"time"

	"github.com/hpad/hpad/targets"
)

// DefaultDeadline is how long a drain may take where Options say nothing.
const DefaultDeadline = 15 * time.Minute

// DefaultInterval is how often a Drainer is asked where Options say nothing.
const DefaultInterval = 5 * time.Second

// Expiry is what becomes of an instance that is not drained by its deadline. The
// zero Expiry is Terminate.
type Expiry string

// What happens at the deadline.
const (
	// Terminate takes the instance with the work it has left.
	Terminate Expiry = "terminate"
	// Undo gives the instance its work back, and the count stays as it was.
	Undo Expiry = "undo"
)

// Options are what one target asks of its scale-downs. The zero Options leave
// everything to the platform.
type Options struct {
	// Victims is the order in which instances are taken. With a Drainer, and no
	// order that is Named, it is Oldest: what is to be drained has to be known.
	Victims Order
	// Drainer takes the work of instances away before they are removed; nil means
	// that they are removed at once.
	Drainer Drainer
	// Deadline is how long a drain may take, from the decision on; 0 means
	// DefaultDeadline. An operation keeps the one that it began with.
	Deadline time.Duration
	// Expiry is what happens at the deadline.
	Expiry Expiry
	// Interval is how often the Drainer is asked whether an instance is drained,
	// and how soon it is asked again after its first failure; 0 means
	// DefaultInterval.
	Interval time.Duration
	// CPU answers the use of cpu in thousandths of a core by instance, for LeastCPU;
	// nil means that the inner fleet's own samples are taken, where it has any.
	CPU func(ctx context.Context, ref targets.Ref) (map[string]int64, error)
}

// defaulted returns the options with their defaults.
func (o Options) defaulted() Options {
	if o.Drainer != nil && !o.Victims.Named() {
		o.Victims = Oldest
	}
	o.Deadline = cmp.Or(o.Deadline, DefaultDeadline)
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	return o
}

// Instance is what a Drainer is told of an instance.
type Instance struct {
	// Target is the target it is a member of.
	Target targets.Ref `json:"target"`
	// ID is its id on the platform, Name its name where that differs.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Node is the machine it runs on, where the platform tells.
	Node string `json:"node,omitempty"`
	// Addresses are host names or IP addresses without port.
	Addresses []string `json:"addresses,omitempty"`
	// Labels are the platform's own labels of the instance.
	Labels map[string]string `json:"labels,omitempty"`
	// Deadline is when it must be drained.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Drainer takes the work of instances away. It is safe for concurrent use. Each
// call may be repeated, also after a restart, and must then change nothing more;
// none waits for work to end. An error is tried again later.
type Drainer interface {
	// Begin stops the giving of work to an instance, and asks it to finish what it
	// has.
	Begin(ctx context.Context, instance Instance) error
	// Drained says whether the instance's work is done.
	Drained(ctx context.Context, instance Instance) (bool, error)
	// Undo gives work to an instance again. It may be called without Begin.
	Undo(ctx context.Context, instance Instance) error
	// Finish clears up after an instance that is gone.
	Finish(ctx context.Context, instance Instance) error
}

// Counter counts the work on instances.
type Counter interface {
	// Allocations answers how many allocations there are on the node of each
	// instance, without those of system jobs, by the instances' ids. An instance
	// whose node is not known has no entry.
	Allocations(ctx context.Context, instances []Instance) (map[string]int, error)
}

// Inner is the fleet that is wrapped.
type Inner interface {
	targets.Fleet
	targets.Remover
}
