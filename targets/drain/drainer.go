package drain

import (
	"cmp"
	"context"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Instance is what a Drainer gets of an instance.
type Instance struct {
	// Target is the target it is a member of.
	Target targets.Ref `json:"target"`
	// ID is its id on the platform, Name its name where that differs.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Node is the machine it runs on, where that is known.
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
	// Begin stops new work for an instance, and makes it finish what it has.
	Begin(ctx context.Context, instance Instance) error
	// Drained reports whether the instance's work is done.
	Drained(ctx context.Context, instance Instance) (bool, error)
	// Undo gives work to an instance again. It may be called without Begin.
	Undo(ctx context.Context, instance Instance) error
	// Finish clears up after an instance that is gone.
	Finish(ctx context.Context, instance Instance) error
}

// Func is a Drainer whose calls differ by the name of an action alone: "begin",
// "drained", "undo" or "finish". It reports whether the action is done.
type Func func(ctx context.Context, action string, instance Instance) (done bool, err error)

// Begin does the action "begin".
func (f Func) Begin(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "begin", instance)
	return err
}

// Drained does the action "drained".
func (f Func) Drained(ctx context.Context, instance Instance) (bool, error) {
	return f(ctx, "drained", instance)
}

// Undo does the action "undo".
func (f Func) Undo(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "undo", instance)
	return err
}

// Finish does the action "finish".
func (f Func) Finish(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "finish", instance)
	return err
}

// Counter counts the work on instances.
type Counter interface {
	// Allocations returns how many allocations there are on the node of each
	// instance, without those of system jobs, by the instances' ids. An instance
	// whose node is unknown has no entry.
	Allocations(ctx context.Context, instances []Instance) (map[string]int, error)
}

// Kind is a way to drain, declared by its package as the variable Kind and listed in
// package daemon/kinds.
type Kind struct {
	// Name is what the drain of an autoscaler has as its kind.
	Name string
	// Config returns the empty table of a drain, a pointer to a struct with toml tags.
	Config func() Config
	// Counts is set where Drainers are Counters.
	Counts bool
}

// Config is the table of one drain, of one kind.
type Config interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate returns every mistake of a defaulted table, with paths relative to it.
	Validate() []settings.FieldError
	// Build makes the Drainer of a valid table. By is the fleet that a FleetNamer
	// names; nil for others.
	Build(by targets.Fleet) (Drainer, error)
}

// FleetNamer is a Config of a kind that drains by the means of another fleet.
// DrainFleet returns the name of that and the kind it has to be of.
type FleetNamer interface {
	DrainFleet() (name, kind string)
}

// DefaultDeadline is how long a drain may take where Options say nothing.
const DefaultDeadline = 15 * time.Minute

// DefaultInterval is how often a Drainer is called where Options say nothing.
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
	// Interval is the time between calls of Drained, and before the first repetition
	// of a call that failed; 0 means DefaultInterval.
	Interval time.Duration
	// CPU returns the use of cpu in thousandths of a core by instance, for LeastCPU;
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
