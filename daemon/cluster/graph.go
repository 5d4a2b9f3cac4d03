package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

const graphFile = "graph.db"

// Graph implements [api.Daemon].
func (v *clusterView) Graph(ctx context.Context, name string, from, to time.Time) (api.Graph, error) {
	all, err := dataPoints(ctx, v, name,
		func(d *daemon.Daemon) (api.Graph, error) { return d.Graph(ctx, name, from, to) },
		func(ctx context.Context, member *api.Client) (api.Graph, error) {
			return api.Get[api.Graph](ctx, member, api.Path("autoscalers", name, "graph"), api.Period{From: from, To: to})
		},
		func(path string) (api.Graph, error) { return graph.ReadFile(path, name, from, to) })
	switch {
	case err != nil:
		return api.Graph{}, err
	case len(all) == 0:
		return api.Graph{}, fmt.Errorf("no data points are stored because daemon.page is false: %w", api.ErrUnknown)
	}
	return api.MergeGraphs(all), nil
}

// Recording implements [api.Daemon].
func (v *clusterView) Recording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error) {
	all, err := dataPoints(ctx, v, name,
		func(d *daemon.Daemon) (simulate.Recording, error) { return d.Recording(ctx, name, from, to) },
		func(ctx context.Context, member *api.Client) (simulate.Recording, error) {
			return recordingOf(ctx, member, name, api.SimulationRequest{From: from, Until: to})
		},
		func(path string) (simulate.Recording, error) { return graph.RecordingInFile(path, name, from, to) })
	return simulate.Merge(name, simulate.FromGraphs, all), err
}

func recordingOf(ctx context.Context, member *api.Client, name string, in api.SimulationRequest) (simulate.Recording, error) {
	data, err := api.Post[api.SimulationData](ctx, member, api.Path("autoscalers", name, "recording"), in)
	return data.Recording, err
}

// dataPoints returns the data points of all members, because each owner of a shared fleet stores the
// points of its own passes. The host's own fleets have those of one member, because two hosts may have
// different autoscalers with the same name. The functions read the points from a daemon of this member,
// from another member, and from a file that no daemon uses.
func dataPoints[T any](ctx context.Context, v *clusterView, name string, here func(*daemon.Daemon) (T, error), there func(context.Context, *api.Client) (T, error), file func(path string) (T, error)) ([]T, error) {
	fleet := v.FleetOf(name)
	if fleet == Own {
		one, err := atOwner(ctx, v, policy.Scope{Autoscaler: name}, here, func(p *peer) (T, error) { return there(ctx, p.client) })
		return []T{one}, err
	}
	all := fromEach(ctx, v, name, "data points", peerTimeout, there)
	if v.options.Daemon.Graph == nil {
		return all, nil
	}
	found, err := stored(ctx, v.member, fleet, here, file)
	return append(all, found), err
}

// QueriedRecording implements [api.Daemon].
func (v *clusterView) QueriedRecording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error) {
	return atOwner(ctx, v, policy.Scope{Autoscaler: name},
		func(d *daemon.Daemon) (simulate.Recording, error) { return d.QueriedRecording(ctx, name, from, to) },
		func(p *peer) (simulate.Recording, error) {
			return recordingOf(ctx, p.client, name, api.SimulationRequest{From: from, Until: to, Data: simulate.FromPrometheus})
		})
}

// Policies implements [api.Daemon]. The policies of a shared fleet follow from this member's
// configuration.
func (v *clusterView) Policies(name string, variants []config.Variant) ([]simulate.Policy, error) {
	for _, d := range v.daemons() {
		if policies, err := d.Policies(name, variants); !errors.Is(err, api.ErrUnknown) {
			return policies, err
		}
	}
	if active := v.active.Load(); active != nil && active.whole.Autoscalers[name] != nil {
		return status.PoliciesOf(active.whole, active.whole.Autoscalers[name], variants)
	}
	// Only the member that runs it has the configuration of an own fleet or of labels.
	if _, p, _ := v.find(context.Background(), policy.Scope{Autoscaler: name}); p != nil && slices.Contains(p.Names(), name) {
		return nil, fmt.Errorf("autoscaler %q is evaluated by member %s: run the simulation there", name, p.name)
	}
	return nil, api.ErrUnknown
}

// stored returns data points that this member has stored, also if it no longer runs the fleet. running
// reads them from the daemon of the fleet, and file from a file that no daemon uses.
func stored[T any](ctx context.Context, c *Cluster, fleet string, running func(*daemon.Daemon) (T, error), file func(path string) (T, error)) (found T, err error) {
	if d, _ := c.running(fleet); d != nil {
		return running(d)
	}
	c.archives.mu.Lock() // prevents a run from opening the file
	defer c.archives.mu.Unlock()
	if d, starting := c.running(fleet); d != nil {
		return running(d)
	} else if starting {
		api.Warn(ctx, fmt.Sprintf("member %s is starting the fleet; its data points are missing", c.options.Member.Name))
		return found, nil
	}
	if found, err = file(filepath.Join(c.dir(fleet), graphFile)); err != nil { // the points of the other members are still useful
		api.Warn(ctx, fmt.Sprintf("member %s: %v", c.options.Member.Name, err))
	}
	return found, nil
}
