package drain

import (
	"cmp"
	"context"
	"time"

	"github.com/hpad/hpad/targets"
)

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
