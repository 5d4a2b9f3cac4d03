package cluster

import (
	"context"
	"errors"
	"fmt"
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

// lister is a source of the cluster's lists: a daemon of this member, another member, or the cluster
// store.
type lister interface {
	Names() []string
	// Listed returns an autoscaler as in a list, and false if the source does not list it.
	Listed(name string) (api.Autoscaler, bool)
	Pauses() []policy.Pause
}

// listers returns all sources of lists. If several sources list an autoscaler, the first one is used.
func (v *clusterView) listers() (all []lister) {
	for _, d := range v.daemons() {
		all = append(all, d)
	}
	for _, p := range v.refreshed() {
		all = append(all, p)
	}
	if active := v.active.Load(); v.whole && active != nil {
		all = append(all, lastStatus{v, active.whole, v.unlisted()})
	}
	return all
}

// AutoscalersAfter implements [api.Daemon]. It contains every configured autoscaler. If no member
// lists an autoscaler, it uses the last status in the cluster store.
func (v *clusterView) AutoscalersAfter(after string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		sources := map[string][]lister{}
		for _, l := range v.listers() {
			for _, name := range l.Names() {
				if name > after {
					sources[name] = append(sources[name], l)
				}
			}
		}
		view, _, _ := v.View()
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			owner := view.Fleets[v.FleetOf(name)].Owner
			for _, l := range sources[name] {
				if p, is := l.(*peer); is && owner != "" && owner != p.name { // the fleet has moved since p was read
					continue
				}
				a, ok := l.Listed(name)
				if ok && !yield(v.noted(a, l)) {
					return
				} else if ok {
					break
				}
			}
		}
	}
}

// Pauses returns a pause of all autoscalers only once, although each daemon has it.
func (v *clusterView) Pauses() (all []policy.Pause) {
	for _, l := range v.listers() {
		all = append(all, l.Pauses()...)
	}
	slices.SortStableFunc(all, records.ComparePauses)
	return slices.CompactFunc(all, func(a, b policy.Pause) bool { return a.Scope == b.Scope })
}

// Discovered implements [api.Daemon]. It contains the targets of the fleets that this member runs.
func (v *clusterView) Discovered() (all []api.Discovered) {
	for _, d := range v.daemons() {
		all = append(all, d.Discovered()...)
	}
	slices.SortFunc(all, func(a, b api.Discovered) int { return strings.Compare(a.Reference, b.Reference) })
	return all
}

// Autoscaler implements [api.Daemon].
func (v *clusterView) Autoscaler(name string) (api.Autoscaler, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	fleet, missing := v.FleetOf(name), false
	d, p, _ := v.find(ctx, policy.Scope{Autoscaler: name}) // if this fails, use the stored status
	switch {
	case d != nil && (fleet == Own || d.AwaitRunning(ctx) == nil):
		if a, ok := d.Autoscaler(name); ok {
			return v.noted(a, d), true
		}
		missing = true
	case p != nil:
		a, err := api.Get[api.Autoscaler](ctx, p.client, api.Path("autoscalers", name), nil)
		if err == nil {
			return v.noted(a, p), true
		}
		if missing = errors.Is(err, api.ErrNotFound); !missing {
			p.note(err)
		}
	}
	active := v.active.Load()
	// Only the owner of the fleet reads the labels that may define the autoscaler.
	if v.whole && active != nil && (active.whole.Autoscalers[name] != nil || !missing && fleet != Own && active.whole.Fleets[fleet].Discover) {
		return lastStatus{v, active.whole, nil}.Listed(name)
	}
	return api.Autoscaler{}, false
}

// noted adds notes to an autoscaler from a source: its status may be outdated, and other hosts may have
// an autoscaler with the same name in their own fleets.
func (v *clusterView) noted(a api.Autoscaler, from lister) api.Autoscaler {
	fleet, host, outdated, hidden := v.FleetOf(a.Name), v.options.Member.Name, "", ""
	switch from := from.(type) {
	case *daemon.Daemon:
		outdated = v.lapsed(fleet)
	case *peer:
		host, outdated = from.name, from.outdatedText(&a)
	}
	if fleet == Own {
		var others []string
		for _, p := range v.peers() {
			if _, ok := p.Listed(a.Name); ok && p.name != host {
				others = append(others, p.name)
			}
		}
		if len(others) > 0 {
			hidden = fmt.Sprintf("only the autoscaler on %s is shown; other hosts have an autoscaler with the same name: %s", host, strings.Join(others, ", "))
		}
	}
	a.Evaluation.Error = joinTexts(a.Evaluation.Error, outdated, hidden)
	return a
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

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// isListed reports whether a member lists the autoscalers of a fleet. reason explains why an autoscaler
// of the fleet is in no list.
func (v *clusterView) isListed(fleet string) (listed bool, reason error) {
	d, starting := v.running(fleet)
	owner, p := v.ownerOf(fleet)
	if p != nil {
		_, _, reason = p.lists()
	}
	switch {
	case p != nil && d == nil && reason == nil:
		return true, fmt.Errorf("member %s, which owns the fleet, does not list the autoscaler: the member is starting, or its configuration differs", p.name)
	case fleet == Own || d != nil || starting:
		return !starting, fmt.Errorf("member %s is starting the fleet", v.options.Member.Name)
	case p != nil:
		return false, fmt.Errorf("member %s, which owns the fleet, does not respond: %w", p.name, reason)
	}
	return false, v.ownerError(fleet, owner)
}

// unlisted returns the shared fleets that no member lists.
func (v *clusterView) unlisted() []string {
	return slices.DeleteFunc(v.Fleets(), func(fleet string) bool {
		listed, _ := v.isListed(fleet)
		return listed
	})
}

// lastStatus lists every configured autoscaler with its last status in the cluster store, and the
// autoscalers that labels define in unlisted fleets.
type lastStatus struct {
	*clusterView
	whole *config.Config
	// unlisted contains the fleets that no member lists.
	unlisted []string
}

func (l lastStatus) Names() []string {
	all := slices.Collect(maps.Keys(l.whole.Autoscalers))
	for _, fleet := range l.unlisted {
		if l.whole.Fleets[fleet].Discover {
			stored, _ := l.stored(fleet) // after an error, only the owner knows the names
			all = append(all, stored.Discovered()...)
		}
	}
	return all
}

// Listed returns an autoscaler with its configuration, its last status, and the reason why its current
// status is unknown. Labels define an autoscaler that is not configured.
func (l lastStatus) Listed(name string) (api.Autoscaler, bool) {
	fleet, c := l.FleetOf(name), l.whole.Autoscalers[name]
	if c == nil {
		_, target, _ := strings.Cut(name, "/")
		c = &config.Autoscaler{Name: name, Target: targets.Ref{Fleet: fleet, Name: target}}
	}
	scheduled, _ := c.At(time.Now())
	view := status.AsConfigured(scheduled, l.whole.Fleets[c.Target.Fleet].Kind)
	_, reason := l.isListed(fleet)
	stored, err := l.stored(fleet)
	if err != nil {
		reason = fmt.Errorf("%w; its last status is unknown: %w", reason, err)
	}
	view.Evaluation = api.Evaluation{Unevaluated: true, Error: reason.Error()}
	stored.Add(&view, fleet)
	return view, true
}

func (l lastStatus) Pauses() (all []policy.Pause) {
	for _, fleet := range l.unlisted {
		stored, _ := l.stored(fleet) // after an error, the pauses are unknown
		all = append(all, stored.Pauses()...)
	}
	return all
}

// statuses caches reads of the cluster store by fleet.
type statuses struct {
	mu    sync.Mutex
	reads map[string]storedStatus
}

// storedStatus is a read of the status of a fleet, which began at the given time.
type storedStatus struct {
	at     time.Time
	result func() (*status.Stored, error)
}

// stored returns the last status of the autoscalers of a shared fleet, which it reads from the
// cluster store at most once within listTTL. It returns nil for the host's own fleets, and while
// this member cannot reach the store.
func (c *Cluster) stored(fleet string) (*status.Stored, error) {
	if fleet == Own || c.unreached.Exists() {
		return nil, nil
	}
	c.statuses.mu.Lock()
	maps.DeleteFunc(c.statuses.reads, func(_ string, s storedStatus) bool { return time.Since(s.at) >= listTTL })
	s, ok := c.statuses.reads[fleet]
	if !ok {
		s = storedStatus{time.Now(), sync.OnceValues(func() (*status.Stored, error) {
			ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
			defer cancel()
			values, err := loadFleet(ctx, c.options.Coordinator, fleet)
			if err != nil {
				return nil, err
			}
			return status.NewStored(values)
		})}
		c.statuses.reads[fleet] = s
	}
	c.statuses.mu.Unlock()
	return s.result()
}
