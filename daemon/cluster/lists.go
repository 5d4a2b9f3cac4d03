package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/policy"
)

// autoscalers returns the autoscalers that this member's daemons manage, sorted by name.
func (c *Cluster) autoscalers() iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	for _, d := range c.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(""))
	}
	return merge(sequences)
}

// AutoscalersAfter implements [api.Daemon]. If a member does not respond, it uses the member's
// last list.
func (v *clusterView) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	for _, d := range v.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(name))
	}
	view, _, _ := v.View()
	here := map[string]bool{}
	for _, fleet := range v.Fleets() {
		here[fleet] = v.Daemon(fleet) != nil
	}
	for _, p := range v.refreshed() {
		list, _, _ := p.lists()
		sequences = append(sequences, func(yield func(api.Autoscaler) bool) {
			for _, a := range list {
				fleet := v.FleetOf(a.Name)
				owner := view.Fleets[fleet].Owner
				moved := fleet != Own && (here[fleet] || owner != "" && owner != p.name)
				if a.Name > name && !moved && !yield(a) {
					return
				}
			}
		})
	}
	return merge(append(sequences, v.configured(name)))
}

// configured returns the autoscalers after a name that no member lists, without a status. merge
// gets them last, so that lists from members have priority.
func (v *clusterView) configured(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		why := map[string]error{}
		for _, fleet := range v.Fleets() {
			if err := v.unavailable(fleet); err != nil {
				why[fleet] = err
			}
		}
		if len(why) == 0 {
			return
		}
		whole := v.active.Load().whole
		for _, each := range slices.Sorted(maps.Keys(whole.Autoscalers)) {
			if err := why[v.FleetOf(each)]; each > name && err != nil && !yield(asConfigured(whole, each, err)) {
				return
			}
		}
	}
}

// asConfigured returns an autoscaler with only its configuration, and with the reason why its
// status is unknown.
func asConfigured(whole *config.Config, name string, why error) api.Autoscaler {
	a := whole.Autoscalers[name]
	view := status.AsConfigured(a, whole.Fleets[a.Target.Fleet].Kind)
	view.Evaluation = api.Evaluation{Unevaluated: true, Error: why.Error()}
	return view
}

// unavailable returns an error if no member currently lists a fleet's autoscalers.
func (v *clusterView) unavailable(fleet string) error {
	if !v.whole || fleet == Own || v.Daemon(fleet) != nil {
		return nil
	}
	owner, p := v.ownerOf(fleet)
	if p == nil {
		return v.ownerError(fleet, owner)
	}
	if _, _, err := p.lists(); err != nil {
		return fmt.Errorf("its owner %s does not respond: %w", p.name, err)
	}
	return nil
}

func (v *clusterView) Autoscaler(name string) (api.Autoscaler, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	d, owner, _ := v.find(ctx, policy.Scope{Autoscaler: name}) // if this fails, use the last list
	if d != nil && (v.FleetOf(name) == Own || d.AwaitRunning(ctx) == nil) {
		if view, ok := d.Autoscaler(name); ok {
			return view, true
		}
	}
	if owner != nil {
		if view, err := owner.client.Autoscaler(ctx, name); err == nil {
			return view, true
		} else if errors.Is(err, api.ErrNotFound) {
			return api.Autoscaler{}, false
		}
	}
	for _, p := range v.refreshed() {
		list, _, _ := p.lists()
		if i := slices.IndexFunc(list, func(a api.Autoscaler) bool { return a.Name == name }); i >= 0 {
			return list[i], true
		}
	}
	if err := v.unavailable(v.FleetOf(name)); err != nil {
		if whole := v.active.Load().whole; whole.Autoscalers[name] != nil {
			return asConfigured(whole, name, err), true
		}
	}
	return api.Autoscaler{}, false
}

func (v *clusterView) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	d, owner, err := v.find(ctx, policy.Scope{Autoscaler: name})
	switch {
	case err != nil:
		return api.InstanceList{}, err
	case d != nil:
		return d.InstancesOf(ctx, name)
	}
	return owner.client.Instances(ctx, name)
}

func (v *clusterView) Graph(ctx context.Context, name string, from, to time.Time) (api.Graph, error) {
	d, owner, err := v.find(ctx, policy.Scope{Autoscaler: name})
	switch {
	case err != nil:
		return api.Graph{}, err
	case d != nil:
		return d.Graph(ctx, name, from, to)
	}
	return owner.client.Graph(ctx, name, from, to)
}

// Pauses returns a pause of all autoscalers only once, although each daemon has it.
func (v *clusterView) Pauses() []policy.Pause {
	var all []policy.Pause
	for _, d := range v.daemons() {
		all = append(all, d.Pauses()...)
	}
	for _, p := range v.refreshed() {
		_, pauses, _ := p.lists()
		all = append(all, pauses...)
	}
	slices.SortStableFunc(all, records.ComparePauses)
	return slices.CompactFunc(all, func(a, b policy.Pause) bool { return a.Scope == b.Scope })
}

func (v *clusterView) Discovered() []api.Discovered {
	var all []api.Discovered
	for _, d := range v.daemons() {
		all = append(all, d.Discovered()...)
	}
	slices.SortFunc(all, func(a, b api.Discovered) int { return strings.Compare(a.Reference, b.Reference) })
	return all
}

// merge merges sequences of autoscalers by name. If several sequences contain the same name, for
// example because two hosts have fleets with equal names, it uses the first one.
func merge(sequences []iter.Seq[api.Autoscaler]) iter.Seq[api.Autoscaler] {
	if len(sequences) == 1 {
		return sequences[0]
	}
	return func(yield func(api.Autoscaler) bool) {
		type head struct {
			a    api.Autoscaler
			next func() (api.Autoscaler, bool)
		}
		var heads []*head
		for _, sequence := range sequences {
			next, stop := iter.Pull(sequence)
			defer stop()
			if a, ok := next(); ok {
				heads = append(heads, &head{a, next})
			}
		}
		last := ""
		for len(heads) > 0 {
			first := slices.MinFunc(heads, func(x, y *head) int { return strings.Compare(x.a.Name, y.a.Name) })
			if first.a.Name != last || last == "" {
				if last = first.a.Name; !yield(first.a) {
					return
				}
			}
			var more bool
			if first.a, more = first.next(); !more {
				heads = slices.DeleteFunc(heads, func(h *head) bool { return h == first })
			}
		}
	}
}
