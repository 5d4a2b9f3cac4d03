package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

const (
	// peerTimeout is the default time limit for a request to another member.
	peerTimeout = 3 * time.Second
	// listTTL is the time after which a list of autoscalers is read again, from another member or
	// from the store. listTimeout is the time limit for reading it, because a list of 100,000
	// autoscalers takes seconds.
	listTTL     = 5 * time.Second
	listTimeout = 20 * time.Second
	// clockInterval is the interval between comparisons of the members' clocks.
	clockInterval = 15 * time.Second
	// allowedSkew is the largest difference between two members' clocks that is not reported.
	allowedSkew = time.Second
)

// peer is another member with its last responses.
type peer struct {
	name   string
	client *api.Client

	// reading is locked while the lists are read.
	reading sync.Mutex

	// mu guards the following fields.
	mu sync.Mutex
	// at is the time when the lists were read. outdated is the number of calls to forget.
	at       time.Time
	outdated int
	list     []api.Autoscaler
	pauses   []policy.Pause
	// found is the member's description of the cluster, or empty if it did not respond.
	found api.Cluster
	// offset is the time by which the member's clock is ahead of this host's clock, or nil if
	// unknown. Its error is at most uncertainty.
	offset      *time.Duration
	uncertainty time.Duration
	err         error
}

// known maps names and addresses to the other members, including former members.
type known struct {
	mu    sync.Mutex
	peers map[string]*peer
}

// peers returns the other members, sorted by name, or nil if v covers only this member.
func (v *clusterView) peers() []*peer {
	if !v.whole || v.options.Peer == nil {
		return nil
	}
	view, _, _ := v.View()
	v.known.mu.Lock()
	defer v.known.mu.Unlock()
	var all []*peer
	for _, name := range slices.Sorted(maps.Keys(view.Members)) {
		member := view.Members[name]
		if name == v.options.Member.Name || member.Address == "" { // an import has no address
			continue
		}
		key := name + " " + member.Address
		p := v.known.peers[key]
		if p == nil {
			p = &peer{name: name, client: v.options.Peer(member.Address).For(v.options.Member.Name)}
			v.known.peers[key] = p
		}
		all = append(all, p)
	}
	return all
}

// refreshed reads outdated lists of the other members again, and returns the members.
func (v *clusterView) refreshed() []*peer {
	peers := v.peers()
	var all guard.Group
	for _, p := range peers {
		all.Go(func() error {
			p.refresh()
			return nil
		})
	}
	_ = all.Wait()
	return peers
}

// gone returns the names of former members, sorted.
func (v *clusterView) gone(view View) []string {
	v.known.mu.Lock()
	defer v.known.mu.Unlock()
	names := map[string]bool{}
	for _, p := range v.known.peers {
		if _, is := view.Members[p.name]; !is {
			names[p.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// refresh reads the lists of the member again if they are older than listTTL. It discards newer lists
// if the member does not respond.
func (p *peer) refresh() {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	fresh, failed, outdated := time.Since(p.at) < listTTL, p.err != nil, p.outdated
	p.mu.Unlock()
	if fresh && failed {
		return
	}
	var list []api.Autoscaler
	var pauses []policy.Pause
	err := p.measure(context.Background())
	switch {
	case fresh && err == nil:
		return
	case err == nil:
		ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
		defer cancel()
		if list, err = p.client.Autoscalers(ctx); err == nil {
			pauses, err = api.Get[[]policy.Pause](ctx, p.client, api.Path("pauses"), nil)
		}
	}
	if err != nil {
		list, pauses = nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.pauses, p.err = list, pauses, err
	if p.outdated == outdated { // otherwise the lists may lack the last write
		p.at = time.Now()
	}
}

// measure reads the member's clock and the lateness of its fleets.
func (p *peer) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	sent := time.Now()
	found, err := api.Get[api.Cluster](ctx, p.client, api.Path("cluster"), nil)
	half := time.Since(sent) / 2
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offset, p.found = nil, found; err == nil {
		offset := found.Time.Sub(sent.Add(half)).Round(time.Millisecond)
		p.offset, p.uncertainty = &offset, half
	}
	return err
}

func (p *peer) lists() ([]api.Autoscaler, []policy.Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, p.pauses, p.err
}

// listed returns an autoscaler in the member's last list.
func (p *peer) listed(name string) (api.Autoscaler, bool) {
	list, _, _ := p.lists()
	i, found := slices.BinarySearchFunc(list, name, func(a api.Autoscaler, name string) int { return strings.Compare(a.Name, name) })
	if !found {
		return api.Autoscaler{}, false
	}
	return list[i], true
}

// isListed reports whether the member's last list contains an autoscaler.
func (p *peer) isListed(name string) bool {
	_, is := p.listed(name)
	return is
}

func (p *peer) latenessOf(fleet string) *float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.found.Fleets, func(f api.ClusterFleet) bool { return f.Name == fleet }); i >= 0 {
		return p.found.Fleets[i].LateSeconds
	}
	return nil
}

// note records whether the member responds. After an error, the next request reads the lists again.
func (p *peer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err != nil {
		p.at = time.Time{}
	}
}

// forget marks the lists as outdated after a write, so that the next request reads them again.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.outdated = time.Time{}, p.outdated+1
}

// A status is outdated if it is older than outdatedPeriods sync periods and older than outdatedAfter,
// because the lists of other members are up to listTTL old.
const (
	outdatedPeriods = 2
	outdatedAfter   = 2 * listTTL
)

// outdatedText returns a note if the status of an autoscaler is outdated although the member responds,
// and "" otherwise. It does not repeat a reason that the member itself reports.
func (p *peer) outdatedText(a *api.Autoscaler) string {
	e := &a.Evaluation
	if e.Unevaluated || e.Last.IsZero() {
		return ""
	}
	now := time.Now()
	p.mu.Lock()
	if p.offset != nil {
		now = now.Add(*p.offset)
	}
	p.mu.Unlock()
	limit := max(time.Duration(outdatedPeriods*a.SyncPeriodSeconds*float64(time.Second)), outdatedAfter)
	if now.Sub(e.Last) <= limit {
		return ""
	}
	return fmt.Sprintf("member %s responds, but has not evaluated the autoscaler since %s", p.name, e.Last.UTC().Format(time.RFC3339))
}

func (p *peer) describe(m *api.ClusterMember) {
	m.Problem = p.skewed()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offset != nil {
		seconds := p.offset.Seconds()
		m.ClockOffsetSeconds = &seconds
	}
	if p.err != nil {
		m.Problem = p.err.Error()
	}
}

// skewed describes the difference between the member's clock and this host's clock. It returns ""
// if the difference is at most allowedSkew.
func (p *peer) skewed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.offset == nil || p.offset.Abs()-p.uncertainty <= allowedSkew:
		return ""
	case *p.offset > 0:
		return fmt.Sprintf("its clock is %s ahead of this host: synchronize both with NTP", *p.offset)
	}
	return fmt.Sprintf("its clock is %s behind this host: synchronize both with NTP", p.offset.Abs())
}

// compareClocks regularly measures the clocks of the other members. It also reads the autoscalers
// of members whose last read failed, because health checks report the error of the last read.
func (c *Cluster) compareClocks(ctx context.Context) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var all guard.Group
		for _, p := range (&clusterView{c, true}).peers() {
			all.Go(func() error {
				_, _, failed := p.lists()
				if failed != nil || p.measure(ctx) != nil && ctx.Err() == nil {
					p.forget()
					p.refresh()
				}
				return nil
			})
		}
		_ = all.Wait()
	}
}

// offsets returns the minimum time by which the other members' clocks are ahead of this host's
// clock, in seconds. A negative value means that the clock is behind.
func (c *Cluster) offsets() map[string]float64 {
	all := map[string]float64{}
	for _, p := range (&clusterView{c, true}).peers() {
		p.mu.Lock()
		if p.offset != nil {
			offset := max(p.offset.Abs()-p.uncertainty, 0).Seconds()
			all[p.name] = math.Copysign(offset, p.offset.Seconds())
		}
		p.mu.Unlock()
	}
	return all
}
