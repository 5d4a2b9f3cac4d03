package drain

import (
	"context"
	"time"

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
