package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// NodeQuery describes the machine of a Nomad node. Nodes are matched by the ids of
// the cloud first, by names next, by addresses last.
type NodeQuery struct {
	// IDs are ids of the machine in its cloud: of an EC2, Compute Engine or Azure
	// instance.
	IDs []string
	// Names are names that the node, or the machine's host, may have.
	Names []string
	// Addresses are IP addresses that it may have.
	Addresses []string
	// Attribute, if not empty, is the one attribute of the node to be compared, with
	// IDs and Names, as "unique.hostname", or "meta.NAME" for the node's meta.
	Attribute string
}

// NodeMatch is the result of a NodeQuery.
type NodeMatch struct {
	// ID is the node's; empty when there is none.
	ID string
	// Err is why several nodes cannot be told apart; nil when they can.
	Err error
}

// machine is what a node is known by.
type machine struct {
	name       string
	attributes map[string]string
	meta       map[string]string
}

// The attributes with a machine's id in its cloud, its names and its address.
var (
	idAttributes = []string{
		"unique.platform.aws.instance-id", "unique.platform.gce.id", "unique.platform.azure.id", "unique.platform.azure.name",
	}
	nameAttributes    = []string{"unique.hostname", "unique.platform.gce.hostname", "unique.platform.azure.name"}
	addressAttributes = []string{"unique.network.ip-address"}
)

const metaPrefix = "meta."

// ranks lists what a machine is known by, the most trustworthy first, each with
// what it may be.
func (q NodeQuery) ranks() []clue {
	if q.Attribute != "" {
		values := slices.Concat(q.IDs, q.Names)
		if key, ok := strings.CutPrefix(q.Attribute, metaPrefix); ok {
			return []clue{{meta: key, values: values}}
		}
		return []clue{{attributes: []string{q.Attribute}, values: values}}
	}
	return []clue{
		{attributes: idAttributes, values: q.IDs},
		{attributes: nameAttributes, name: true, values: q.Names},
		{attributes: addressAttributes, values: q.Addresses},
	}
}

// clue is one way to know a machine.
type clue struct {
	attributes []string
	meta       string
	// name means that the node's own name is compared, too.
	name   bool
	values []string
}

// terms returns the terms of a filter for the clue. It leaves out values that no filter can
// express; ids, names and addresses of machines are none of these.
func (c clue) terms() []string {
	var fields []string
	for _, attribute := range c.attributes {
		fields = append(fields, "Attributes["+strconv.Quote(attribute)+"]")
	}
	switch {
	case c.meta != "":
		fields = append(fields, "Meta["+strconv.Quote(c.meta)+"]")
	case c.name:
		fields = append(fields, "Name")
	}
	var terms []string
	for _, value := range c.values {
		if written, ok := literal(value); ok && value != "" {
			for _, field := range fields {
				terms = append(terms, field+" == "+written)
			}
		}
	}
	return terms
}

// fits reports whether a machine is known by the clue.
func (c clue) fits(m machine) bool {
	is := func(value string) bool { return value != "" && slices.Contains(c.values, value) }
	if slices.ContainsFunc(c.attributes, func(attribute string) bool { return is(m.attributes[attribute]) }) {
		return true
	}
	return c.meta != "" && is(m.meta[c.meta]) || c.name && is(m.name)
}

// FindNodes returns the nodes of machines, in the order of the queries. Each query takes one
// list, and one call for each node in it.
func (f *Fleet) FindNodes(ctx context.Context, queries []NodeQuery) ([]NodeMatch, error) {
	session, err := f.openNodes(ctx)
	matches := make([]NodeMatch, len(queries))
	if err == nil {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(f.config.fetching())
		for i, query := range queries {
			group.Go(func() (err error) {
				matches[i], err = f.findNode(ctx, session, query)
				return err
			})
		}
		err = group.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("find the Nomad nodes of %d machines: %w", len(queries), err)
	}
	return matches, nil
}

// openNodes returns a session for calls about nodes, unless Nomad is to be left
// alone.
func (f *Fleet) openNodes(ctx context.Context) (*session, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	return session, f.backoff.Wait()
}

// nodeScope is that of the fleet's own region; nodes have no namespace.
func (f *Fleet) nodeScope() scope { return scope{region: f.config.Region} }

// findNode returns the node of one machine.
func (f *Fleet) findNode(ctx context.Context, session *session, query NodeQuery) (NodeMatch, error) {
	var terms []string
	for _, c := range query.ranks() {
		terms = append(terms, c.terms()...)
	}
	if len(terms) == 0 {
		return NodeMatch{}, nil
	}
	var stubs []*api.NodeListStub
	err := session.get(ctx, f.nodeScope(), "/v1/nodes", nil, strings.Join(terms, " or "), &stubs)
	found := make([]machine, len(stubs))
	for i := 0; i < len(stubs) && err == nil; i++ {
		found[i], err = f.machine(ctx, session, stubs[i].ID)
	}
	if err != nil {
		return NodeMatch{}, f.nodeError(err, "read")
	}
	return query.match(stubs, found), nil
}

// machine reads what a node is known by: nothing when it is gone by now.
func (f *Fleet) machine(ctx context.Context, session *session, id string) (machine, error) {
	var node api.Node
	if err := session.get(ctx, f.nodeScope(), "/v1/node/"+id, nil, "", &node); err != nil {
		if status, _ := answerOf(err); status == http.StatusNotFound {
			return machine{}, nil
		}
		return machine{}, err
	}
	return machine{name: node.Name, attributes: node.Attributes, meta: node.Meta}, nil
}

// match returns the node that fits best: of several that fit alike the one that is
// ready, of several that are an error.
func (q NodeQuery) match(stubs []*api.NodeListStub, found []machine) NodeMatch {
	for _, c := range q.ranks() {
		var fitting []*api.NodeListStub
		for i, m := range found {
			if c.fits(m) {
				fitting = append(fitting, stubs[i])
			}
		}
		if len(fitting) == 0 {
			continue
		}
		ready := slices.DeleteFunc(slices.Clone(fitting), func(stub *api.NodeListStub) bool { return stub.Status != api.NodeStatusReady })
		if len(ready) > 1 {
			return NodeMatch{Err: fmt.Errorf("%w: the nodes %s and %s have the same ids, names or addresses; name an attribute that tells them apart",
				targets.ErrUnscalable, ready[0].ID, ready[1].ID)}
		}
		newest := slices.MaxFunc(fitting, func(a, b *api.NodeListStub) int {
			return cmp.Or(cmp.Compare(readyRank(a), readyRank(b)), cmp.Compare(a.CreateIndex, b.CreateIndex))
		})
		return NodeMatch{ID: newest.ID}
	}
	return NodeMatch{}
}

func readyRank(stub *api.NodeListStub) int {
	if stub.Status == api.NodeStatusReady {
		return 1
	}
	return 0
}

// What hpad's own drains are known by, in the node's record of its last drain.
const (
	drainedBy = "drained_by"
	ownDrain  = "hpad"
	// drainedIneligible means that the node took no work before the drain either.
	drainedIneligible = "was_ineligible"
)

// shortestDrain is what a drain gets at least: none at all would mean no deadline.
const shortestDrain = time.Second

// DrainNode makes a node take no new work, and stops what it has within so much
// time, as its jobs' migrate blocks say; what is left then is stopped at once. A
// node that is being drained, by whomever, is left alone. IgnoreSystem keeps the
// allocations of system jobs. It returns at once.
func (f *Fleet) DrainNode(ctx context.Context, id string, within time.Duration, ignoreSystem bool) error {
	err := f.changeNode(ctx, id, func(node *api.Node) *api.DrainOptions {
		if node.DrainStrategy != nil {
			return nil
		}
		meta := map[string]string{drainedBy: ownDrain}
		switch ineligible := node.SchedulingEligibility == api.NodeSchedulingIneligible; {
		case ineligible && ownLast(node) && node.LastDrain.Status == api.DrainStatusComplete:
			meta = node.LastDrain.Meta // it is ineligible by the drain that is repeated
		case ineligible:
			meta[drainedIneligible] = "true"
		}
		return &api.DrainOptions{DrainSpec: &api.DrainSpec{Deadline: max(within, shortestDrain), IgnoreSystemJobs: ignoreSystem}, Meta: meta}
	})
	if err != nil {
		return fmt.Errorf("drain Nomad node %s: %w", id, err)
	}
	return nil
}

// ownLast reports whether a node's last drain is hpad's.
func ownLast(node *api.Node) bool {
	return node.LastDrain != nil && node.LastDrain.Meta[drainedBy] == ownDrain
}

// readNode reads a node as it is now.
func (f *Fleet) readNode(ctx context.Context, id string) (*session, *api.Node, error) {
	session, err := f.openNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	var node api.Node
	if err := session.get(ctx, f.nodeScope(), "/v1/node/"+id, nil, "", &node); err != nil {
		return nil, nil, f.nodeError(err, "read")
	}
	return session, &node, nil
}

// changeNode changes the drain of a node as it is now; nil changes nothing.
func (f *Fleet) changeNode(ctx context.Context, id string, change func(node *api.Node) *api.DrainOptions) error {
	session, node, err := f.readNode(ctx, id)
	if err != nil {
		return err
	}
	options := change(node)
	if options == nil {
		return nil
	}
	ctx, cancel := targets.Bounded(ctx, f.config.Timeout)
	defer cancel()
	write := (&api.WriteOptions{Region: f.config.Region, AuthToken: session.token}).WithContext(ctx)
	_, err = session.client.Nodes().UpdateDrainOpts(id, options, write)
	return f.nodeError(explain(ctx, err), "write")
}

// NodeDrained reports whether the drain of a node is through. A node that is gone is
// drained. It is an error when somebody else gave the node work again.
func (f *Fleet) NodeDrained(ctx context.Context, id string) (bool, error) {
	_, node, err := f.readNode(ctx, id)
	switch {
	case errors.Is(err, targets.ErrTargetNotFound):
		return true, nil
	case err == nil && node.DrainStrategy != nil:
		return false, nil
	case err == nil && node.SchedulingEligibility == api.NodeSchedulingIneligible:
		return true, nil
	case err == nil:
		err = fmt.Errorf("%w: somebody else ended the drain and lets the node take work", targets.ErrConflict)
	}
	return false, fmt.Errorf("read the drain of Nomad node %s: %w", id, err)
}

// RestoreNode ends a drain of hpad's, and lets the node take work again if it did
// before. Drains of others, and nodes that are gone, are left alone.
func (f *Fleet) RestoreNode(ctx context.Context, id string) error {
	err := f.changeNode(ctx, id, func(node *api.Node) *api.DrainOptions {
		if !ownLast(node) || node.LastDrain.Status == api.DrainStatusCanceled || node.SchedulingEligibility == api.NodeSchedulingEligible {
			return nil
		}
		return &api.DrainOptions{MarkEligible: node.LastDrain.Meta[drainedIneligible] == "", Meta: node.LastDrain.Meta}
	})
	if err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
		return fmt.Errorf("let Nomad node %s take work again: %w", id, err)
	}
	return nil
}

// PurgeNode takes a node out of Nomad's books, whose machine is gone. One that is
// not there is no error.
func (f *Fleet) PurgeNode(ctx context.Context, id string) error {
	session, err := f.openNodes(ctx)
	if err == nil {
		ctx, cancel := targets.Bounded(ctx, f.config.Timeout)
		defer cancel()
		options := (&api.QueryOptions{Region: f.config.Region, AuthToken: session.token}).WithContext(ctx)
		_, _, err = session.client.Nodes().Purge(id, options)
		err = f.nodeError(explain(ctx, err), "write")
	}
	if err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
		return fmt.Errorf("purge Nomad node %s: %w", id, err)
	}
	return nil
}

// NodeAllocations returns how many allocations run, or are about to, on each node
// that has any, without those of system jobs, in one call. Those of namespaces that
// the token may not read are not among them.
func (f *Fleet) NodeAllocations(ctx context.Context) (map[string]int, error) {
	session, err := f.openNodes(ctx)
	counts := map[string]int{}
	if err == nil {
		at := scope{region: f.config.Region, namespace: "*"}
		living := list{path: "/v1/allocations", filter: livingAllocs, params: map[string]string{"task_states": "false"}, size: usual.page}
		_, err = readPages(ctx, session, at, living, func(alloc *allocStub) {
			if alloc.JobType != api.JobTypeSystem && alloc.JobType != api.JobTypeSysbatch {
				counts[alloc.NodeID]++
			}
		})
		err = f.nodeError(err, "read")
	}
	if err != nil {
		return nil, fmt.Errorf("count the allocations of Nomad nodes: %w", err)
	}
	return counts, nil
}

// sayingNoNode is what Nomad's error for an unknown node is recognized by.
const sayingNoNode = "node not found"

// nodeError puts an error of a call about nodes into one of the classes of package
// targets, and names the right that is missing.
func (f *Fleet) nodeError(err error, right string) error {
	if err == nil {
		return nil
	}
	if status, body := answerOf(err); status >= http.StatusInternalServerError && strings.Contains(body, sayingNoNode) {
		return fmt.Errorf("%w: %w", targets.ErrTargetNotFound, &answerError{status: status, body: body})
	}
	err = readError(err)
	if errors.Is(err, targets.ErrForbidden) {
		return fmt.Errorf("%w; the token needs node { policy = %q }", err, right)
	}
	if errors.Is(err, targets.ErrThrottled) {
		f.recordError(err)
	}
	return err
}
