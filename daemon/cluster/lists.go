package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// autoscalers returns the autoscalers that this member's daemons manage, sorted by name.
func (c *Cluster) autoscalers() iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	for _, d := range c.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(""))
	}
	return merge(sequences)
}

// AutoscalersAfter implements [api.Daemon]. It contains every configured autoscaler. If no member
// lists an autoscaler, it uses the last status in the cluster store.
func (v *clusterView) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	sequences := []iter.Seq[api.Autoscaler]{v.own.AutoscalersAfter(name)}
	view, _, _ := v.View()
	here := map[string]bool{}
	for _, fleet := range v.Fleets() {
		d := v.Daemon(fleet)
		if here[fleet] = d != nil; d == nil {
			continue
		}
		lapsed := v.lapsed(fleet)
		sequences = append(sequences, func(yield func(api.Autoscaler) bool) {
			for a := range d.AutoscalersAfter(name) {
				addError(&a, lapsed)
				if !yield(a) {
					return
				}
			}
		})
	}
	for _, p := range v.refreshed() {
		list, _, _ := p.lists()
		sequences = append(sequences, func(yield func(api.Autoscaler) bool) {
			for _, a := range list {
				fleet := v.FleetOf(a.Name)
				owner := view.Fleets[fleet].Owner
				moved := fleet != Own && (here[fleet] || owner != "" && owner != p.name)
				if a.Name <= name || moved {
					continue
				}
				if addError(&a, p.outdatedText(&a)); !yield(a) {
					return
				}
			}
		})
	}
	listed := merge(sequences)
	if active := v.active.Load(); v.whole && active != nil {
		return v.completed(listed, active.whole, name)
	}
	return listed
}

// completed adds the configured autoscalers that no member lists. It adds only names that sort
// after the given name.
func (v *clusterView) completed(listed iter.Seq[api.Autoscaler], whole *config.Config, name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		peers, names := v.peers(), slices.Collect(maps.Keys(whole.Autoscalers))
		for fleet := range v.unlistedFleets() {
			if whole.Fleets[fleet].Discover {
				stored, _ := v.stored(fleet) // after an error, only the owner knows the names
				names = append(names, stored.Discovered()...)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		first, found := slices.BinarySearch(names, name)
		if found {
			first++
		}
		names = names[first:]
		for a := range listed {
			for len(names) > 0 && names[0] < a.Name {
				if !yield(v.asStored(whole, names[0])) {
					return
				}
				names = names[1:]
			}
			if len(names) > 0 && names[0] == a.Name {
				names = names[1:]
			}
			v.addDuplicates(&a, peers)
			if !yield(a) {
				return
			}
		}
		for _, each := range names {
			if !yield(v.asStored(whole, each)) {
				return
			}
		}
	}
}

// asStored returns an autoscaler with its configuration, its last status in the cluster store, and
// the reason why its current status is unknown.
func (v *clusterView) asStored(whole *config.Config, name string) api.Autoscaler {
	fleet, c := v.FleetOf(name), whole.Autoscalers[name]
	if c == nil { // labels define it
		_, target, _ := strings.Cut(name, "/")
		c = &config.Autoscaler{Name: name, Target: targets.Ref{Fleet: fleet, Name: target}}
	}
	scheduled, _ := c.At(time.Now())
	view := status.AsConfigured(scheduled, whole.Fleets[c.Target.Fleet].Kind)
	view.Evaluation = api.Evaluation{Unevaluated: true, Error: v.unlisted(fleet).Error()}
	stored, err := v.stored(fleet)
	stored.Add(&view, fleet)
	if err != nil {
		addError(&view, "its last status is unknown: "+err.Error())
	}
	return view
}

// statuses caches the stored status of fleets whose owner does not respond.
type statuses struct {
	mu   sync.Mutex
	read map[string]storedStatus
}

// storedStatus is the result of reading the status of a fleet from the cluster store.
type storedStatus struct {
	*status.Stored
	err error
	at  time.Time
}

// stored returns the last status of the autoscalers of a shared fleet, which it reads from the
// cluster store at most once within listTTL. It returns nil for the host's own fleets, and while
// this member cannot reach the store.
func (v *clusterView) stored(fleet string) (*status.Stored, error) {
	if fleet == Own || !v.whole || v.unreached.Exists() {
		return nil, nil
	}
	v.statuses.mu.Lock()
	maps.DeleteFunc(v.statuses.read, func(_ string, s storedStatus) bool { return time.Since(s.at) >= listTTL })
	s, fresh := v.statuses.read[fleet]
	v.statuses.mu.Unlock()
	if fresh {
		return s.Stored, s.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	values := map[string][]byte{}
	s.err = v.options.Coordinator.Load(ctx, fleet, func(key string, value []byte) error {
		values[key] = value
		return nil
	})
	if s.Stored = nil; s.err == nil {
		s.Stored, s.err = status.NewStored(values)
	}
	s.at = time.Now()
	v.statuses.mu.Lock()
	defer v.statuses.mu.Unlock()
	v.statuses.read[fleet] = s
	return s.Stored, s.err
}

// unlistedFleets yields the shared fleets whose autoscalers no member lists.
func (v *clusterView) unlistedFleets() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, fleet := range v.Fleets() {
			listed := v.Daemon(fleet) != nil
			if _, p := v.ownerOf(fleet); p != nil {
				_, _, err := p.lists()
				listed = listed || err == nil
			}
			if !listed && !yield(fleet) {
				return
			}
		}
	}
}

// unlisted returns the reason why no member lists an autoscaler of a fleet.
func (v *clusterView) unlisted(fleet string) error {
	if d, starting := v.running(fleet); fleet == Own || d != nil || starting {
		return fmt.Errorf("member %s is starting the fleet", v.options.Member.Name)
	}
	owner, p := v.ownerOf(fleet)
	if p == nil {
		return v.ownerError(fleet, owner)
	}
	if _, _, err := p.lists(); err != nil {
		return fmt.Errorf("member %s, which owns the fleet, does not respond: %w", p.name, err)
	}
	return fmt.Errorf("member %s, which owns the fleet, does not list the autoscaler: the member is starting, or its configuration differs", p.name)
}

// addError adds a text to the error of an autoscaler, unless the text is empty.
func addError(a *api.Autoscaler, text string) {
	a.Evaluation.Error = joinTexts(a.Evaluation.Error, text)
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// lapsed returns an error message if this member still runs a fleet although the member's lease has
// ended, and "" otherwise. Another member may then own the fleet and have newer data.
func (v *clusterView) lapsed(fleet string) string {
	r := v.runOf(fleet)
	if r == nil || r.daemon.Load() == nil || time.Now().Before(r.until()) {
		return ""
	}
	return fmt.Sprintf("the lease of member %s has ended, and another member may own the fleet", v.options.Member.Name)
}

// addDuplicates adds an error to an autoscaler in a host's own fleet if another host has an
// autoscaler with the same name.
func (v *clusterView) addDuplicates(a *api.Autoscaler, peers []*peer) {
	if v.FleetOf(a.Name) != Own {
		return
	}
	var names []string
	if active := v.active.Load(); active != nil && active.own.Autoscalers[a.Name] != nil {
		names = append(names, v.options.Member.Name)
	}
	for _, p := range peers {
		if p.isListed(a.Name) {
			names = append(names, p.name)
		}
	}
	if len(names) > 1 { // the first one is shown
		addError(a, fmt.Sprintf("only the autoscaler on %s is shown; other hosts have an autoscaler with the same name: %s", names[0], strings.Join(names[1:], ", ")))
	}
}

func (v *clusterView) Autoscaler(name string) (api.Autoscaler, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	fleet := v.FleetOf(name)
	d, owner, _ := v.find(ctx, policy.Scope{Autoscaler: name}) // if this fails, use the stored status
	missing := false
	if d != nil && (fleet == Own || d.AwaitRunning(ctx) == nil) {
		view, ok := d.Autoscaler(name)
		if ok {
			addError(&view, v.lapsed(fleet))
			v.addDuplicates(&view, v.peers())
			return view, true
		}
		missing = true
	}
	if owner != nil {
		view, err := api.Get[api.Autoscaler](ctx, owner.client, api.Path("autoscalers", name), nil)
		if err == nil {
			addError(&view, owner.outdatedText(&view))
			return view, true
		}
		if missing = errors.Is(err, api.ErrNotFound); !missing {
			owner.note(err)
		}
	}
	// The labels of a target may define an autoscaler that is not configured. Only the owner of the
	// fleet reads them.
	active := v.active.Load()
	if v.whole && active != nil && (active.whole.Autoscalers[name] != nil || !missing && fleet != Own && active.whole.Fleets[fleet].Discover) {
		return v.asStored(active.whole, name), true
	}
	return api.Autoscaler{}, false
}

func (v *clusterView) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	return readFrom(ctx, v, policy.Scope{Autoscaler: name},
		func(d *daemon.Daemon) (api.InstanceList, error) { return d.InstancesOf(ctx, name) },
		func(owner *api.Client) (api.InstanceList, error) {
			return api.Get[api.InstanceList](ctx, owner, api.Path("autoscalers", name, "instances"), nil)
		})
}

func (v *clusterView) WriteLogs(ctx context.Context, name, instance string, query targets.LogQuery, to io.Writer) error {
	d, owner, err := v.find(ctx, policy.Scope{Autoscaler: name})
	switch {
	case err != nil:
		return err
	case d != nil:
		return d.WriteLogs(ctx, name, instance, query, to)
	}
	err = owner.client.Logs(ctx, name, instance, query, func(line string) error {
		_, err := io.WriteString(to, line+"\n")
		return err
	})
	if _, rejected := errors.AsType[*api.Error](err); rejected {
		return api.Forwarded(err)
	}
	return err
}

func (v *clusterView) Endpoints(ctx context.Context, ref targets.Ref) ([]api.EndpointGroup, error) {
	d, owner, err := v.find(ctx, policy.Scope{Fleet: ref.Fleet})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", api.ErrUnread, err)
	case d != nil:
		return d.Endpoints(ctx, ref)
	}
	return owner.client.Endpoints(ctx, ref)
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
	for fleet := range v.unlistedFleets() {
		stored, _ := v.stored(fleet) // after an error, the pauses are unknown
		all = append(all, stored.Pauses()...)
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
