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

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// NodeQuery describes the host of a Nomad node. Cloud ids are compared first, then names, then
// addresses.
type NodeQuery struct {
	// IDs are the instance's ids in EC2, Compute Engine or Azure.
	IDs []string
	// Names are possible names of the node or its host.
	Names []string
	// Addresses are possible IP addresses of the node.
	Addresses []string
	// Attribute is the only node attribute that is compared with IDs and Names, such as
	// "unique.hostname", or "meta.NAME" for the node's meta; empty compares the default
	// attributes.
	Attribute string
}

// NodeMatch is the result of a NodeQuery.
type NodeMatch struct {
	// ID is the node ID; "" if no node matches.
	ID string
	// Err is set if several nodes match equally well.
	Err error
}

// The attributes with the cloud id, the names and the address of a host.
var (
	idAttributes = []string{
		"unique.platform.aws.instance-id", "unique.platform.gce.id", "unique.platform.azure.id", "unique.platform.azure.name",
	}
	nameAttributes    = []string{"unique.hostname", "unique.platform.gce.hostname", "unique.platform.azure.name"}
	addressAttributes = []string{"unique.network.ip-address"}
)

const metaPrefix = "meta."

// matchers returns the ways to identify a host, the most reliable first.
func (q NodeQuery) matchers() []nodeMatcher {
	if q.Attribute != "" {
		values := slices.Concat(q.IDs, q.Names)
		if key, ok := strings.CutPrefix(q.Attribute, metaPrefix); ok {
			return []nodeMatcher{{meta: key, values: values}}
		}
		return []nodeMatcher{{attributes: []string{q.Attribute}, values: values}}
	}
	return []nodeMatcher{
		{attributes: idAttributes, values: q.IDs},
		{attributes: nameAttributes, name: true, values: q.Names},
		{attributes: addressAttributes, values: q.Addresses},
	}
}

type nodeMatcher struct {
	attributes []string
	meta       string
	// name reports whether the node name is compared as well.
	name   bool
	values []string
}

// filter returns a list filter for the nodes that match; "" if no node can match.
func (c nodeMatcher) filter() string {
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
	values := slices.DeleteFunc(slices.Clone(c.values), func(value string) bool { return value == "" })
	var terms []string
	for _, field := range fields {
		if term := filterAll(field, values, longestFilter/len(fields)); term != "" {
			terms = append(terms, term)
		}
	}
	return strings.Join(terms, " or ")
}

// FindNodes returns the Nomad nodes of hosts, in the order of the queries. Each query makes up to
// three list calls.
func (f *Fleet) FindNodes(ctx context.Context, queries []NodeQuery) ([]NodeMatch, error) {
	session, err := f.open(ctx)
	matches := make([]NodeMatch, len(queries))
	if err == nil {
		group, ctx := guard.WithContext(ctx)
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
		return nil, fmt.Errorf("find the Nomad nodes of %d hosts: %w", len(queries), err)
	}
	return matches, nil
}

// nodeScope returns the fleet's region; nodes have no namespace.
func (f *Fleet) nodeScope() scope { return scope{region: f.config.Region} }

// findNode returns the node that the most reliable matcher finds.
func (f *Fleet) findNode(ctx context.Context, session *session, query NodeQuery) (NodeMatch, error) {
	for _, matcher := range query.matchers() {
		filter := matcher.filter()
		if filter == "" {
			continue
		}
		var stubs []*api.NodeListStub
		if err := session.get(ctx, f.nodeScope(), "/v1/nodes", nil, filter, &stubs); err != nil {
			return NodeMatch{}, f.nodeError(err, "read")
		}
		if len(stubs) > 0 {
			return newestReady(stubs), nil
		}
	}
	return NodeMatch{}, nil
}

// newestReady returns the ready node, or the newest node if none is ready. It returns an error if
// several nodes are ready.
func newestReady(stubs []*api.NodeListStub) NodeMatch {
	ready := func(stub *api.NodeListStub) int {
		if stub.Status == api.NodeStatusReady {
			return 1
		}
		return 0
	}
	slices.SortFunc(stubs, func(a, b *api.NodeListStub) int {
		return cmp.Or(cmp.Compare(ready(b), ready(a)), cmp.Compare(b.CreateIndex, a.CreateIndex))
	})
	if len(stubs) > 1 && ready(stubs[1]) == 1 {
		return NodeMatch{Err: fmt.Errorf("%w: the nodes %s and %s have the same ids, names or addresses; set node_attribute to an attribute that differs",
			targets.ErrUnscalable, stubs[0].ID, stubs[1].ID)}
	}
	return NodeMatch{ID: stubs[0].ID}
}

// The keys and values in the metadata of a node's last drain that identify hpad's own drains.
const (
	drainedBy = "drained_by"
	ownDrain  = "hpad"
	// drainedIneligible records that the node was ineligible before the drain.
	drainedIneligible = "was_ineligible"
)

// shortestDrain is the minimum deadline of a drain, because 0 means no deadline.
const shortestDrain = time.Second

// DrainNode makes a node ineligible and starts a drain with a deadline, at which Nomad kills the
// remaining allocations. It does not change an active drain. If ignoreSystem is true, the drain
// does not stop the allocations of system jobs.
func (f *Fleet) DrainNode(ctx context.Context, id string, within time.Duration, ignoreSystem bool) error {
	err := f.changeNode(ctx, id, func(node *api.Node) *api.DrainOptions {
		if node.DrainStrategy != nil {
			return nil
		}
		meta := map[string]string{drainedBy: ownDrain}
		switch ineligible := node.SchedulingEligibility == api.NodeSchedulingIneligible; {
		case ineligible && ownLast(node) && node.LastDrain.Status == api.DrainStatusComplete:
			meta = node.LastDrain.Meta // an earlier call made the node ineligible
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

func ownLast(node *api.Node) bool {
	return node.LastDrain != nil && node.LastDrain.Meta[drainedBy] == ownDrain
}

func (f *Fleet) readNode(ctx context.Context, id string) (*session, *api.Node, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	var node api.Node
	if err := session.get(ctx, f.nodeScope(), "/v1/node/"+id, nil, "", &node); err != nil {
		return nil, nil, f.nodeError(err, "read")
	}
	return session, &node, nil
}

// changeNode sets the drain of a node to the result of change, unless that is nil.
func (f *Fleet) changeNode(ctx context.Context, id string, change func(node *api.Node) *api.DrainOptions) error {
	session, node, err := f.readNode(ctx, id)
	if err != nil {
		return err
	}
	options := change(node)
	if options == nil {
		return nil
	}
	ctx, cancel := targets.WithCallTimeout(ctx, f.config.Timeout)
	defer cancel()
	write := (&api.WriteOptions{Region: f.config.Region, AuthToken: session.token}).WithContext(ctx)
	_, err = session.client.Nodes().UpdateDrainOpts(id, options, write)
	return f.nodeError(explain(ctx, err), "write")
}

// NodeDrained reports whether the drain of a node is complete. A missing node is considered
// drained. NodeDrained returns an error if an external writer has made the node eligible again.
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
		err = fmt.Errorf("%w: an external writer ended the drain and made the node eligible", targets.ErrConflict)
	}
	return false, fmt.Errorf("read the drain of Nomad node %s: %w", id, err)
}

// RestoreNode ends a drain that hpad started, and makes the node eligible if it was eligible
// before. It ignores other drains and missing nodes.
func (f *Fleet) RestoreNode(ctx context.Context, id string) error {
	err := f.changeNode(ctx, id, func(node *api.Node) *api.DrainOptions {
		if !ownLast(node) || node.LastDrain.Status == api.DrainStatusCanceled || node.SchedulingEligibility == api.NodeSchedulingEligible {
			return nil
		}
		return &api.DrainOptions{MarkEligible: node.LastDrain.Meta[drainedIneligible] == "", Meta: node.LastDrain.Meta}
	})
	if err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
		return fmt.Errorf("restore Nomad node %s: %w", id, err)
	}
	return nil
}

// PurgeNode removes the node of a removed host from Nomad. It ignores missing nodes.
func (f *Fleet) PurgeNode(ctx context.Context, id string) error {
	session, err := f.open(ctx)
	if err == nil {
		ctx, cancel := targets.WithCallTimeout(ctx, f.config.Timeout)
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

// NodeAllocations returns the number of allocations by node ID, excluding system jobs, with one
// list call. It omits nodes without allocations, and cannot count allocations in namespaces that
// the token may not read.
func (f *Fleet) NodeAllocations(ctx context.Context) (map[string]int, error) {
	session, err := f.open(ctx)
	counts := map[string]int{}
	if err == nil {
		at := scope{region: f.config.Region, namespace: "*"}
		living := list{path: "/v1/allocations", filter: livingAllocs, params: map[string]string{"task_states": "false"}, size: defaultLimits.page}
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

const textNoNode = "node not found"

// nodeError converts the error of a call about nodes to an error class of package targets, and
// adds the missing permission.
func (f *Fleet) nodeError(err error, right string) error {
	if err == nil {
		return nil
	}
	if status, body := responseOf(err); status >= http.StatusInternalServerError && strings.Contains(body, textNoNode) {
		return fmt.Errorf("%w: %w", targets.ErrTargetNotFound, &responseError{status: status, body: body})
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
