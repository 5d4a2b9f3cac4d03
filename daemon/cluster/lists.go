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

// autoscalers returns the autoscalers that this member's daemons manage.
func (c *Cluster) autoscalers() iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		for _, d := range c.daemons() {
			for a := range d.AutoscalersAfter("") {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// AutoscalersAfter implements [api.Daemon]. It contains every configured autoscaler. If no member
// lists an autoscaler, it uses the last status in the cluster store.
func (v *clusterView) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		l := lister{clusterView: v, peers: v.refreshed()}
		l.unlisted = slices.Collect(v.unlistedFleets()) // uses the lists that refreshed has read
		l.view, _, _ = v.View()
		names := l.names()
		first, found := slices.BinarySearch(names, name)
		if found {
			first++
		}
		for _, each := range names[first:] {
			if a, ok := l.listed(each); ok && !yield(a) {
				return
			}
		}
	}
}

// lister makes one list of autoscalers.
type lister struct {
	*clusterView
	peers []*peer
	// unlisted contains the fleets that no member lists.
	unlisted []string
	view     View
}

// names returns the sorted names of the listed and the configured autoscalers, and of the autoscalers
// that labels define in unlisted fleets.
func (l *lister) names() (all []string) {
	for _, d := range l.daemons() {
		all = append(all, d.Names()...)
	}
	for _, p := range l.peers {
		list, _, _ := p.lists()
		for i := range list {
			all = append(all, list[i].Name)
		}
	}
	if active := l.active.Load(); l.whole && active != nil {
		all = slices.AppendSeq(all, maps.Keys(active.whole.Autoscalers))
		for _, fleet := range l.unlisted {
			if active.whole.Fleets[fleet].Discover {
				stored, _ := l.stored(fleet) // after an error, only the owner knows the names
				all = append(all, stored.Discovered()...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// listed returns an autoscaler from this member's daemon, or from the list of the member that runs it,
// or with its last status in the cluster store. Two hosts may have own fleets with equal names; the
// first one is used.
func (l *lister) listed(name string) (api.Autoscaler, bool) {
	fleet := l.FleetOf(name)
	d := l.Daemon(fleet)
	if d != nil {
		if a, ok := d.Listed(name); ok {
			addError(&a, l.lapsed(fleet))
			l.addDuplicates(&a, l.peers)
			return a, true
		}
	}
	owner := l.view.Fleets[fleet].Owner
	for _, p := range l.peers {
		if fleet != Own && (d != nil || owner != "" && owner != p.name) { // the fleet has moved since p was read
			continue
		}
		if a, ok := p.listed(name); ok {
			addError(&a, p.outdatedText(&a))
			l.addDuplicates(&a, l.peers)
			return a, true
		}
	}
	active := l.active.Load()
	if !l.whole || active == nil || active.whole.Autoscalers[name] == nil && !slices.Contains(l.unlisted, fleet) {
		return api.Autoscaler{}, false
	}
	return l.asStored(active.whole, name), true
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

// statuses caches the stored status of fleets without a responding owner.
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

// unlistedFleets yields the shared fleets that no member lists.
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
		return nil, targets.WithClass(api.ErrUnread, err)
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
