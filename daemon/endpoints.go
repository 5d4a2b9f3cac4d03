package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/targets"
)

// applyEndpoints starts to publish the endpoints of a new generation.
func (d *Daemon) applyEndpoints(g *round.Generation) {
	if d.env.DryRun {
		return
	}
	var all []endpoints.Target
	for _, name := range g.Names {
		if a := g.Config.Autoscalers[name]; a.Endpoints != nil && a.Endpoints.File != "" {
			all = append(all, endpoints.Target{Autoscaler: name, Ref: a.Target, Config: a.Endpoints})
		}
	}
	d.endpoints.Apply(d.env.RunContext, all)
}

// errUnread is returned for a target that has not been read yet.
var errUnread = errors.New("not read yet")

// readEndpoints returns the current instances of a target. For a fleet on another host,
// readEndpoints returns the reading of the last pass unless fresh is set. Before a fleet has
// started, its readings may lack instances that still run.
func (d *Daemon) readEndpoints(ctx context.Context, target *endpoints.Target, fresh bool) (targets.Reading, error) {
	g := d.scheduler.Current()
	a := g.Autoscalers[target.Autoscaler]
	if a == nil {
		return targets.Reading{}, errUnread
	}
	if last := a.Reading(target.Ref); !fresh && !targets.Local(g.Config.Fleets[target.Ref.Fleet].Config) {
		if last == nil {
			return targets.Reading{}, errUnread
		}
		return *last, nil
	}
	h := g.Fleets[target.Ref.Fleet]
	if h == nil || !h.Started() {
		return targets.Reading{}, errUnread
	}
	return d.env.Read(ctx, h, target.Ref)
}

// autoscalerOf returns the autoscaler of a target.
func (d *Daemon) autoscalerOf(ref targets.Ref) (*round.Autoscaler, error) {
	for _, a := range d.scheduler.Current().Autoscalers {
		if a.Definition().Target == ref {
			return a, nil
		}
	}
	return nil, fmt.Errorf("target %s: %w", ref, api.ErrUnknown)
}

// discoveryTimeout limits the reading of a target for a service discovery request.
const discoveryTimeout = 5 * time.Second

// Endpoints returns the ready instances of an autoscaler's target. If the target cannot be read,
// it returns the last known endpoints, or an api.ErrUnread without them.
func (d *Daemon) Endpoints(ctx context.Context, ref targets.Ref) ([]api.EndpointGroup, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return nil, err
	}
	a, err := d.autoscalerOf(ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	last := a.Reading(ref)
	reading, err := d.readEndpoints(ctx, &endpoints.Target{Autoscaler: a.Name, Ref: ref}, last == nil)
	if err != nil && last != nil {
		reading, err = *last, nil
	}
	var ready []endpoints.Instance
	if err == nil {
		ready, err = endpoints.Ready(&reading, a.Definition().PortLabel())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrUnread, err)
	}
	groups := make([]api.EndpointGroup, len(ready))
	for i, instance := range ready {
		groups[i] = api.EndpointGroup{Targets: []string{instance.Address}, Labels: map[string]string{
			"autoscaler": a.Name, "fleet": ref.Fleet, "instance_id": instance.ID, "node": instance.Node,
		}}
	}
	return groups, nil
}
