package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// startInterval is the interval at which a request checks whether a daemon has started.
const startInterval = 50 * time.Millisecond

// Owner implements [api.Forwarder].
func (v *clusterView) Owner(ctx context.Context, scope policy.Scope, again bool) (http.Handler, error) {
	if again && v.whole {
		_, _ = v.viewNow(ctx) // after an error, the last view is still the best
	}
	_, p, err := v.find(ctx, scope)
	if err != nil || p == nil {
		return nil, err
	}
	if err := p.measure(ctx); err != nil {
		class := api.ErrMoving
		if v.fleetOf(scope) == Own || v.unreached.Exists() { // the fleet gets no other owner soon
			class = api.ErrRefused
		}
		return nil, fmt.Errorf("%w: member %s, which owns the fleet, does not respond: %w", class, p.name, err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer p.forget()
		p.client.Forward(w, r)
	}), nil
}

// find returns the local daemon or the other member that handles requests about an autoscaler or
// a fleet.
func (v *clusterView) find(ctx context.Context, scope policy.Scope) (*daemon.Daemon, *peer, error) {
	if fleet := v.fleetOf(scope); slices.Contains(v.Fleets(), fleet) {
		return v.findFleet(ctx, fleet)
	}
	if _, here := v.own.Listed(scope.Autoscaler); !here && scope.Autoscaler != "" {
		for _, p := range v.refreshed() { // the autoscaler may belong to another member's host
			if _, ok := p.Listed(scope.Autoscaler); ok {
				return nil, p, nil
			}
		}
	}
	return v.own, nil, nil
}

// fleetOf returns the shared fleet of a scope. The result is Own or another name for all other fleets.
func (v *clusterView) fleetOf(scope policy.Scope) string {
	if scope.Autoscaler != "" {
		return v.FleetOf(scope.Autoscaler)
	}
	return scope.Fleet
}

// findFleet returns the local daemon or the other member that runs a shared fleet. If the local
// daemon is starting, it waits until the daemon runs. If the fleet's owner is unknown, it reads the
// owners again. The error is an [api.ErrMoving] if the fleet may get an owner soon, and otherwise an
// [api.ErrRefused].
func (v *clusterView) findFleet(ctx context.Context, fleet string) (*daemon.Daemon, *peer, error) {
	d, starting := v.running(fleet)
	for until := time.Now().Add(peerTimeout); starting && ctx.Err() == nil && time.Now().Before(until); d, starting = v.running(fleet) {
		select {
		case <-time.After(startInterval):
		case <-ctx.Done():
		}
	}
	switch {
	case d != nil:
		return d, nil, nil
	case starting:
		return nil, nil, fmt.Errorf("%w: %w", api.ErrMoving, v.ownerError(fleet, v.options.Member.Name))
	}
	owner, p := v.ownerOf(fleet)
	if p == nil && v.whole {
		if _, err := v.viewNow(ctx); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", api.ErrRefused, v.unknownOwner(fleet, err.Error()))
		}
		owner, p = v.ownerOf(fleet)
	}
	view, _, _ := v.View()
	switch {
	case p != nil:
		return nil, p, nil
	case v.whole && owner == "" && assign(view)[fleet] == "":
		return nil, nil, fmt.Errorf("%w: %w", api.ErrRefused, v.ownerError(fleet, owner))
	}
	return nil, nil, fmt.Errorf("%w: %w", api.ErrMoving, v.ownerError(fleet, owner))
}

// ownerOf returns the owner of a fleet according to the last view. The peer is nil unless the
// owner is another member.
func (v *clusterView) ownerOf(fleet string) (string, *peer) {
	view, _, _ := v.View()
	owner, peers := view.Fleets[fleet].Owner, v.peers()
	if i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == owner }); i >= 0 {
		return owner, peers[i]
	}
	return owner, nil
}

// ownerError explains why this member cannot find the daemon of a fleet. owner is "" if the fleet
// has no owner in the last view.
func (v *clusterView) ownerError(fleet, owner string) error {
	me, unreached, unjoined := v.options.Member.Name, v.unreached.Text(), v.unjoined.Text()
	view, viewed, _ := v.View()
	switch {
	case unreached != "":
		return v.unknownOwner(fleet, unreached)
	case owner == me && unjoined != "":
		return fmt.Errorf("the owner of fleet %q is unknown: %s", fleet, unjoined)
	case owner == me:
		return fmt.Errorf("member %s owns fleet %q and is starting it; try again in a few seconds", me, fleet)
	case isImporting(view):
		return errImporting
	case viewed.IsZero():
		return fmt.Errorf("the owner of fleet %q is unknown, because member %s has just started and has not read the cluster store yet; try again in a few seconds", fleet, me)
	case owner != "" && v.whole:
		return fmt.Errorf("the address of %[2]s, the owner of fleet %[1]q, is unknown", fleet, owner)
	case owner != "":
		return fmt.Errorf("fleet %q is owned by %s, not by %s; try again", fleet, owner, me)
	}
	if err := v.failure(fleet); err != nil {
		return err
	}
	if assign(view)[fleet] == "" {
		return fmt.Errorf("no owner, and no member can take over: %s", v.whyUnowned(view, fleet))
	}
	since := ""
	if at := v.unownedSince(fleet); !at.IsZero() {
		since = " since " + at.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("fleet %q has no owner%s, and member %s is about to take it over", fleet, since, assign(view)[fleet])
}

func (v *clusterView) unknownOwner(fleet, why string) error {
	return fmt.Errorf("the owner of fleet %q is unknown, because member %s cannot reach the cluster store: %s", fleet, v.options.Member.Name, why)
}

// change calls do with this member's daemon for a write that Owner did not forward.
func change[T any](ctx context.Context, v *clusterView, scope policy.Scope, do func(*daemon.Daemon) (T, error)) (T, error) {
	return atOwner(ctx, v, scope, do, func(p *peer) (none T, err error) {
		return none, fmt.Errorf("%w: member %s has just taken it over; try again", api.ErrMoving, p.name)
	})
}

func (v *clusterView) ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error {
	_, err := change(ctx, v, policy.Scope{Autoscaler: name}, func(d *daemon.Daemon) (any, error) { return nil, d.ScaleTo(ctx, name, replicas, force, author) })
	return err
}

func (v *clusterView) Restart(ctx context.Context, name string) error {
	_, err := change(ctx, v, policy.Scope{Autoscaler: name}, func(d *daemon.Daemon) (any, error) { return nil, d.Restart(ctx, name) })
	return err
}

func (v *clusterView) EvaluateNow(ctx context.Context, name string) error {
	_, err := change(ctx, v, policy.Scope{Autoscaler: name}, func(d *daemon.Daemon) (any, error) { return nil, d.EvaluateNow(ctx, name) })
	return err
}

func (v *clusterView) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	return atOwner(ctx, v, policy.Scope{Autoscaler: name},
		func(d *daemon.Daemon) (api.InstanceList, error) { return d.InstancesOf(ctx, name) },
		func(p *peer) (api.InstanceList, error) {
			return api.Get[api.InstanceList](ctx, p.client, api.Path("autoscalers", name, "instances"), nil)
		})
}

func (v *clusterView) WriteLogs(ctx context.Context, name, instance string, query targets.LogQuery, to io.Writer) error {
	write := func(line string) error {
		_, err := io.WriteString(to, line+"\n")
		return err
	}
	_, err := atOwner(ctx, v, policy.Scope{Autoscaler: name},
		func(d *daemon.Daemon) (any, error) { return nil, d.WriteLogs(ctx, name, instance, query, to) },
		func(p *peer) (any, error) {
			err := p.client.Logs(ctx, name, instance, query, write)
			if _, rejected := errors.AsType[*api.Error](err); rejected {
				err = api.Forwarded(err)
			}
			return nil, err
		})
	return err
}

func (v *clusterView) Endpoints(ctx context.Context, ref targets.Ref) ([]api.EndpointGroup, error) {
	return atOwner(ctx, v, policy.Scope{Fleet: ref.Fleet},
		func(d *daemon.Daemon) ([]api.EndpointGroup, error) { return d.Endpoints(ctx, ref) },
		func(p *peer) ([]api.EndpointGroup, error) { return p.client.Endpoints(ctx, ref) })
}

// atOwner calls here with this member's daemon for a scope, or there with the member that runs it.
func atOwner[T any](ctx context.Context, v *clusterView, scope policy.Scope, here func(*daemon.Daemon) (T, error), there func(*peer) (T, error)) (read T, err error) {
	d, p, err := v.find(ctx, scope)
	switch {
	case err != nil:
		return read, err
	case d != nil:
		return here(d)
	}
	return there(p)
}
