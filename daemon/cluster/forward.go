package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

const (
	// startInterval is the interval at which a request checks whether a daemon has started.
	startInterval = 50 * time.Millisecond
	// writeTimeout is the time limit of one attempt to write to all members.
	writeTimeout = 10 * time.Second
)

// Owner implements [api.Forwarder]. During a takeover it waits for the new owner.
func (v *clusterView) Owner(ctx context.Context, scope policy.Scope, again bool) (http.Handler, error) {
	if again && v.whole {
		_, _ = v.viewNow(ctx) // after an error, the last view is still the best
	}
	for {
		_, p, err := v.find(ctx, scope)
		if err == nil && p == nil {
			return nil, nil
		}
		if err == nil {
			if err = p.measure(ctx); err == nil {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer p.forget()
					p.client.Forward(w, r)
				}), nil
			}
			err = fmt.Errorf("%w: member %s, which owns the fleet, does not respond: %w", api.ErrMoving, p.name, err)
		}
		if !v.canMove(ctx, scope) {
			return nil, err
		}
		select {
		case <-time.After(api.TakeoverInterval):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// canMove reads the owners again, and reports whether the fleet of a scope may get a new owner
// soon: its owner does not respond, or it has no owner and a member can take it over.
func (v *clusterView) canMove(ctx context.Context, scope policy.Scope) bool {
	fleet := scope.Fleet
	if scope.Autoscaler != "" {
		fleet = v.FleetOf(scope.Autoscaler)
	}
	if !v.whole || fleet == Own {
		return false
	}
	view, err := v.viewNow(ctx)
	return err == nil && (view.Fleets[fleet].Owner != "" || assign(view)[fleet] != "")
}

// find returns the local daemon or the other member that handles requests about an autoscaler or
// a fleet.
func (v *clusterView) find(ctx context.Context, scope policy.Scope) (*daemon.Daemon, *peer, error) {
	fleet := scope.Fleet
	if name := scope.Autoscaler; name != "" {
		for _, d := range v.daemons() {
			if _, ok := d.Autoscaler(name); ok {
				return d, nil, nil
			}
		}
		fleet = v.FleetOf(name)
		if fleet == Own {
			for _, p := range v.refreshed() { // the autoscaler may belong to another member's host
				if p.isListed(name) {
					return nil, p, nil
				}
			}
		}
	}
	if !slices.Contains(v.Fleets(), fleet) {
		return v.own, nil, nil
	}
	return v.findFleet(ctx, fleet)
}

// findFleet returns the local daemon or the other member that runs a shared fleet. If the local
// daemon is starting, it waits until the daemon runs. If the fleet's owner is unknown, it reads the
// owners again.
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
	if p != nil {
		return nil, p, nil
	}
	return nil, nil, fmt.Errorf("%w: %w", api.ErrMoving, v.ownerError(fleet, owner))
}

// here returns this member's daemon for a request that Owner did not forward.
func (v *clusterView) here(ctx context.Context, scope policy.Scope) (*daemon.Daemon, error) {
	d, p, err := v.find(ctx, scope)
	if p != nil {
		err = fmt.Errorf("%w: member %s has just taken it over; try again", api.ErrMoving, p.name)
	}
	return d, err
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

func (v *clusterView) ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error {
	d, err := v.here(ctx, policy.Scope{Autoscaler: name})
	if err != nil {
		return err
	}
	return d.ScaleTo(ctx, name, replicas, force, author)
}

func (v *clusterView) Restart(ctx context.Context, name string) error {
	d, err := v.here(ctx, policy.Scope{Autoscaler: name})
	if err != nil {
		return err
	}
	return d.Restart(ctx, name)
}

func (v *clusterView) EvaluateNow(ctx context.Context, name string) error {
	d, err := v.here(ctx, policy.Scope{Autoscaler: name})
	if err != nil {
		return err
	}
	return d.EvaluateNow(ctx, name)
}

// Pause implements [api.Daemon]. Each member writes a pause of all autoscalers. The error names
// the members and fleets for which the write failed.
func (v *clusterView) Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error) {
	if pause.Scope != (policy.Scope{}) {
		d, err := v.here(ctx, pause.Scope)
		if err != nil {
			return policy.Pause{}, err
		}
		return d.Pause(ctx, pause, lasts)
	}
	request := api.PauseRequest{Direction: pause.Direction, Reason: pause.Reason}
	if lasts > 0 {
		request.For = lasts.String()
	}
	written, err := v.everywhere(ctx, func(ctx context.Context, d *daemon.Daemon) (policy.Pause, error) {
		return d.Pause(ctx, pause, lasts)
	}, func(ctx context.Context, client *api.Client) (policy.Pause, error) {
		return client.Pause(ctx, pause.Scope, request)
	})
	if len(written) == 0 {
		return policy.Pause{}, err
	}
	return written[0], err
}

// Resume implements [api.Daemon]. Each member ends its pause of all autoscalers if it has one.
func (v *clusterView) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if scope != (policy.Scope{}) {
		d, err := v.here(ctx, scope)
		if err != nil {
			return policy.Pause{}, err
		}
		return d.Resume(ctx, scope, author)
	}
	ended, err := v.everywhere(ctx, func(ctx context.Context, d *daemon.Daemon) (policy.Pause, error) {
		return d.Resume(ctx, scope, author)
	}, func(ctx context.Context, client *api.Client) (policy.Pause, error) {
		return client.Resume(ctx, scope)
	})
	if len(ended) == 0 {
		return policy.Pause{}, errors.Join(err, fmt.Errorf("%s: %w", scope, api.ErrNotPaused))
	}
	return ended[0], err
}

// everywhere calls the functions here, for each local daemon, and there, for each other member, and
// returns the results. During a takeover it waits for the new owners and repeats failed calls. The
// error names the members for which the call failed, and the fleets without an owner or with a new
// owner. It is not an error if a member has no pause to end.
func (v *clusterView) everywhere(ctx context.Context, here func(context.Context, *daemon.Daemon) (policy.Pause, error),
	there func(context.Context, *api.Client) (policy.Pause, error),
) (results []policy.Pause, err error) {
	ctx, cancel := context.WithTimeout(ctx, api.TakeoverWait)
	defer cancel()
	before, _ := v.currentView(ctx)
	done := map[any]bool{} // the daemons and the peers where the call succeeded
	for {
		written, retry, errs := v.onEach(ctx, done, here, there)
		results = append(results, written...)
		after, unread := v.currentView(ctx)
		for _, fleet := range v.Fleets() {
			owner, p := v.ownerOf(fleet)
			d, starting := v.running(fleet)
			switch {
			case after.Fleets[fleet].Term != before.Fleets[fleet].Term:
				delete(done, p) // its daemon of this fleet may be new
				errs = append(errs, fmt.Errorf("%w: fleet %q was taken over at the same time; try again", api.ErrRefused, fleet))
			case d == nil && !starting && v.whole && p == nil && unread != nil:
				errs = append(errs, fmt.Errorf("%w: %w", api.ErrRefused, v.unknownOwner(fleet, unread.Error())))
			case d == nil && (starting || v.whole && p == nil):
				errs = append(errs, fmt.Errorf("%w: %w", api.ErrRefused, v.ownerError(fleet, owner)))
				retry = retry && (starting || owner != "" || assign(after)[fleet] != "")
			}
		}
		if err = joined(errs); err == nil || !v.whole {
			return results, err
		}
		if names := v.namesOf(done); len(names) > 0 && len(results) > 0 {
			err = fmt.Errorf("succeeded only on %s: %w", strings.Join(names, " and "), err)
		}
		if !retry || unread != nil {
			return results, err
		}
		before = after
		select {
		case <-time.After(api.TakeoverInterval):
		case <-ctx.Done():
			return results, err
		}
	}
}

// joined returns an error with the texts of all errors on one line, or nil if there are none.
func joined(errs []error) (err error) {
	for _, next := range errs {
		if err == nil {
			err = next
		} else {
			err = fmt.Errorf("%w; %w", err, next)
		}
	}
	return err
}

// namesOf returns the names of the members in done. This member is included if all its daemons are
// in done.
func (v *clusterView) namesOf(done map[any]bool) (names []string) {
	if !slices.ContainsFunc(v.daemons(), func(d *daemon.Daemon) bool { return !done[d] }) {
		names = append(names, v.options.Member.Name)
	}
	for _, p := range v.peers() {
		if done[p] {
			names = append(names, p.name)
		}
	}
	return names
}

// onEach calls here for the daemons and there for the peers that are not in done. It adds each
// daemon or peer to done if the call succeeds. retry is true if all errors may be temporary.
func (v *clusterView) onEach(ctx context.Context, done map[any]bool, here func(context.Context, *daemon.Daemon) (policy.Pause, error),
	there func(context.Context, *api.Client) (policy.Pause, error),
) (results []policy.Pause, retry bool, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	peers := slices.DeleteFunc(v.peers(), func(p *peer) bool { return done[p] })
	daemons := slices.DeleteFunc(v.daemons(), func(d *daemon.Daemon) bool { return done[d] })
	written, failed := make([]policy.Pause, len(peers)+len(daemons)), make([]error, len(peers)+len(daemons))
	var others guard.Group
	for i, p := range peers {
		others.Go(func() error {
			defer p.forget()
			written[i], failed[i] = there(ctx, p.client)
			return nil
		})
	}
	for i, d := range daemons {
		written[len(peers)+i], failed[len(peers)+i] = here(ctx, d)
	}
	_ = others.Wait() // each member has its own error
	retry = true
	for i, err := range failed {
		if err != nil && !errors.Is(err, api.ErrNotPaused) {
			_, unreached := errors.AsType[*api.ReachError](err)
			retry = retry && (unreached || errors.Is(err, api.ErrRefused))
			if i < len(peers) {
				err = fmt.Errorf("member %s: %w", peers[i].name, api.Forwarded(err))
			}
			errs = append(errs, err)
			continue
		}
		if err == nil {
			results = append(results, written[i])
		}
		if i < len(peers) {
			done[peers[i]] = true
		} else {
			done[daemons[i-len(peers)]] = true
		}
	}
	return results, retry, errs
}

// currentView reads the current view of the coordinator. If v covers only this member, it returns
// the last view without reading. If the coordinator cannot be read, it returns the last view and
// the error.
func (v *clusterView) currentView(ctx context.Context) (view View, err error) {
	if v.whole {
		if view, err = v.viewNow(ctx); err == nil {
			return view, nil
		}
	}
	view, _, _ = v.View()
	return view, err
}
