package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/page"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

const (
	// askWait bounds how long another member is waited for where the caller names no time,
	// and keptFor is how long its list is shown before it is asked again.
	askWait = 3 * time.Second
	keptFor = 5 * time.Second
	// listWait bounds how long the list of another member may take once it has answered:
	// one of 100,000 autoscalers takes some seconds.
	listWait = 20 * time.Second
	// begunEvery is how often is looked whether a daemon has begun.
	begunEvery = 50 * time.Millisecond
	// actWait bounds how long all members are waited for that are asked to do something.
	actWait = 20 * time.Second
	// clockEvery is how often the other members are asked for their time.
	clockEvery = 15 * time.Second
	// allowedSkew is how far the clocks of two members may differ without being told.
	allowedSkew = time.Second
)

// face is what a member shows: of the whole cluster, or of what it runs alone.
type face struct {
	*member
	whole bool
}

// member is a Cluster, whose name is that of a method of its face.
type member = Cluster

var (
	_ page.Daemon   = (*face)(nil)
	_ api.Clustered = (*face)(nil)
)

// Whole returns what any member shows of the whole cluster.
func (c *Cluster) Whole() page.Daemon { return &face{c, true} }

// Alone returns what this member runs itself, for the others.
func (c *Cluster) Alone() page.Daemon { return &face{c, false} }

// peer is another member, and what it last said.
type peer struct {
	name   string
	client *api.Client

	// asking is held while the member is asked for its list.
	asking sync.Mutex

	mu sync.Mutex
	// at is when that was, forgotten how often it was made to be asked anew.
	at        time.Time
	forgotten int
	list      []api.Autoscaler
	pauses    []policy.Pause
	// late is by how much what it runs is late, by fleet, in seconds.
	late map[string]float64
	// ahead is how far its clock is ahead of this machine's; nil where it did not say.
	// unsure is by how much that may be wrong.
	ahead  *time.Duration
	unsure time.Duration
	err    error
}

// peers returns the other members, in the order of names; none where the face is of one
// alone.
func (f *face) peers() []*peer {
	if !f.whole || f.options.Peer == nil {
		return nil
	}
	view, _, _ := f.View()
	f.peersMu.Lock()
	defer f.peersMu.Unlock()
	var all []*peer
	for _, name := range slices.Sorted(maps.Keys(view.Members)) {
		member := view.Members[name]
		if name == f.options.Member.Name {
			continue
		}
		key := name + " " + member.Address
		p := f.known[key]
		if p == nil {
			p = &peer{name: name, client: f.options.Peer(member.Address).For(f.options.Member.Name)}
			f.known[key] = p
		}
		all = append(all, p)
	}
	return all
}

// gone returns the members that there were and are none any more, in the order of names.
func (f *face) gone(view View) []*peer {
	if !f.whole {
		return nil
	}
	f.peersMu.Lock()
	defer f.peersMu.Unlock()
	byName := map[string]*peer{}
	for _, p := range f.known {
		if _, is := view.Members[p.name]; !is {
			byName[p.name] = p
		}
	}
	var gone []*peer
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		gone = append(gone, byName[name])
	}
	return gone
}

// departed returns the members that decided for an autoscaler since an instant, and are none
// any more, in the order of names, as far as the history is kept for so long. Of one on a
// machine of its own they are those that this member has seen.
func (f *face) departed(view View, autoscaler string, since time.Time) []string {
	if !f.whole {
		return nil
	}
	names := map[string]bool{}
	if f.FleetOf(autoscaler) == Own {
		for _, p := range f.gone(view) {
			names[p.name] = true
		}
	}
	kept := time.Now().Add(-state.DefaultRetention)
	owner := view.Fleets[f.FleetOf(autoscaler)]
	names[owner.Last] = true
	for _, past := range owner.Past {
		if past.Until.After(since) && past.Until.After(kept) {
			names[past.Name] = true
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool {
		_, is := view.Members[name]
		return is || name == ""
	})
	return slices.Sorted(maps.Keys(names))
}

// orphans returns the members that are gone and whose fleets nobody has taken over, as
// they were last.
func (f *face) orphans(view View) []*peer {
	return slices.DeleteFunc(f.gone(view), func(p *peer) bool {
		for _, fleet := range f.Fleets() {
			if o := view.Fleets[fleet]; o.Owner == "" && o.Last == p.name {
				p.outdate("its owner is gone")
				return false
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = nil
		return true
	})
}

// outdate marks what the member said last as not up to date.
func (p *peer) outdate(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outdateLocked(why)
}

func (p *peer) outdateLocked(why string) {
	p.list = slices.Clone(p.list) // somebody may read it
	for i := range p.list {
		e := &p.list[i].Evaluation
		e.Unevaluated, e.Error = true, "not up to date: "+why
	}
}

// refresh asks a member again what it runs, unless that is known.
func (p *peer) refresh() {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.mu.Lock()
	known, forgotten := time.Since(p.at) < keptFor, p.forgotten
	p.mu.Unlock()
	if known {
		return
	}
	var list []api.Autoscaler
	var pauses []policy.Pause
	err := p.measure(context.Background())
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), listWait)
		defer cancel()
		if list, err = p.client.Autoscalers(ctx); err == nil {
			pauses, err = p.client.Pauses(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if p.forgotten == forgotten { // else what was done meanwhile may be missing
		p.at = time.Now()
	}
	if err != nil {
		p.outdateLocked(fmt.Sprintf("its owner %s does not answer: %v", p.name, err))
		return
	}
	p.list, p.pauses = list, pauses
}

// measure asks the member for its time, and for how late it is.
func (p *peer) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	sent := time.Now()
	said, err := p.client.Cluster(ctx)
	half := time.Since(sent) / 2
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ahead, p.late = nil, nil; err == nil {
		ahead := said.Time.Sub(sent.Add(half)).Round(time.Millisecond)
		p.ahead, p.unsure, p.late = &ahead, half, map[string]float64{}
		for _, fleet := range said.Fleets {
			if fleet.LateSeconds != nil {
				p.late[fleet.Name] = *fleet.LateSeconds
			}
		}
	}
	return err
}

// compareClocks asks the other members for their time until ctx ends.
func (c *Cluster) compareClocks(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var asked sync.WaitGroup
		for _, p := range (&face{c, true}).peers() {
			asked.Go(func() { _ = p.measure(ctx) }) // who does not answer has no offset
		}
		asked.Wait()
	}
}

// offsets returns how far the clocks of the other members are ahead of this machine's at
// least, in seconds; below zero is behind.
func (c *Cluster) offsets() map[string]float64 {
	all := map[string]float64{}
	for _, p := range (&face{c, true}).peers() {
		p.mu.Lock()
		if p.ahead != nil {
			sure := max(p.ahead.Abs()-p.unsure, 0).Seconds()
			all[p.name] = math.Copysign(sure, p.ahead.Seconds())
		}
		p.mu.Unlock()
	}
	return all
}

// forget has the member asked anew, after something was done there.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.forgotten = time.Time{}, p.forgotten+1
}

// skewed says how far the member's clock is off, where that matters; "" where it does not.
func (p *peer) skewed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ahead == nil || p.ahead.Abs()-p.unsure <= allowedSkew:
		return ""
	case *p.ahead > 0:
		return fmt.Sprintf("its clock is %s ahead of this machine's: set both by NTP", *p.ahead)
	}
	return fmt.Sprintf("its clock is %s behind this machine's: set both by NTP", p.ahead.Abs())
}

// Cluster is as [api.Clustered] has it.
func (f *face) Cluster(context.Context) api.Cluster {
	view, _, err := f.View()
	c := api.Cluster{Member: f.options.Member.Name, Time: time.Now().UTC(), Members: []api.ClusterMember{}, Fleets: []api.ClusterFleet{}}
	if err != nil {
		c.Problem = err.Error()
	}
	owned := map[string]int{}
	for _, fleet := range f.Fleets() {
		owned[view.Fleets[fleet].Owner]++
	}
	peers := map[string]*peer{}
	for _, p := range f.asked() {
		peers[p.name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(view.Members)) {
		m := api.ClusterMember{Name: name, Address: view.Members[name].Address, Version: view.Members[name].Version, Fleets: owned[name]}
		if p := peers[name]; p != nil {
			m.Problem = p.skewed()
			p.mu.Lock()
			if p.ahead != nil {
				seconds := p.ahead.Seconds()
				m.ClockOffsetSeconds = &seconds
			}
			if p.err != nil {
				m.Problem = p.err.Error()
			}
			p.mu.Unlock()
		}
		c.Members = append(c.Members, m)
	}
	next, late := assign(view), f.lateness()
	for _, name := range f.Fleets() {
		o := view.Fleets[name]
		fleet := api.ClusterFleet{
			Name: name, Owner: o.Owner, Last: o.Last, Next: next[name], Term: o.Term,
			Configuration: o.Configuration, Otherwise: map[string]string{},
		}
		if p := peers[o.Owner]; p != nil {
			p.mu.Lock()
			if seconds, known := p.late[name]; known {
				fleet.LateSeconds = &seconds
			}
			p.mu.Unlock()
		} else if seconds, runs := late[name]; runs {
			fleet.LateSeconds = &seconds
		}
		for member, of := range view.Members {
			if has, ok := of.Fleets[name]; !ok || o.Configuration != "" && has != o.Configuration {
				fleet.Otherwise[member] = has
			}
		}
		c.Fleets = append(c.Fleets, fleet)
	}
	return c
}

// lateness returns by how much what this member runs is late, by fleet, in seconds.
func (f *face) lateness() map[string]float64 {
	late, known := map[string]float64{}, map[*daemon.Daemon]float64{}
	for _, fleet := range f.Fleets() {
		d, _ := f.running(fleet)
		if d == nil {
			continue
		}
		if _, is := known[d]; !is {
			known[d] = d.Lateness().Seconds()
		}
		late[fleet] = known[d]
	}
	return late
}

// asked returns the other members after they were asked, at once.
func (f *face) asked() []*peer {
	peers := f.peers()
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(p.refresh)
	}
	all.Wait()
	return peers
}

func (p *peer) autoscalers() ([]api.Autoscaler, []policy.Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, p.pauses, p.err
}

// AutoscalersAfter is as [api.Daemon] has it. What a member that does not answer runs is
// as it was last.
func (f *face) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	owned := map[string]bool{}
	for _, d := range f.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(name))
	}
	view, _, _ := f.View()
	for _, fleet := range f.Fleets() {
		d, _ := f.running(fleet)
		owned[fleet] = d != nil
	}
	for _, p := range append(f.asked(), f.orphans(view)...) {
		list, _, _ := p.autoscalers()
		sequences = append(sequences, func(yield func(api.Autoscaler) bool) {
			for _, a := range list {
				fleet := f.FleetOf(a.Name)
				moved := fleet != Own && (owned[fleet] || view.Fleets[fleet].Owner != "" && view.Fleets[fleet].Owner != p.name)
				if a.Name > name && !moved && !yield(a) {
					return
				}
			}
		})
	}
	return merge(append(sequences, f.configured(name)))
}

// configured returns the autoscalers after a name that no member shows, since nobody runs their
// fleets or their owner does not answer, as the configuration has them. Lists have them last,
// where nothing else is known, so that none is missing without a word.
func (f *face) configured(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		why := map[string]error{}
		for _, fleet := range f.Fleets() {
			if err := f.unavailable(fleet); err != nil {
				why[fleet] = err
			}
		}
		if len(why) == 0 {
			return
		}
		whole := f.active.Load().whole
		for _, each := range slices.Sorted(maps.Keys(whole.Autoscalers)) {
			if err := why[f.FleetOf(each)]; each > name && err != nil && !yield(asConfigured(whole, each, err)) {
				return
			}
		}
	}
}

// asConfigured returns an autoscaler that a configuration has, of which nothing else is known,
// with why.
func asConfigured(whole *config.Config, name string, why error) api.Autoscaler {
	a := whole.Autoscalers[name]
	view := daemon.AsConfigured(a, whole.Fleets[a.Target.Fleet].Kind)
	view.Evaluation = api.Evaluation{Unevaluated: true, Error: why.Error()}
	return view
}

// unavailable returns why neither this member nor another shows the autoscalers of a fleet; nil
// where one does, and where the face is of one member alone.
func (f *face) unavailable(fleet string) error {
	if d, _ := f.running(fleet); d != nil || !f.whole || fleet == Own {
		return nil
	}
	owner, p := f.ownerOf(fleet)
	if p == nil {
		return f.ownerError(fleet, owner)
	}
	if _, _, err := p.autoscalers(); err != nil {
		return fmt.Errorf("its owner %s does not answer: %w", p.name, err)
	}
	return nil
}

// ownerError returns why this member cannot ask who runs a fleet; owner is "" where the last
// view has none.
func (f *face) ownerError(fleet, owner string) error {
	unreached := f.unreached.Text()
	_, viewed, _ := f.View()
	switch {
	case owner == f.options.Member.Name:
		return fmt.Errorf("this member has yet to begin to run fleet %q, which it owns; ask again in some seconds", fleet)
	case owner != "" && f.whole:
		return fmt.Errorf("the owner of fleet %q, %s, is not known yet", fleet, owner)
	case unreached != "":
		return fmt.Errorf("who owns fleet %q is not known: %s", fleet, unreached)
	case viewed.IsZero():
		return fmt.Errorf("who owns fleet %q is not known yet", fleet)
	}
	return fmt.Errorf("fleet %q has no owner now; \"hpad cluster\" says who may take it over", fleet)
}

// of returns who answers for a fleet: the daemon of this member or another member, or why
// neither does. It waits for a daemon that begins, and where the last view does not tell,
// it asks for one of now.
func (f *face) of(ctx context.Context, fleet string) (*daemon.Daemon, *peer, error) {
	d, begins := f.running(fleet)
	for until := time.Now().Add(askWait); begins && ctx.Err() == nil && time.Now().Before(until); d, begins = f.running(fleet) {
		select {
		case <-time.After(begunEvery):
		case <-ctx.Done():
		}
	}
	switch {
	case d != nil:
		return d, nil, nil
	case begins:
		return nil, nil, fmt.Errorf("%w: %w", api.ErrRefused, f.ownerError(fleet, f.options.Member.Name))
	}
	owner, p := f.ownerOf(fleet)
	if p == nil && f.whole {
		_, _ = f.viewNow(ctx) // else the last one is what there is
		owner, p = f.ownerOf(fleet)
	}
	if p != nil {
		return nil, p, nil
	}
	return nil, nil, fmt.Errorf("%w: %w", api.ErrRefused, f.ownerError(fleet, owner))
}

// ownerOf returns the owner of a fleet by the last view, and nil where that is no other
// member.
func (f *face) ownerOf(fleet string) (string, *peer) {
	view, _, _ := f.View()
	owner, peers := view.Fleets[fleet].Owner, f.peers()
	if i := slices.IndexFunc(peers, func(p *peer) bool { return p.name == owner }); i >= 0 {
		return owner, peers[i]
	}
	return owner, nil
}

// remoteError is what another member answered, in its words.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// remote has an error of another member be one of this API.
func remote(err error) error {
	answered, ok := errors.AsType[*api.Error](err)
	switch {
	case !ok:
		return err
	case answered.Type == api.ErrorNotFound:
		return &remoteError{answered.Message, api.ErrUnknown}
	case answered.Type == api.ErrorNotPaused:
		return &remoteError{answered.Message, api.ErrNotPaused}
	case answered.Type == api.ErrorRefused:
		return &remoteError{answered.Message, api.ErrRefused}
	case answered.Type == api.ErrorForbidden, answered.Type == api.ErrorUnauthorized:
		return &remoteError{"its owner does not let this member write, as who it is in [ha.members]: " + answered.Message, api.ErrRefused}
	}
	return err
}

// Autoscaler is as [api.Daemon] has it.
func (f *face) Autoscaler(name string) (api.Autoscaler, bool) {
	for _, d := range f.daemons() {
		if view, ok := d.Autoscaler(name); ok {
			return view, true
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWait)
	defer cancel()
	var d *daemon.Daemon
	var owner *peer
	if fleet := f.FleetOf(name); fleet != Own {
		d, owner, _ = f.of(ctx, fleet) // without one it is as it was last
	}
	if d != nil && d.AwaitRunning(ctx) == nil { // which has begun meanwhile
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
	for _, p := range f.asked() { // as it was last, or on a machine of its own
		list, _, _ := p.autoscalers()
		if i := slices.IndexFunc(list, func(a api.Autoscaler) bool { return a.Name == name }); i >= 0 {
			if view, err := p.client.Autoscaler(ctx, name); err == nil {
				return view, true
			}
			return list[i], true
		}
	}
	if err := f.unavailable(f.FleetOf(name)); err != nil {
		if whole := f.active.Load().whole; whole.Autoscalers[name] != nil {
			return asConfigured(whole, name, err), true
		}
	}
	return api.Autoscaler{}, false
}

// about returns who answers for an autoscaler.
func (f *face) about(ctx context.Context, name string) (*daemon.Daemon, *peer, error) {
	for _, d := range f.daemons() {
		if _, ok := d.Autoscaler(name); ok {
			return d, nil, nil
		}
	}
	if fleet := f.FleetOf(name); fleet != Own {
		return f.of(ctx, fleet)
	}
	for _, p := range f.asked() { // on a machine of its own
		list, _, _ := p.autoscalers()
		if slices.ContainsFunc(list, func(a api.Autoscaler) bool { return a.Name == name }) {
			return nil, p, nil
		}
	}
	return f.own, nil, nil
}

// InstancesOf is as [api.Daemon] has it.
func (f *face) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	d, owner, err := f.about(ctx, name)
	switch {
	case err != nil:
		return api.InstanceList{}, err
	case d != nil:
		return d.InstancesOf(ctx, name)
	}
	list, err := owner.client.Instances(ctx, name)
	return list, remote(err)
}

// Graph is as [api.Daemon] has it.
func (f *face) Graph(ctx context.Context, name string, from, to time.Time) (api.Graph, error) {
	d, owner, err := f.about(ctx, name)
	switch {
	case err != nil:
		return api.Graph{}, err
	case d != nil:
		return d.Graph(ctx, name, from, to)
	}
	graph, err := owner.client.Graph(ctx, name, from, to)
	return graph, remote(err)
}

// AutoscalerConfig is as [page.Daemon] has it.
func (f *face) AutoscalerConfig(name string) string {
	for _, d := range f.daemons() {
		if text := d.AutoscalerConfig(name); text != "" {
			return text
		}
	}
	if p := f.active.Load(); p != nil && p.whole.Autoscalers[name] != nil {
		return p.whole.Autoscalers[name].Redacted(name)
	}
	return ""
}

// askEach asks all other members at once about an autoscaler since an instant, each for at
// most a time (0 is without bound), and returns what they answered. The answer that ctx is
// of names those that did not.
func askEach[T any](ctx context.Context, f *face, autoscaler string, since time.Time, within time.Duration, ask func(context.Context, *api.Client) (T, error)) []T {
	var answers []T
	var taking sync.Mutex
	var asked sync.WaitGroup
	for _, p := range f.peers() {
		asked.Go(func() {
			ctx, cancel := ctx, context.CancelFunc(func() {})
			if within > 0 {
				ctx, cancel = context.WithTimeout(ctx, within)
			}
			defer cancel()
			answer, err := ask(ctx, p.client)
			unknown := errors.Is(err, api.ErrNotFound) // it knows nothing of that name
			if err != nil && !unknown {
				p.note(err)
				api.Warn(ctx, fmt.Sprintf("member %s could not be asked: %v", p.name, err))
				return
			}
			p.note(nil)
			if !unknown {
				taking.Lock()
				defer taking.Unlock()
				answers = append(answers, answer)
			}
		})
	}
	asked.Wait()
	view, _, _ := f.View()
	for _, name := range f.departed(view, autoscaler, since) {
		api.Warn(ctx, fmt.Sprintf("member %s could not be asked: it is gone, with what it decided", name))
	}
	return answers
}

// History is as [api.Daemon] has it: of all members that answer, since each has what it
// decided itself.
func (f *face) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	var all []api.Recorded
	for _, d := range f.daemons() {
		some, err := d.History(ctx, name, from, to, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	past, err := f.archived(ctx, name, from, to, limit)
	if err != nil {
		return nil, err
	}
	all = append(all, daemon.Recorded(past, new(clock.Scale))...)
	for _, found := range askEach(ctx, f, name, from, askWait, func(ctx context.Context, member *api.Client) ([]api.Recorded, error) {
		return member.History(ctx, name, from, to, limit)
	}) {
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b api.Recorded) int { return a.Time.Compare(b.Time) })
	if limit > 0 && len(all) > limit {
		all = all[len(all)-limit:]
	}
	return all, nil
}

// note keeps whether the member answers.
func (p *peer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// VerifyHistory is as [api.Daemon] has it: of all members that answer.
func (f *face) VerifyHistory(ctx context.Context, name string, from, to time.Time) (api.Verification, error) {
	var sum api.Verification
	add := func(found api.Verification) {
		sum.Engine = found.Engine
		sum.Checked += found.Checked
		sum.Identical += found.Identical
		sum.Different += found.Different
		sum.NotVerifiable += found.NotVerifiable
		sum.Differences = append(sum.Differences, found.Differences...)
	}
	for _, found := range askEach(ctx, f, name, from, 0, func(ctx context.Context, member *api.Client) (api.Verification, error) {
		return member.VerifyHistory(ctx, name, from, to)
	}) {
		add(found)
	}
	for _, d := range f.daemons() { // last, for the engine of this member
		found, err := d.VerifyHistory(ctx, name, from, to)
		if err != nil {
			return sum, err
		}
		add(found)
	}
	slices.SortStableFunc(sum.Differences, func(a, b api.Difference) int { return a.Time.Compare(b.Time) })
	sum.Differences = sum.Differences[:min(len(sum.Differences), state.MaxDifferences)]
	return sum, nil
}

// Health is as [api.Daemon] has it, of this member: who probes it decides about this one.
func (f *face) Health() api.Health {
	health := f.own.Health()
	for _, d := range f.daemons()[1:] {
		h := d.Health()
		health.Unevaluated = append(health.Unevaluated, h.Unevaluated...)
		health.HeldBack = append(health.HeldBack, h.HeldBack...)
		health.Shortages = append(health.Shortages, h.Shortages...)
		health.AllFailing = cmp.Or(health.AllFailing, h.AllFailing)
		if !h.LastTick.IsZero() { // else it has yet to begin
			health.Healthy = health.Healthy && h.Healthy
		}
	}
	return health
}

// Readiness is as [api.Daemon] has it, of this member and of its cluster.
func (f *face) Readiness() api.Readiness {
	ready := f.own.Readiness()
	for _, d := range f.daemons()[1:] {
		of := d.Readiness()
		ready.Ready = ready.Ready && !of.Unwritten
		ready.Problems = append(ready.Problems, of.Problems...)
	}
	if _, _, err := f.View(); err != nil {
		ready.Problems = append(ready.Problems, api.Problem{Subject: "cluster", Message: err.Error()})
	}
	for _, p := range f.peers() {
		if _, _, err := p.autoscalers(); err != nil {
			ready.Problems = append(ready.Problems, api.Problem{Subject: "member " + p.name, Message: "does not answer: " + err.Error()})
		} else if text := p.skewed(); text != "" {
			ready.Problems = append(ready.Problems, api.Problem{Subject: "member " + p.name, Message: text})
		}
	}
	return ready
}

// Discovered is as [api.Daemon] has it, of this member.
func (f *face) Discovered() []api.Discovered {
	var all []api.Discovered
	for _, d := range f.daemons() {
		all = append(all, d.Discovered()...)
	}
	slices.SortFunc(all, func(a, b api.Discovered) int { return strings.Compare(a.Reference, b.Reference) })
	return all
}

// ExportState is as [api.Daemon] has it: of the machine's own fleets and of all that are
// shared, with the history that this member has.
func (f *face) ExportState(ctx context.Context, to io.Writer, history bool) error {
	if !f.whole {
		return f.own.ExportState(ctx, to, history)
	}
	fleets, err := ReadAll(ctx, f.options.Coordinator)
	if err != nil {
		return err
	}
	copies, err := f.copies(history)
	if err != nil {
		return err
	}
	defer copies.Close()
	return copies.Export(ctx, to, fleets)
}

// copies returns copies of what this member has. Runs that begin wait for no more than that.
func (f *face) copies(history bool) (*state.Copies, error) {
	if !history {
		return state.Copy(f.options.Daemon.Store, nil)
	}
	f.archiving.Lock() // so that none of them is closed
	defer f.archiving.Unlock()
	histories, err := f.histories()
	if err != nil {
		return nil, err
	}
	return state.Copy(f.options.Daemon.Store, histories)
}

// ReloadChanges is as [api.Daemon] has it, of this member.
func (f *face) ReloadChanges(ctx context.Context) ([]config.Change, error) {
	return f.reload(ctx, true)
}

// Config is as [api.Daemon] has it.
func (f *face) Config() string {
	if p := f.active.Load(); p != nil {
		return p.whole.Redacted()
	}
	return ""
}

// ConfigFile is as [api.Daemon] has it.
func (f *face) ConfigFile() string { return f.own.ConfigFile() }

// Pauses is as [api.Daemon] has it; one of all is in each daemon, and shown once.
func (f *face) Pauses() []policy.Pause {
	var all []policy.Pause
	for _, d := range f.daemons() {
		all = append(all, d.Pauses()...)
	}
	for _, p := range f.asked() {
		_, pauses, _ := p.autoscalers()
		all = append(all, pauses...)
	}
	slices.SortStableFunc(all, daemon.ComparePauses)
	return slices.CompactFunc(all, func(a, b policy.Pause) bool { return a.Scope == b.Scope })
}

// Pause is as [api.Daemon] has it. One of all is put in force by each member, and the
// error says where it could not be.
func (f *face) Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error) {
	request := api.PauseRequest{Direction: pause.Direction, Reason: pause.Reason}
	if lasts > 0 {
		request.For = lasts.String()
	}
	if pause.Scope.Autoscaler != "" || pause.Scope.Fleet != "" {
		d, owner, err := f.answering(ctx, pause.Scope)
		switch {
		case err != nil:
			return policy.Pause{}, err
		case d != nil:
			return d.Pause(ctx, pause, lasts)
		}
		defer owner.forget()
		inForce, err := owner.client.Pause(ctx, pause.Scope, request)
		return inForce, remote(err)
	}
	var inForce policy.Pause
	var taking sync.Mutex
	took := func(pause policy.Pause, err error) error {
		taking.Lock()
		defer taking.Unlock()
		if err == nil {
			inForce = pause
		}
		return err
	}
	err := f.everywhere(ctx, func(d *daemon.Daemon) error { return took(d.Pause(ctx, pause, lasts)) },
		func(ctx context.Context, client *api.Client) error {
			return took(client.Pause(ctx, pause.Scope, request))
		})
	return inForce, err
}

// answering returns who answers for the scope of one autoscaler or of one fleet.
func (f *face) answering(ctx context.Context, scope policy.Scope) (*daemon.Daemon, *peer, error) {
	if scope.Autoscaler != "" {
		return f.about(ctx, scope.Autoscaler)
	}
	if slices.Contains(f.Fleets(), scope.Fleet) {
		return f.of(ctx, scope.Fleet)
	}
	return f.own, nil, nil
}

// everywhere does something in each daemon of each member. The error names the places where
// it could not be done, including fleets that are just being taken over, or were meanwhile.
func (f *face) everywhere(ctx context.Context, here func(*daemon.Daemon) error, there func(context.Context, *api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, actWait)
	defer cancel()
	if f.whole {
		_, _ = f.viewNow(ctx) // else the last one is what there is
	}
	peers, daemons, fleets := f.peers(), f.daemons(), f.Fleets()
	view, _, _ := f.View()
	errs := make([]error, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() {
			defer p.forget()
			if err := there(ctx, p.client); err != nil {
				errs[i] = fmt.Errorf("member %s: %w", p.name, remote(err))
			}
		})
	}
	for _, d := range daemons {
		errs = append(errs, here(d))
	}
	asked.Wait()
	after := view
	if f.whole {
		_, _ = f.viewNow(ctx)
		after, _, _ = f.View()
	}
	for _, fleet := range fleets {
		if after.Fleets[fleet].Term != view.Fleets[fleet].Term {
			errs = append(errs, fmt.Errorf("%w: fleet %q was taken over meanwhile; ask again", api.ErrRefused, fleet))
			continue
		}
		_, owner := f.ownerOf(fleet)
		if d, taking := f.running(fleet); d == nil && (taking || f.whole && owner == nil) {
			errs = append(errs, fmt.Errorf("%w: fleet %q has no owner now, or is just being taken over; ask again", api.ErrRefused, fleet))
		}
	}
	return errors.Join(errs...)
}

// Resume is as [api.Daemon] has it.
func (f *face) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if scope.Autoscaler != "" || scope.Fleet != "" {
		d, owner, err := f.answering(ctx, scope)
		switch {
		case err != nil:
			return policy.Pause{}, err
		case d != nil:
			return d.Resume(ctx, scope, author)
		}
		defer owner.forget()
		pause, err := owner.client.Resume(ctx, scope)
		return pause, remote(err)
	}
	var ended *policy.Pause
	var taking sync.Mutex
	took := func(pause policy.Pause, err error) error {
		taking.Lock()
		defer taking.Unlock()
		switch {
		case err == nil:
			ended = &pause
		case errors.Is(remote(err), api.ErrNotPaused):
			return nil // as on a member that came later
		}
		return err
	}
	err := f.everywhere(ctx, func(d *daemon.Daemon) error { return took(d.Resume(ctx, scope, author)) },
		func(ctx context.Context, client *api.Client) error { return took(client.Resume(ctx, scope)) })
	if ended == nil {
		return policy.Pause{}, errors.Join(err, fmt.Errorf("%s: %w", scope, api.ErrNotPaused))
	}
	return *ended, err
}

// ScaleTo is as [api.Daemon] has it.
func (f *face) ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error {
	d, owner, err := f.about(ctx, name)
	switch {
	case err != nil:
		return err
	case d != nil:
		return d.ScaleTo(ctx, name, replicas, force, author)
	}
	defer owner.forget()
	_, err = owner.client.Scale(ctx, name, replicas, force)
	return remote(err)
}

// EvaluateNow is as [api.Daemon] has it.
func (f *face) EvaluateNow(ctx context.Context, name string) error {
	d, owner, err := f.about(ctx, name)
	switch {
	case err != nil:
		return err
	case d != nil:
		return d.EvaluateNow(ctx, name)
	}
	defer owner.forget()
	_, err = owner.client.Evaluate(ctx, name)
	return remote(err)
}
