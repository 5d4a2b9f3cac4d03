package drain

import (
	"cmp"
	"context"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Instance describes an instance to a Drainer.
type Instance struct {
	// Target identifies the group that contains the instance.
	Target targets.Ref `json:"target"`
	// ID is the instance's id on the platform, and Name is its name if that differs.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Node is the host on which it runs; empty if unknown.
	Node string `json:"node,omitempty"`
	// Addresses are host names or IP addresses without port.
	Addresses []string `json:"addresses,omitempty"`
	// Labels are the platform's labels of the instance.
	Labels map[string]string `json:"labels,omitempty"`
	// Deadline is the end of the drain.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Drainer moves work away from instances. It is safe for concurrent use. Calls are repeated after
// errors and restarts, so they must be idempotent. No call waits for the work to end.
type Drainer interface {
	// Begin stops new work for an instance and starts the drain.
	Begin(ctx context.Context, instance Instance) error
	// Drained reports whether the instance has no work left.
	Drained(ctx context.Context, instance Instance) (bool, error)
	// Undo allows new work again. It may be called without Begin.
	Undo(ctx context.Context, instance Instance) error
	// Finish cleans up after an instance is gone.
	Finish(ctx context.Context, instance Instance) error
}

// Func is a Drainer that handles all calls with one function. The action is "begin", "drained",
// "undo" or "finish". The function reports whether the action is complete.
type Func func(ctx context.Context, action string, instance Instance) (done bool, err error)

// Begin performs the action "begin".
func (f Func) Begin(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "begin", instance)
	return err
}

// Drained performs the action "drained".
func (f Func) Drained(ctx context.Context, instance Instance) (bool, error) {
	return f(ctx, "drained", instance)
}

// Undo performs the action "undo".
func (f Func) Undo(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "undo", instance)
	return err
}

// Finish performs the action "finish".
func (f Func) Finish(ctx context.Context, instance Instance) error {
	_, err := f(ctx, "finish", instance)
	return err
}

// Counter counts the Nomad allocations of instances.
type Counter interface {
	// Allocations returns the number of allocations on the node of each instance, without system
	// jobs, by instance id. An instance with an unknown node has no entry.
	Allocations(ctx context.Context, instances []Instance) (map[string]int, error)
}

// Kind describes one kind of drain. Its package declares it as the variable Kind, and package
// daemon/kinds lists it.
type Kind struct {
	// Name is the value of the key "kind" in a drain table.
	Name string
	// Config returns an empty drain table: a pointer to a struct with toml tags.
	Config func() Config
	// Counts reports whether the Drainers are Counters.
	Counts bool
}

// Config is the table of one drain.
type Config interface {
	// SetDefaults sets missing values to their defaults.
	SetDefaults()
	// Validate returns all errors in the table, with paths relative to it. It is called after
	// SetDefaults.
	Validate() []settings.FieldError
	// Build builds a Drainer from a valid table. The argument by is the fleet that a FleetNamer
	// names, or nil.
	Build(by targets.Fleet) (Drainer, error)
}

// FleetNamer is a Config whose drains need a second fleet. DrainFleet returns the fleet's name
// and its required kind.
type FleetNamer interface {
	DrainFleet() (name, kind string)
}

// defaultDeadline is the default of Options.Deadline.
const defaultDeadline = 15 * time.Minute

// defaultInterval is the default of Options.Interval.
const defaultInterval = 5 * time.Second

// Expiry is the action at the deadline of a drain. The zero Expiry is Terminate.
type Expiry string

// The actions at the deadline.
const (
	// Terminate removes the instance with its remaining work.
	Terminate Expiry = "terminate"
	// Undo returns the instance to service.
	Undo Expiry = "undo"
)

// Options are the settings for scale-downs of one target. The zero Options leave the choice of
// instances to the platform.
type Options struct {
	// Victims is the order in which instances are removed. With a Drainer, Platform means Oldest,
	// because the instances must be known before the removal.
	Victims Order
	// Drainer drains instances before their removal; nil removes them immediately.
	Drainer Drainer
	// Deadline is the time limit for a drain, measured from the scale-down decision; 0 means
	// 15 minutes. A new value does not apply to active operations.
	Deadline time.Duration
	// Expiry is the action at the deadline.
	Expiry Expiry
	// Interval is the time between calls to Drained, and before the first retry of a failed call; 0
	// means 5 seconds.
	Interval time.Duration
	// CPU returns the cpu usage of each instance in thousandths of a core, for LeastCPU; nil if the
	// autoscaler has no cpu metric.
	CPU func(ctx context.Context, ref targets.Ref) (map[string]int64, error)
}

func (o Options) defaulted() Options {
	if o.Drainer != nil && !o.Victims.Named() {
		o.Victims = Oldest
	}
	o.Deadline = cmp.Or(o.Deadline, defaultDeadline)
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	return o
}
