package cluster

import (
	"context"
	"fmt"
	"maps"
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
	// verifyTimeout is the time limit for verifying a history. It is longer than the client's own limit.
	verifyTimeout = 10 * time.Minute
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
	// at is the time when the lists were read, or zero if they are outdated.
	at     time.Time
	list   []api.Autoscaler
	pauses []policy.Pause
	// found is the member's description of the cluster, or empty if it did not respond.
	found api.Cluster
	// offset is the time by which the member's clock is ahead of this host's clock, or nil if
	// unknown. skew is the part of it that is longer than the possible error of the measurement.
	offset *time.Duration
	skew   time.Duration
	err    error
}

// known maps names and addresses to the other members, including former members.
type known struct {
	mu    sync.Mutex
	peers map[string]*peer
}

// peers returns the other members, sorted by name, or nil if v covers only this member.
func (v *clusterView) peers() (all []*peer) {
	if !v.whole || v.options.Peer == nil {
		return nil
	}
	view, _, _ := v.View()
	v.known.mu.Lock()
	defer v.known.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(view.Members)) {
		address := view.Members[name].Address
		if name == v.options.Member.Name || address == "" { // an import has no address
			continue
		}
		key := name + " " + address
		if v.known.peers[key] == nil {
			v.known.peers[key] = &peer{name: name, client: v.options.Peer(address).For(v.options.Member.Name)}
		}
		all = append(all, v.known.peers[key])
	}
	return all
}

// refreshed reads outdated lists of the other members again, and returns the members.
func (v *clusterView) refreshed() []*peer {
	peers := v.peers()
	guard.Each(len(peers), peers, func(_ int, p *peer) error {
		p.refresh()
		return nil
	})
	return peers
}

// refresh reads the lists of the member again if they are older than listTTL. It discards newer lists
// if the member does not respond.
func (p *peer) refresh() {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	fresh, failed := time.Since(p.at) < listTTL, p.err != nil
	if !fresh {
		p.at = time.Now() // forget resets it during the read, because the lists may lack the last write
	}
	p.mu.Unlock()
	if fresh && failed {
		return
	}
	err := p.measure(context.Background())
	if fresh && err == nil {
		return
	}
	var list []api.Autoscaler
	var pauses []policy.Pause
	if err == nil {
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
	if !p.at.IsZero() {
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
	if p.offset, p.skew, p.found = nil, 0, found; err == nil {
		offset := found.Time.Sub(sent.Add(half)).Round(time.Millisecond)
		p.offset, p.skew = &offset, offset-min(max(offset, -half), half)
	}
	return err
}

func (p *peer) lists() ([]api.Autoscaler, []policy.Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, p.pauses, p.err
}

// Names implements [lister]. The lists are the last ones that the member has returned.
func (p *peer) Names() []string {
	list, _, _ := p.lists()
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names
}

// Pauses implements [lister].
func (p *peer) Pauses() []policy.Pause {
	_, pauses, _ := p.lists()
	return pauses
}

// Listed implements [lister].
func (p *peer) Listed(name string) (api.Autoscaler, bool) {
	list, _, _ := p.lists()
	i, found := slices.BinarySearchFunc(list, name, func(a api.Autoscaler, name string) int { return strings.Compare(a.Name, name) })
	if !found {
		return api.Autoscaler{}, false
	}
	return list[i], true
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
	p.at = time.Time{}
}

// forgetLists marks the lists of the other members as outdated.
func (c *Cluster) forgetLists() {
	for _, p := range (&clusterView{c, true}).peers() {
		p.forget()
	}
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
	case p.skew.Abs() <= allowedSkew:
		return ""
	case p.skew > 0:
		return fmt.Sprintf("its clock is %s ahead of this host: synchronize both with NTP", *p.offset)
	}
	return fmt.Sprintf("its clock is %s behind this host: synchronize both with NTP", p.offset.Abs())
}

// compareClocks measures the clocks of the other members. It also reads the autoscalers of members
// whose last read failed, because health checks report the error of the last read.
func (c *Cluster) compareClocks(ctx context.Context) {
	peers := (&clusterView{c, true}).peers()
	guard.Each(len(peers), peers, func(_ int, p *peer) error {
		if _, _, failed := p.lists(); failed != nil || p.measure(ctx) != nil && ctx.Err() == nil {
			p.forget()
			p.refresh()
		}
		return nil
	})
}

// offsets returns the minimum time by which the other members' clocks are ahead of this host's
// clock, in seconds. A negative value means that the clock is behind.
func (c *Cluster) offsets() map[string]float64 {
	all := map[string]float64{}
	for _, p := range (&clusterView{c, true}).peers() {
		p.mu.Lock()
		if p.offset != nil {
			all[p.name] = p.skew.Seconds()
		}
		p.mu.Unlock()
	}
	return all
}
