// Package drainer drains the Nomad nodes of instances: it makes them ineligible, migrates their
// allocations within a deadline, and purges the nodes of removed instances.
package drainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
)

// nodes accesses the nodes of one Nomad region. [nomad.Fleet] implements it.
type nodes interface {
	// FindNodes returns the matching node for each query, in the same order.
	FindNodes(ctx context.Context, queries []nomad.NodeQuery) ([]nomad.NodeMatch, error)
	// DrainNode makes a node ineligible and drains it within the given time.
	DrainNode(ctx context.Context, id string, within time.Duration, ignoreSystem bool) error
	// NodeDrained reports whether the drain of a node is complete.
	NodeDrained(ctx context.Context, id string) (bool, error)
	// RestoreNode makes a node eligible again.
	RestoreNode(ctx context.Context, id string) error
	// PurgeNode removes a node from Nomad.
	PurgeNode(ctx context.Context, id string) error
	// NodeAllocations returns the number of allocations by node ID. It omits nodes without
	// allocations.
	NodeAllocations(ctx context.Context) (map[string]int, error)
}

var _ nodes = (*nomad.Fleet)(nil)

// Drainer is a drain.Drainer and drain.Counter. It is safe for concurrent use.
type Drainer struct {
	nodes  nodes
	config Config
}

var (
	_ drain.Drainer = (*Drainer)(nil)
	_ drain.Counter = (*Drainer)(nil)
)

// New returns a drainer for the nodes of a fleet.
func New(nodes nodes, c Config) *Drainer { return &Drainer{nodes: nodes, config: c} }

var errNoNode = errors.New("no Nomad node matches the instance's ID, name or address; set node_attribute, or start a Nomad client on the instance")

// Nomad's drain deadline is before the instance's deadline, so that Nomad has time to kill the
// remaining allocations: 1/graceShare of the remaining time, and at most longestGrace.
const (
	graceShare   = 10
	longestGrace = 30 * time.Second
)

// Begin drains the instance's node, with a deadline shortly before the instance's deadline.
func (d *Drainer) Begin(ctx context.Context, instance drain.Instance) error {
	node, err := d.node(ctx, instance)
	if err != nil {
		return err
	}
	if node == "" {
		return fmt.Errorf("drain instance %s: %w", instance.ID, errNoNode)
	}
	within := time.Until(instance.Deadline)
	within -= min(within/graceShare, longestGrace)
	return d.nodes.DrainNode(ctx, node, within, d.config.IgnoreSystemJobs)
}

// Drained reports whether the node has no allocations left.
func (d *Drainer) Drained(ctx context.Context, instance drain.Instance) (bool, error) {
	node, err := d.node(ctx, instance)
	if err != nil {
		return false, err
	}
	if node == "" { // it existed when the drain began, so it was purged
		return true, nil
	}
	return d.nodes.NodeDrained(ctx, node)
}

// Undo ends the drain and makes the node eligible again, if it was eligible before.
func (d *Drainer) Undo(ctx context.Context, instance drain.Instance) error {
	node, err := d.node(ctx, instance)
	if err != nil || node == "" {
		return err
	}
	return d.nodes.RestoreNode(ctx, node)
}

// Finish purges the node of a removed instance.
func (d *Drainer) Finish(ctx context.Context, instance drain.Instance) error {
	if d.config.KeepNodes {
		return nil
	}
	node, err := d.node(ctx, instance)
	if err != nil || node == "" {
		return err
	}
	return d.nodes.PurgeNode(ctx, node)
}

func (d *Drainer) node(ctx context.Context, instance drain.Instance) (string, error) {
	matches, err := d.find(ctx, []drain.Instance{instance})
	if err != nil {
		return "", err
	}
	return matches[0].ID, matches[0].Err
}

func (d *Drainer) find(ctx context.Context, instances []drain.Instance) ([]nomad.NodeMatch, error) {
	queries := make([]nomad.NodeQuery, len(instances))
	for i, instance := range instances {
		queries[i] = d.query(instance)
	}
	matches, err := d.nodes.FindNodes(ctx, queries)
	for i := range matches {
		if matches[i].Err != nil {
			matches[i].Err = fmt.Errorf("find the Nomad node of instance %s: %w", instances[i].ID, matches[i].Err)
		}
	}
	return matches, err
}

func (d *Drainer) query(instance drain.Instance) nomad.NodeQuery {
	query := nomad.NodeQuery{IDs: []string{instance.ID}, Names: []string{instance.ID}, Addresses: instance.Addresses, Attribute: d.config.NodeAttribute}
	for _, name := range []string{instance.Name, instance.Node} {
		if name != "" {
			query.Names = append(query.Names, name)
		}
	}
	return query
}

// Allocations returns the number of allocations on the nodes of instances, without system jobs.
func (d *Drainer) Allocations(ctx context.Context, instances []drain.Instance) (map[string]int, error) {
	matches, err := d.find(ctx, instances)
	if err != nil {
		return nil, err
	}
	counts, err := d.nodes.NodeAllocations(ctx)
	if err != nil {
		return nil, err
	}
	of := make(map[string]int, len(instances))
	for i, match := range matches {
		if match.ID != "" {
			of[instances[i].ID] = counts[match.ID]
		}
	}
	return of, nil
}

// Config is the [drain] table of kind "nomad".
type Config struct {
	// Fleet is the name of the fleet of kind "nomad" that contains the nodes.
	Fleet string `toml:"fleet" required:"the name of the fleet of kind \"nomad\" whose nodes run on the instances"`
	// NodeAttribute is the attribute of nodes, or "meta.NAME", that contains the instance's id or
	// name; empty compares cloud ids, names and addresses.
	NodeAttribute string `toml:"node_attribute"`
	// IgnoreSystemJobs keeps system jobs running until the instance is terminated.
	IgnoreSystemJobs bool `toml:"ignore_system_jobs"`
	// KeepNodes leaves the nodes of terminated instances to Nomad's garbage collection.
	KeepNodes bool `toml:"keep_nodes"`
}

// SetDefaults has no effect: there are no defaults.
func (*Config) SetDefaults() {}

// Validate returns all errors, with paths relative to the table.
func (c *Config) Validate() []settings.FieldError { return settings.Validate(c) }

// Kind is the drain kind "nomad".
var Kind = drain.Kind{Name: nomad.Kind.Name, Config: func() drain.Config { return new(Config) }, Counts: true}

// Build builds a drainer.
func (c *Config) Build(by targets.Fleet) (drain.Drainer, error) {
	nodes, ok := by.(nodes)
	if !ok {
		return nil, fmt.Errorf("fleet %q has no nodes to drain", c.Fleet)
	}
	return New(nodes, *c), nil
}

// DrainFleet returns the fleet of the drained nodes.
func (c *Config) DrainFleet() (name, kind string) { return c.Fleet, nomad.Kind.Name }
