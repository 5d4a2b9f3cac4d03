package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/policy"
)

const graphFile = "graph.db"

// Graph implements [api.Daemon]. Each owner of a shared fleet stores the data points of its own
// passes, so the graph contains the points of all members.
func (v *clusterView) Graph(ctx context.Context, name string, from, to time.Time) (api.Graph, error) {
	fleet := v.FleetOf(name)
	if fleet == Own { // two hosts may have different autoscalers with the same name
		return readFrom(ctx, v, policy.Scope{Autoscaler: name},
			func(d *daemon.Daemon) (api.Graph, error) { return d.Graph(ctx, name, from, to) },
			func(owner *api.Client) (api.Graph, error) {
				return api.Get[api.Graph](ctx, owner, api.Path("autoscalers", name, "graph"), api.Period{From: from, To: to})
			})
	}
	all := fromEach(ctx, v, name, "data points", peerTimeout, func(ctx context.Context, member *api.Client) (api.Graph, error) {
		return api.Get[api.Graph](ctx, member, api.Path("autoscalers", name, "graph"), api.Period{From: from, To: to})
	})
	if v.options.Daemon.Graph != nil {
		found, err := v.storedGraph(ctx, fleet, name, from, to)
		if err != nil {
			return api.Graph{}, err
		}
		all = append(all, found)
	} else if len(all) == 0 {
		return api.Graph{}, fmt.Errorf("no data points are stored because daemon.page is false: %w", api.ErrUnknown)
	}
	return api.MergeGraphs(all), nil
}

// storedGraph returns the data points that this member has stored, also if it no longer runs the
// fleet.
func (c *Cluster) storedGraph(ctx context.Context, fleet, name string, from, to time.Time) (api.Graph, error) {
	if d, _ := c.running(fleet); d != nil {
		return d.Graph(ctx, name, from, to)
	}
	c.archives.mu.Lock() // prevents a run from opening the file
	defer c.archives.mu.Unlock()
	if d, starting := c.running(fleet); d != nil {
		return d.Graph(ctx, name, from, to)
	} else if starting {
		api.Warn(ctx, fmt.Sprintf("member %s is starting the fleet; its data points are missing", c.options.Member.Name))
		return api.Graph{}, nil
	}
	found, err := graph.ReadFile(filepath.Join(c.dir(fleet), graphFile), name, from, to)
	if err != nil { // the points of the other members are still useful
		api.Warn(ctx, fmt.Sprintf("member %s: %v", c.options.Member.Name, err))
	}
	return found, nil
}
