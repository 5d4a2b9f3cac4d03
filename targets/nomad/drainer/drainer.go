// Package drainer drains the Nomad nodes that run on instances: they take no new
// work, what runs moves to other nodes within a deadline, and nodes whose instances
// are gone are purged.
package drainer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
)

// Nodes are the nodes of one Nomad region: a nomad.Fleet.
type Nodes interface {
	// FindNodes returns the nodes of machines, in the order of the queries.
	FindNodes(ctx context.Context, queries []nomad.NodeQuery) ([]nomad.NodeMatch, error)
	// DrainNode makes a node take no new work, and stops what it has within a time.
	DrainNode(ctx context.Context, id string, within time.Duration, ignoreSystem bool) error
	// NodeDrained reports whether the drain of a node is through.
	NodeDrained(ctx context.Context, id string) (bool, error)
	// RestoreNode lets a node take work again.
	RestoreNode(ctx context.Context, id string) error
	// PurgeNode takes a node out of Nomad's books.
	PurgeNode(ctx context.Context, id string) error
	// NodeAllocations returns how many allocations run on each node that has any.
	NodeAllocations(ctx context.Context) (map[string]int, error)
}

var _ Nodes = (*nomad.Fleet)(nil)

// Drainer is a drain.Drainer and drain.Counter. It is safe for concurrent use.
type Drainer struct {
	nodes  Nodes
	config Config

	mu sync.Mutex
	// known are the nodes of instances, by the instances' ids; an instance never
	// changes its node's id while it is drained.
	known map[instanceKey]string
}

var (
	_ drain.Drainer = (*Drainer)(nil)
	_ drain.Counter = (*Drainer)(nil)
)

type instanceKey struct {
	target targets.Ref
	id     string
}

func keyOf(instance drain.Instance) instanceKey {
	return instanceKey{target: instance.Target, id: instance.ID}
}

// New returns a drainer of the nodes of the fleet that c names.
func New(nodes Nodes, c Config) *Drainer {
	return &Drainer{nodes: nodes, config: c, known: map[instanceKey]string{}}
}

// errNoNode means that an instance has no Nomad node.
var errNoNode = errors.New("no Nomad node has the instance's id, name or address; name the node attribute that has it, or start the Nomad client there")

// graceShare is which part of the time is left for what Nomad stops by force at its
// own deadline, at most longestGrace.
const (
	graceShare   = 10
	longestGrace = 30 * time.Second
)

// Begin makes the instance's node ineligible and drains it, by a deadline that is a
// little before the instance's own.
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
	return d.forget(instance, d.nodes.DrainNode(ctx, node, within, d.config.IgnoreSystemJobs))
}

// Drained reports whether the node has nothing left to run.
func (d *Drainer) Drained(ctx context.Context, instance drain.Instance) (bool, error) {
	node, err := d.node(ctx, instance)
	if err != nil {
		return false, err
	}
	if node == "" { // it was there when the drain began, so Nomad has forgotten it
		return true, nil
	}
	return d.nodes.NodeDrained(ctx, node)
}

// Undo ends the drain and makes the node eligible again, if it was before.
func (d *Drainer) Undo(ctx context.Context, instance drain.Instance) error {
	node, err := d.node(ctx, instance)
	if err != nil || node == "" {
		return err
	}
	return d.forget(instance, d.nodes.RestoreNode(ctx, node))
}

// Finish purges the node of an instance that is gone.
func (d *Drainer) Finish(ctx context.Context, instance drain.Instance) error {
	if d.config.KeepNodes {
		return nil
	}
	node, err := d.node(ctx, instance)
	if err != nil || node == "" {
		return err
	}
	if err := d.nodes.PurgeNode(ctx, node); err != nil {
		return err
	}
	d.lose(instance)
	return nil
}

// forget forgets the node of an instance after an error that it is gone, so that it
// is looked for again.
func (d *Drainer) forget(instance drain.Instance, err error) error {
	if errors.Is(err, targets.ErrTargetNotFound) {
		d.lose(instance)
	}
	return err
}

// lose forgets the node of an instance.
func (d *Drainer) lose(instance drain.Instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, keyOf(instance))
}

// node returns the node of an instance; empty when it has none.
func (d *Drainer) node(ctx context.Context, instance drain.Instance) (string, error) {
	matches, err := d.find(ctx, []drain.Instance{instance})
	if err != nil {
		return "", err
	}
	return matches[0].ID, matches[0].Err
}

// maxKnown bounds what is remembered of instances: it begins anew when that is
// reached.
const maxKnown = 20000

// find returns the nodes of instances, in their order.
func (d *Drainer) find(ctx context.Context, instances []drain.Instance) ([]nomad.NodeMatch, error) {
	matches := make([]nomad.NodeMatch, len(instances))
	var queries []nomad.NodeQuery
	var unknown []int
	d.mu.Lock()
	for i, instance := range instances {
		if matches[i].ID = d.known[keyOf(instance)]; matches[i].ID == "" {
			queries = append(queries, d.query(instance))
			unknown = append(unknown, i)
		}
	}
	d.mu.Unlock()
	if len(queries) == 0 {
		return matches, nil
	}
	found, err := d.nodes.FindNodes(ctx, queries)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnown {
		clear(d.known)
	}
	for n, i := range unknown {
		matches[i] = found[n]
		if found[n].Err != nil {
			matches[i].Err = fmt.Errorf("find the Nomad node of instance %s: %w", instances[i].ID, found[n].Err)
		} else if found[n].ID != "" {
			d.known[keyOf(instances[i])] = found[n].ID
		}
	}
	return matches, nil
}

// query returns what an instance's node is known by.
func (d *Drainer) query(instance drain.Instance) nomad.NodeQuery {
	query := nomad.NodeQuery{IDs: []string{instance.ID}, Names: []string{instance.ID}, Addresses: instance.Addresses, Attribute: d.config.NodeAttribute}
	for _, name := range []string{instance.Name, instance.Node} {
		if name != "" {
			query.Names = append(query.Names, name)
		}
	}
	return query
}

// Allocations returns how many allocations run on the nodes of instances, without
// those of system jobs.
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
	var empty []drain.Instance
	for i, match := range matches {
		if match.ID != "" && counts[match.ID] > 0 {
			of[instances[i].ID] = counts[match.ID]
		} else {
			empty = append(empty, instances[i])
		}
	}
	// A client that lost its state has another node by now, which may be at work.
	for _, instance := range empty {
		d.lose(instance)
	}
	matches, err = d.find(ctx, empty)
	if err != nil {
		return nil, err
	}
	for i, match := range matches {
		if match.ID != "" {
			of[empty[i].ID] = counts[match.ID]
		}
	}
	return of, nil
}

// Config is how the nodes of instances are drained.
type Config struct {
	// Fleet is the fleet of kind "nomad" whose nodes they are.
	Fleet string `toml:"fleet"`
	// NodeAttribute is the attribute of nodes, or "meta.NAME", that has the
	// instance's id or name; empty looks for what clouds, names and addresses tell.
	NodeAttribute string `toml:"node_attribute"`
	// IgnoreSystemJobs lets system jobs run on until the instance is terminated.
	IgnoreSystemJobs bool `toml:"ignore_system_jobs"`
	// KeepNodes leaves the nodes of terminated instances to Nomad's own clearing up.
	KeepNodes bool `toml:"keep_nodes"`
}

// SetDefaults fills in what was not given, which is nothing.
func (*Config) SetDefaults() {}

// Validate returns every mistake, with paths relative to the table.
func (c *Config) Validate() []settings.FieldError {
	if c.Fleet == "" {
		return []settings.FieldError{{Field: "fleet", Detail: `is required: the name of the fleet of kind "nomad" whose nodes run on the instances`}}
	}
	return nil
}

// Kind is the kind of drains of Nomad nodes.
var Kind = drain.Kind{Name: nomad.Kind.Name, Config: func() drain.Config { return new(Config) }, Counts: true}

// Build makes a drainer of the fleet's nodes.
func (c *Config) Build(by targets.Fleet) (drain.Drainer, error) {
	nodes, ok := by.(Nodes)
	if !ok {
		return nil, fmt.Errorf("fleet %q has no nodes to drain", c.Fleet)
	}
	return New(nodes, *c), nil
}

// DrainFleet returns the fleet whose nodes are drained.
func (c *Config) DrainFleet() (name, kind string) { return c.Fleet, nomad.Kind.Name }
