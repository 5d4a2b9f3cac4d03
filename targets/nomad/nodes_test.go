package nomad

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// pool is a fake Nomad server that supports only nodes.
type pool struct {
	rival targettest.Rival

	mu    sync.Mutex
	nodes map[string]*api.Node
	// refuse is the prefix of calls that fail with status, such as "POST /v1/node/".
	refuse string
	status int
	// calls lists all calls, and filters lists the filters of node list calls.
	calls, filters []string
	allocations    []map[string]any
	// listed is the number of allocations in the last list response.
	listed int
}

func newPool(t *testing.T, nodes ...*api.Node) (*pool, *Fleet) {
	t.Helper()
	p := &pool{nodes: map[string]*api.Node{}}
	for i, node := range nodes {
		node.CreateIndex = uint64(i + 1)
		if node.Status == "" {
			node.Status = api.NodeStatusReady
		}
		if node.SchedulingEligibility == "" {
			node.SchedulingEligibility = api.NodeSchedulingEligible
		}
		p.nodes[node.ID] = node
	}
	return p, openFleet(t, testConfig(t, newHandler(t, p.serve)), nil)
}

func (p *pool) serve(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.Path
	p.rival.Meet(call)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	if p.refuse != "" && strings.HasPrefix(call, p.refuse) {
		http.Error(w, "refused", p.status)
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case path[0] == "nodes":
		p.filters = append(p.filters, r.URL.Query().Get("filter"))
		var nodes []map[string]any
		for _, node := range p.nodes {
			nodes = append(nodes, map[string]any{
				"ID": node.ID, "Name": node.Name, "Status": node.Status, "CreateIndex": node.CreateIndex, "Attributes": node.Attributes, "Meta": node.Meta,
			})
		}
		p.list(w, r, nodes)
	case path[0] == "allocations":
		p.listed = p.list(w, r, p.allocations)
	case p.nodes[path[1]] == nil && len(path) == 2:
		http.Error(w, "node not found", http.StatusNotFound)
	case p.nodes[path[1]] == nil:
		http.Error(w, "node not found", http.StatusInternalServerError)
	case len(path) == 2:
		_ = json.NewEncoder(w).Encode(p.nodes[path[1]])
	case path[2] == "purge":
		delete(p.nodes, path[1])
		_, _ = w.Write([]byte("{}"))
	case path[2] == "drain":
		var request api.NodeUpdateDrainRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.drain(p.nodes[path[1]], request)
		_, _ = w.Write([]byte("{}"))
	}
}

// list sends the documents that match the filter of a call, and returns their number.
func (p *pool) list(w http.ResponseWriter, r *http.Request, all []map[string]any) int {
	passed, err := pass(r.URL.Query().Get("filter"), all)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return 0
	}
	_ = json.NewEncoder(w).Encode(passed)
	return len(passed)
}

// drain starts a drain, which ends when the test calls done.
func (p *pool) drain(node *api.Node, request api.NodeUpdateDrainRequest) {
	switch {
	case request.DrainSpec != nil:
		node.DrainStrategy = &api.DrainStrategy{DrainSpec: *request.DrainSpec}
		node.SchedulingEligibility = api.NodeSchedulingIneligible
		node.LastDrain = &api.DrainMetadata{Status: api.DrainStatusDraining, Meta: request.Meta}
	default:
		if node.DrainStrategy != nil {
			node.LastDrain.Status = api.DrainStatusCanceled
		}
		node.DrainStrategy = nil
		if request.MarkEligible {
			node.SchedulingEligibility = api.NodeSchedulingEligible
		}
	}
}

// done completes a node's drain.
func (p *pool) done(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[id].DrainStrategy = nil
	p.nodes[id].LastDrain.Status = api.DrainStatusComplete
}

// made returns the number of calls with a prefix since made was last called.
func (p *pool) made(prefix string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, call := range p.calls {
		if strings.HasPrefix(call, prefix) {
			count++
		}
	}
	p.calls = nil
	return count
}

func node(id, name string, attributes ...string) *api.Node {
	n := &api.Node{ID: id, Name: name, Attributes: map[string]string{}, Meta: map[string]string{}}
	for i := 0; i < len(attributes); i += 2 {
		if key, ok := strings.CutPrefix(attributes[i], "meta."); ok {
			n.Meta[key] = attributes[i+1]
		} else {
			n.Attributes[attributes[i]] = attributes[i+1]
		}
	}
	return n
}

func TestFindNodes(t *testing.T) {
	down := node("n-old", "vm-6", "unique.platform.aws.instance-id", "i-6")
	down.Status = "down"
	p, f := newPool(t,
		node("n-aws", "ip-10-0-0-1", "unique.platform.aws.instance-id", "i-1", "unique.network.ip-address", "10.0.0.1"),
		node("n-gce", "web-x1", "unique.platform.gce.id", "4711", "unique.network.ip-address", "10.0.0.2"),
		node("n-azure", "web000003", "unique.platform.azure.name", "web_3"),
		node("n-host", "other", "unique.hostname", "vm-4"),
		node("n-address", "any", "unique.network.ip-address", "10.0.0.5"),
		down,
		node("n-new", "vm-6", "unique.platform.aws.instance-id", "i-6"),
		node("n-twin-1", "twin"), node("n-twin-2", "twin"),
		node("n-meta", "vm-8", "meta.machine", "m-8"),
		node("n-plain", "plain"),
	)
	cases := []struct {
		what  string
		query NodeQuery
		want  string
	}{
		{"EC2 id", NodeQuery{IDs: []string{"i-1"}}, "n-aws"},
		{"EC2 id before the address of another node", NodeQuery{IDs: []string{"i-1"}, Addresses: []string{"10.0.0.2"}}, "n-aws"},
		{"Compute Engine id", NodeQuery{IDs: []string{"4711"}, Names: []string{"4711", "elsewhere"}}, "n-gce"},
		{"Azure machine name", NodeQuery{IDs: []string{"web_3"}}, "n-azure"},
		{"host name", NodeQuery{Names: []string{"vm-4"}}, "n-host"},
		{"node name", NodeQuery{Names: []string{"plain"}}, "n-plain"},
		{"address", NodeQuery{IDs: []string{"i-5"}, Addresses: []string{"fe80::1", "10.0.0.5"}}, "n-address"},
		{"ready node", NodeQuery{IDs: []string{"i-6"}}, "n-new"},
		{"meta", NodeQuery{IDs: []string{"m-8"}, Attribute: "meta.machine"}, "n-meta"},
		{"only an attribute", NodeQuery{IDs: []string{"i-1"}, Names: []string{"vm-4"}, Attribute: "unique.hostname"}, "n-host"},
		{"different attribute", NodeQuery{IDs: []string{"i-1"}, Attribute: "unique.hostname"}, ""},
		{"unknown meta", NodeQuery{IDs: []string{"m-9"}, Attribute: "meta.machine"}, ""},
		{"id equal to the name of a node", NodeQuery{IDs: []string{"plain"}}, ""},
		{"unknown name", NodeQuery{Names: []string{"vm-9"}}, ""},
		{"unknown id", NodeQuery{IDs: []string{"i-9", ""}}, ""},
		{"empty query", NodeQuery{}, ""},
	}
	queries := make([]NodeQuery, len(cases))
	for n, c := range cases {
		queries[n] = c.query
	}
	matches, err := f.FindNodes(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range cases {
		if matches[n].Err != nil || matches[n].ID != c.want {
			t.Errorf("%s: match = %+v, want %q", c.what, matches[n], c.want)
		}
	}
	for _, filter := range p.filters {
		if filter == "" || strings.Contains(filter, "(?:|") || strings.Contains(filter, "||") {
			t.Errorf("filter = %q, want only non-empty values", filter)
		}
	}
	matches, err = f.FindNodes(t.Context(), []NodeQuery{{Names: []string{"twin"}}, {IDs: []string{"i-1"}}})
	if err != nil || !errors.Is(matches[0].Err, targets.ErrUnscalable) || matches[1].ID != "n-aws" {
		t.Errorf("matches for an ambiguous name = %+v, %v, want an error for this query only", matches, err)
	}
}

func TestDrainNode(t *testing.T) {
	p, f := newPool(t, node("n-1", "vm-1"))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, draining bool, eligibility string) {
		t.Helper()
		n := p.nodes["n-1"]
		if n.DrainStrategy != nil != draining || n.SchedulingEligibility != eligibility {
			t.Errorf("%s: draining = %v and %s, want %v and %s", what, n.DrainStrategy != nil, n.SchedulingEligibility, draining, eligibility)
		}
	}
	expectDrained := func(want bool) {
		t.Helper()
		if done, err := f.NodeDrained(ctx, "n-1"); err != nil || done != want {
			t.Errorf("NodeDrained() = %v, %v, want %v", done, err, want)
		}
	}
	must(f.RestoreNode(ctx, "n-1"))
	if n := p.made("PUT"); n != 0 {
		t.Errorf("writes for restoring an undrained node = %d, want 0", n)
	}
	for range 2 {
		must(f.DrainNode(ctx, "n-1", time.Minute, true))
	}
	if n := p.made("PUT"); n != 1 {
		t.Errorf("writes for a repeated drain = %d, want 1", n)
	}
	if spec := p.nodes["n-1"].DrainStrategy.DrainSpec; spec.Deadline != time.Minute || !spec.IgnoreSystemJobs {
		t.Errorf("drain = %+v, want a minute and no system jobs", spec)
	}
	expect("draining", true, api.NodeSchedulingIneligible)
	expectDrained(false)
	must(f.RestoreNode(ctx, "n-1"))
	expect("canceled", false, api.NodeSchedulingEligible)
	if _, err := f.NodeDrained(ctx, "n-1"); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("NodeDrained() of an eligible node = %v, want ErrConflict", err)
	}
	must(f.DrainNode(ctx, "n-1", -time.Minute, false))
	if spec := p.nodes["n-1"].DrainStrategy.DrainSpec; spec.Deadline != shortestDrain {
		t.Errorf("drain with no time left = %+v, want the shortest deadline", spec)
	}
	p.done("n-1")
	expectDrained(true)
	// Repeat the drain, as after a restart. Restoring the node must make it eligible again.
	must(f.DrainNode(ctx, "n-1", time.Minute, false))
	p.done("n-1")
	must(f.RestoreNode(ctx, "n-1"))
	expect("restored after the drain", false, api.NodeSchedulingEligible)

	p.nodes["n-1"].SchedulingEligibility = api.NodeSchedulingIneligible
	p.nodes["n-1"].LastDrain = nil
	must(f.DrainNode(ctx, "n-1", time.Minute, false))
	p.done("n-1")
	must(f.RestoreNode(ctx, "n-1"))
	expect("restored to ineligible", false, api.NodeSchedulingIneligible)

	p.nodes["n-1"].LastDrain = nil
	p.nodes["n-1"].DrainStrategy = &api.DrainStrategy{DrainSpec: api.DrainSpec{Deadline: time.Hour}}
	must(f.DrainNode(ctx, "n-1", time.Minute, false))
	must(f.RestoreNode(ctx, "n-1"))
	expect("external drain", true, api.NodeSchedulingIneligible)
	if got := p.nodes["n-1"].DrainStrategy.Deadline; got != time.Hour {
		t.Errorf("deadline of an external drain changed to %v", got)
	}

	must(f.PurgeNode(ctx, "n-1"))
	must(f.PurgeNode(ctx, "n-1"))
	must(f.RestoreNode(ctx, "n-1"))
	expectDrained(true)
	if err := f.DrainNode(ctx, "n-1", time.Minute, false); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("DrainNode() of a missing node = %v, want ErrTargetNotFound", err)
	}
}

func TestNodesForbidden(t *testing.T) {
	p, f := newPool(t, node("n-1", "vm-1"))
	p.refuse, p.status = "PUT", http.StatusForbidden
	if err := f.DrainNode(t.Context(), "n-1", time.Minute, false); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), `node { policy = "write" }`) {
		t.Errorf("DrainNode() without the permission = %v, want ErrForbidden", err)
	}
	if err := f.PurgeNode(t.Context(), "n-1"); !errors.Is(err, targets.ErrForbidden) {
		t.Errorf("PurgeNode() without the permission = %v, want ErrForbidden", err)
	}
	p.refuse = "GET"
	if _, err := f.FindNodes(t.Context(), []NodeQuery{{Names: []string{"vm-1"}}}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), `node { policy = "read" }`) {
		t.Errorf("FindNodes() without the permission = %v, want ErrForbidden", err)
	}
	p.status = http.StatusTooManyRequests
	if _, err := f.NodeDrained(t.Context(), "n-1"); !errors.Is(err, targets.ErrThrottled) {
		t.Errorf("NodeDrained() while throttled = %v, want ErrThrottled", err)
	}
	p.made("")
	if _, err := f.NodeAllocations(t.Context()); !errors.Is(err, targets.ErrThrottled) || p.made("") != 0 {
		t.Errorf("NodeAllocations() during the pause = %v, want ErrThrottled without a call", err)
	}
}

func TestNodeAllocations(t *testing.T) {
	p, f := newPool(t)
	p.allocations = []map[string]any{
		{"ID": "1", "NodeID": "n-1", "JobType": "service", "ClientStatus": "running"},
		{"ID": "2", "NodeID": "n-1", "JobType": "batch", "ClientStatus": "pending"},
		{"ID": "3", "NodeID": "n-1", "JobType": "system", "ClientStatus": "running"},
		{"ID": "4", "NodeID": "n-2", "JobType": "sysbatch", "ClientStatus": "running"},
		{"ID": "5", "NodeID": "n-2", "JobType": "service", "ClientStatus": "complete"},
		{"ID": "6", "NodeID": "n-3", "JobType": "service", "ClientStatus": "unknown"},
		{"ID": "7", "NodeID": "n-3", "JobType": "service", "ClientStatus": "failed"},
		{"ID": "8", "NodeID": "n-3", "JobType": "service", "ClientStatus": "lost"},
	}
	counts, err := f.NodeAllocations(t.Context())
	if err != nil || len(counts) != 2 || counts["n-1"] != 2 || counts["n-3"] != 1 {
		t.Errorf("NodeAllocations() = %v, %v, want 2 on n-1 and 1 on n-3", counts, err)
	}
	if n := p.made(""); n != 1 {
		t.Errorf("calls = %d", n)
	}
	if p.listed != 5 {
		t.Errorf("listed allocations = %d, want the 5 that can be running", p.listed)
	}
}
