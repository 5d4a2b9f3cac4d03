package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/soak"
)

var (
	seed      = flag.Uint64("seed", 0, "the only schedule of a model to run, or the first of -schedules; 0 runs all")
	schedules = flag.Int("schedules", 0, "number of schedules of each model; 0 selects the default")
)

const (
	ttl                  = 15 * time.Second
	period               = 5 * time.Second
	slack                = 4 * time.Second
	patience             = ttl + ttl/3 + period + slack
	growth, rate, window = int32(30), int32(1800), int32(3600)
)

type model struct {
	t      *testing.T
	log    *zap.Logger
	random *rand.Rand
	store  *clustertest.Memory
	dir    string
	begun  time.Time
	fleets map[string]*targettest.Memory
	nodes  []*node
	// window is the scale-down window.
	window int32
	// late counts the delayed calls that platforms have not executed yet.
	late sync.WaitGroup

	identities map[config.Tolerance]map[string]string

	disturbed time.Time
	planned   bool
	// delayed maps targets to the last time when a slow member ran their autoscaler, or was about
	// to run it.
	delayed map[targets.Ref]time.Time

	mu     sync.Mutex
	chance *rand.Rand
	calm   bool
	load   map[string]float64
	asked  []ask
	// evaluated maps targets to the time when their owner last read them.
	evaluated map[targets.Ref]time.Time
	paused    map[targets.Ref]time.Time
	unsure    map[targets.Ref]bool
	spans     []span
	// stopped is the time since when all autoscalers are paused, or zero.
	stopped time.Time
}

func (m *model) refs() (all []targets.Ref) {
	for _, fleet := range slices.Sorted(maps.Keys(m.fleets)) {
		all = append(all, m.fleets[fleet].Ref("web"))
	}
	return all
}

func nameOf(ref targets.Ref) string { return ref.Fleet + "-" + ref.Name }

type ask struct {
	at            time.Time
	member, owner string
	ref           targets.Ref
	to            int32
}

type span struct {
	ref      targets.Ref
	from, to time.Time
}

// node is a member of the cluster. It may be stopped.
type node struct {
	*model
	name              string
	tolerance, loaded config.Tolerance
	hung, cut, frozen bool
	disk, lag         time.Duration
	ahead             time.Duration
	seen              map[string]bool
	// killed is the time when the member was last killed. The member cannot join again until
	// its old lease has expired.
	killed   time.Time
	stumbles time.Duration
	stumbled time.Time
	// lingers is set if the member ended on a slow disk and may still have files open. A real
	// process would have exited.
	lingers    bool
	heals      time.Time
	address    string
	connection *clustertest.Connection
	cluster    *cluster.Cluster
	stop       context.CancelFunc
	ended      chan error
	runs       int
}

// fleetOf is one member's configuration of a fleet.
type fleetOf struct{ *node }

func (fleetOf) SetDefaults()                    {}
func (fleetOf) Validate() []settings.FieldError { return nil }

func (f fleetOf) Build(name string, _ targets.Env) (targets.Fleet, error) {
	return view{f.node, f.connection, name}, nil
}

// view is a fleet as one run of a member accesses it.
type view struct {
	*node
	process *clustertest.Connection
	fleet   string
}

func (v view) arrive(ctx context.Context) error {
	v.mu.Lock()
	takes := time.Duration(v.chance.Int64N(int64(30 * time.Millisecond)))
	if v.chance.IntN(20) == 0 && !v.calm {
		takes = time.Duration(v.chance.Int64N(int64(4 * time.Second)))
	}
	hung := v.hung
	v.mu.Unlock()
	if hung {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	v.process.Stand()
	return ctx.Err()
}

func (v view) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	v.process.Stand()
	for _, ref := range refs {
		owner := v.store.Owner(ref.Fleet)
		v.mu.Lock()
		if owner == v.name && !v.cut { // a member without a connection to the store may not scale
			v.evaluated[ref] = time.Now()
		}
		v.mu.Unlock()
	}
	if err := v.arrive(ctx); err != nil {
		return nil, err
	}
	return v.fleets[v.fleet].Snapshot(ctx, refs)
}

const late = "late: "

func (v view) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	v.stumble()
	if err := v.arrive(ctx); err != nil {
		return errors.Join(targets.ErrUnknownOutcome, err)
	}
	owner, fleet := v.store.Owner(ref.Fleet), v.fleets[v.fleet]
	v.mu.Lock()
	v.asked = append(v.asked, ask{at: time.Now(), member: v.name, owner: owner, ref: ref, to: n})
	fate, later := v.chance.IntN(20), time.Duration(v.chance.Int64N(int64(time.Minute)))
	if v.calm {
		fate = -1
	}
	v.mu.Unlock()
	switch fate {
	case 0:
		_ = fleet.SetReplicas(context.Background(), ref, n, version, reason)
	case 1:
		v.late.Go(func() {
			time.Sleep(later)
			_ = fleet.SetReplicas(context.Background(), ref, n, version, late+reason)
		})
	default:
		return fleet.SetReplicas(ctx, ref, n, version, reason)
	}
	<-ctx.Done()
	return errors.Join(targets.ErrUnknownOutcome, ctx.Err())
}

type sourceOf struct{ *model }

func (sourceOf) SetDefaults()                                        {}
func (sourceOf) Validate() []settings.FieldError                     { return nil }
func (s sourceOf) Build(string, sources.Env) (sources.Source, error) { return s, nil }

func (s sourceOf) Query(_ context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sources.Vector{Series: []sources.Series{{Value: s.load[query.Text], At: at}}}, nil
}

func (n *node) configuration(context.Context) (*config.Config, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.configurationOf(n.tolerance), nil
}

func (n *node) configurationOf(tolerance config.Tolerance) *config.Config {
	c := &config.Config{
		Daemon: config.DefaultDaemon(), Fleets: map[string]config.Fleet{}, Autoscalers: map[string]*config.Autoscaler{},
		Sources: map[string]config.Source{"source": {Name: "source", Kind: "memory", Config: sourceOf{n.model}}},
	}
	c.Daemon.SyncPeriod = period
	c.Daemon.Tolerance = tolerance
	c.Written = map[string]config.Written{"daemon": config.WrittenOf(map[string]any{"tolerance": tolerance})}
	low, each, window, none := int32(1), int64(1000), n.window, int32(0)
	for _, ref := range n.refs() {
		c.Fleets[ref.Fleet] = config.Fleet{Name: ref.Fleet, Kind: "memory", Config: fleetOf{n}}
		c.Autoscalers[nameOf(ref)] = &config.Autoscaler{
			Name: nameOf(ref), Target: ref, SyncPeriod: period,
			Spec: policy.Default(policy.Spec{
				MinReplicas: &low, MaxReplicas: 1000,
				Metrics: []policy.MetricSpec{{
					Type: policy.ExternalMetric, Name: "load",
					Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &each},
				}},
				Behavior: &policy.Behavior{
					ScaleUp: &policy.ScalingRules{
						StabilizationWindowSeconds: &none,
						Policies:                   []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: growth, PeriodSeconds: rate}},
					},
					ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: &window},
				},
			}),
			Inputs:  []config.Input{{Source: "source", Query: ref.Fleet}},
			Written: config.WrittenOf(map[string]any{"tolerance": tolerance}),
		}
	}
	return c
}

func (n *node) start(fresh bool) {
	if fresh || n.lingers {
		n.runs++
	}
	dir := filepath.Join(n.dir, fmt.Sprint(n.name, "-", n.runs))
	own, err := state.Open(filepath.Join(dir, "own"), state.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.connection = n.store.Connect()
	n.mend()
	n.ail(func() { n.ahead, n.loaded = 0, n.tolerance })
	n.seen = map[string]bool{}
	options := cluster.Options{
		Load: n.configuration, Coordinator: hooked{n.connection, &hooks{written: n.written}}, Member: cluster.Member{Name: n.name, Address: n.address}, TTL: ttl,
		Daemon: daemon.Options{Store: own, Log: n.log, Clock: clock.System{
			Wall: n.wall,
			Boot: func() (string, time.Duration) { return n.name, time.Since(n.begun) },
		}},
		Dir: filepath.Join(dir, "fleets"), State: state.Options{Before: n.spin},
	}
	if n.address != "" {
		options.Daemon.Graph = graph.New(filepath.Join(dir, "own", "graph.db"), n.log, nil)
		options.Peer = func(address string) *api.Client { return api.NewServerClient(api.Server{URL: address}) }
	}
	n.cluster = cluster.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	n.stop, n.ended = cancel, make(chan error, 1)
	running, ended := n.cluster, n.ended
	go func() {
		err := running.Run(ctx)
		ended <- errors.Join(err, own.Close())
	}()
}

func (n *node) wall() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.ahead)
}

func (n *node) spin() {
	n.mu.Lock()
	takes := time.Duration(0)
	if n.disk > 0 {
		takes = time.Duration(n.chance.Int64N(int64(n.disk)))
	}
	n.mu.Unlock()
	time.Sleep(takes)
}

func (n *node) end(killed bool) {
	if n.stop == nil {
		return
	}
	n.ail(func() { n.stumbles, n.lingers = 0, n.disk > 0 })
	if killed {
		n.killed = time.Now()
		n.ail(func() { n.hung, n.cut = true, true })
		n.connection.Cut(true, true)
		n.connection.Thaw()
	}
	n.stop()
	<-n.ended
	n.stop = nil
}

func (n *node) written(values map[string][]byte) {
	for key, value := range values {
		if _, record, err := state.RecordIn(key, value); err == nil && record.Intention != nil {
			n.stumble()
			return
		}
	}
}

func (n *node) stumble() {
	n.mu.Lock()
	if n.stumbles > 0 && n.stumbled.IsZero() && n.chance.IntN(2) == 0 {
		n.stumbled = time.Now()
		n.connection.Freeze()
		time.AfterFunc(n.stumbles, n.connection.Thaw)
	}
	n.mu.Unlock()
	n.connection.Stand()
}

func (n *node) ail(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) mend() {
	n.ail(func() {
		n.hung, n.cut, n.frozen, n.disk, n.lag, n.heals = false, false, false, 0, 0, time.Time{}
		n.stumbles, n.stumbled = 0, time.Time{}
	})
}

func (n *node) well() {
	n.mend()
	n.connection.Cut(false, false)
	n.connection.Slow(0)
	n.connection.Thaw()
}

func (n *node) isWell() bool {
	return n.stop != nil && !n.hung && !n.cut && !n.frozen && n.disk == 0 && n.lag == 0
}

func (m *model) fault() {
	n := m.nodes[m.random.IntN(len(m.nodes))]
	all := time.Since(m.disturbed) >= patience &&
		!slices.ContainsFunc(m.nodes, func(n *node) bool { return n.stop != nil && !n.isWell() })
	m.disturbed, m.planned = time.Now(), false
	lasts := time.Second + time.Duration(m.random.Int64N(int64(119*time.Second)))
	what := m.random.IntN(12)
	m.t.Logf("at %s: fault %d of %s, running: %t, for at most %s", time.Since(m.begun), what, n.name, n.stop != nil, lasts)
	switch {
	case n.stop == nil:
		n.start(m.random.IntN(2) == 0)
		m.planned = all && m.isSettled()
	case what == 0 && !n.frozen:
		m.planned = all && m.isSettled()
		reaches := !n.cut && n.lag == 0 && time.Since(n.killed) > ttl
		n.end(false)
		if owned := m.store.Owned(n.name); len(owned) > 0 && reaches {
			m.t.Errorf("at %s: %s has stopped but still owns %q", time.Since(m.begun), n.name, owned)
		}
		if !m.planned {
			m.disturbed = time.Now()
		}
	case what == 1:
		n.end(true)
	case what <= 3: // cut the member off from the store in one or both directions, possibly for about the duration of its lease
		way := m.random.IntN(3)
		if m.random.IntN(2) == 0 {
			lasts = ttl - time.Duration(m.random.Int64N(int64(5*time.Second)))
		}
		n.ail(func() { n.cut, n.heals = true, time.Now().Add(lasts) })
		n.connection.Cut(way != 0, way != 1)
	case what == 4:
		n.ail(func() { n.stumbles = lasts })
	case what == 5:
		n.ail(func() { n.frozen, n.heals = true, time.Now().Add(lasts) })
		n.connection.Freeze()
	case what == 6: // cut the member off from its fleets
		n.ail(func() { n.hung = true })
	case what == 7 && !n.frozen:
		tolerance := config.Tolerance(0.01 * float64(1+m.random.IntN(2)))
		n.ail(func() { n.tolerance = tolerance })
		n.reload()
	case what == 8 && len(n.seen) == len(m.fleets):
		n.ail(func() { n.ahead += time.Duration(m.random.Int64N(int64(4*time.Hour))) - 2*time.Hour })
	case what == 9:
		n.ail(func() { n.disk = time.Duration(1 + m.random.Int64N(int64(20*time.Second))) })
	case what == 10:
		n.ail(func() { n.lag = time.Duration(1 + m.random.Int64N(int64(3*time.Second))) })
		n.connection.Slow(n.lag)
	default:
		n.well()
	}
}

func (n *node) reload() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := n.cluster.Reload(ctx); err == nil {
		n.ail(func() { n.loaded = n.tolerance })
	}
	n.disturbed = time.Now()
}

func (m *model) isSettled() bool {
	return !slices.ContainsFunc(m.refs(), func(ref targets.Ref) bool { return m.store.Owner(ref.Fleet) == "" })
}

func (m *model) person(ref targets.Ref) {
	name := m.store.Owner(ref.Fleet)
	i := slices.IndexFunc(m.nodes, func(n *node) bool { return n.name == name && n.stop != nil && !n.frozen })
	if i < 0 || m.unsure[ref] {
		return
	}
	d := m.nodes[i].cluster.Daemon(ref.Fleet)
	if d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	scope, err := policy.Scope{Autoscaler: nameOf(ref)}, error(nil)
	since, paused := m.paused[ref]
	if began := time.Now(); paused {
		if _, err = d.Resume(ctx, scope, "somebody"); err == nil {
			m.spans = append(m.spans, span{ref, since, began})
			delete(m.paused, ref)
		}
	} else if _, err = d.Pause(ctx, policy.Pause{Scope: scope, Direction: policy.BothDirections, Reason: "a test"}, 0); err == nil {
		m.paused[ref] = time.Now()
	}
	if err != nil {
		m.unsure[ref] = true
		delete(m.paused, ref)
	}
}

// everybody pauses or resumes all autoscalers on a member.
func (m *model) everybody(n *node) {
	if n.stop == nil || n.frozen {
		return
	}
	all, began := n.cluster.ClusterAPI(), time.Now()
	if m.stopped.IsZero() {
		if _, err := all.Pause(context.Background(), policy.Pause{Reason: "all"}, 0); err == nil {
			m.stopped = time.Now()
		}
		return
	}
	for _, ref := range m.refs() {
		m.spans = append(m.spans, span{ref, m.stopped, began})
	}
	m.stopped = time.Time{}
	_, _ = all.Resume(context.Background(), policy.Scope{}, "somebody") // repeated in heal
}

func (m *model) rest(lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		time.Sleep(min(time.Second, time.Until(end)))
		for _, n := range m.nodes {
			n.ail(func() {
				if !n.stumbled.IsZero() && !n.frozen {
					m.t.Logf("at %s %s is frozen", time.Since(m.begun), n.name)
					n.frozen, n.heals = true, n.stumbled.Add(n.stumbles)
					m.disturbed, m.planned = time.Now(), false
				}
			})
			if n.stop != nil && !n.heals.IsZero() && !time.Now().Before(n.heals) {
				m.t.Logf("at %s the faults of %s end", time.Since(m.begun), n.name)
				n.well()
				m.disturbed, m.planned = time.Now(), false
			}
		}
		m.watch()
	}
}

func (m *model) watch() {
	for _, ref := range m.refs() {
		owner := m.store.Owner(ref.Fleet)
		if m.isSlow(owner) {
			m.delayed[ref] = time.Now()
		}
		for _, n := range m.nodes {
			if owner != "" && n.isWell() {
				n.seen[ref.Fleet] = true
			}
		}
	}
	within := patience
	if m.planned {
		within = period + slack
	}
	if time.Since(m.disturbed) < within {
		return
	}
	for _, ref := range m.refs() {
		if time.Since(m.delayed[ref]) < within {
			continue
		}
		under, owner := m.store.Configuration(ref.Fleet), m.store.Owner(ref.Fleet)
		var able, running []string
		for _, n := range m.nodes {
			if n.isWell() && n.identity(ref.Fleet) == under {
				able = append(able, n.name)
			}
			if d := n.cluster.Daemon(ref.Fleet); d != nil && n.stop != nil && !n.cut && !n.frozen && !m.isSlow(n.name) {
				if slices.ContainsFunc(d.Autoscalers(), func(a api.Autoscaler) bool { return a.Name == nameOf(ref) }) {
					running = append(running, n.name)
				}
			}
		}
		if len(able) == 0 {
			continue
		}
		m.mu.Lock()
		last := m.evaluated[ref]
		m.mu.Unlock()
		// A pass may take longer than a period and then delays the next pass.
		if last.Before(m.disturbed) || time.Since(last) > 2*period+slack {
			m.t.Errorf("at %s, %s after a fault (planned: %t), %s has not been evaluated since %s, although %q could do so; its owner is %q",
				time.Since(m.begun), time.Since(m.disturbed), m.planned, ref, time.Since(last), able, owner)
			m.disturbed, m.planned = time.Now(), false
			return
		}
		if len(running) > 1 {
			m.t.Errorf("at %s %s is run by %q", time.Since(m.begun), ref, running)
		}
	}
}

func (m *model) isSlow(owner string) bool {
	return slices.ContainsFunc(m.nodes, func(n *node) bool {
		return n.stop != nil && (n.disk > 0 || n.lag > 0) && (n.name == owner || owner == "")
	})
}

func (n *node) identity(fleet string) string {
	of := n.identities[n.loaded]
	if of == nil {
		of = cluster.Identities(n.configurationOf(n.loaded), n.key())
		n.identities[n.loaded] = of
	}
	return of[fleet]
}

func (m *model) key() []byte {
	key, err := m.store.Connect().Key(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return key
}

func (m *model) heal() {
	for _, n := range m.nodes {
		n.ail(func() { n.tolerance = standard })
		if n.stop == nil {
			n.start(false)
		}
		n.well()
	}
	time.Sleep(ttl + 2*time.Second)
	for _, n := range m.nodes {
		n.reload()
		if n.loaded != standard {
			m.t.Errorf("%s did not load its configuration", n.name)
		}
	}
	for fleet := range m.fleets {
		if err := m.nodes[0].cluster.Adopt(m.t.Context(), fleet); err != nil {
			m.t.Error(err)
		}
	}
	if _, err := m.nodes[0].cluster.ClusterAPI().Resume(m.t.Context(), policy.Scope{}, "somebody"); err != nil && !errors.Is(err, api.ErrNotPaused) {
		m.t.Error(err)
	}
	m.disturbed, m.planned = time.Now(), false
}

func (m *model) check() {
	terms, members := map[string]uint64{}, map[string]string{}
	for _, w := range m.store.Writes() {
		key := fmt.Sprint(w.Fleet, " ", w.Term)
		if !w.Owner || w.Term < terms[w.Fleet] || members[key] != "" && members[key] != w.Member {
			m.t.Errorf("%s wrote the state of %s in term %d, after a write in term %d: owner %v", w.Member, w.Fleet, w.Term, terms[w.Fleet], w.Owner)
		}
		terms[w.Fleet], members[key] = w.Term, w.Member
	}
	for _, a := range m.asked {
		if a.owner != a.member {
			m.t.Errorf("at %s: %s requested %d replicas of %s, but the owner is %q", a.at, a.member, a.to, a.ref, a.owner)
		}
	}
	for _, ref := range m.refs() {
		m.checkWrites(ref)
		m.checkOwner(ref)
	}
	m.checkRecords()
	for _, takeover := range m.store.Takeovers() {
		m.t.Error(takeover)
	}
}

func (m *model) checkOwner(ref targets.Ref) {
	var owners []string
	for _, n := range m.nodes {
		d := n.cluster.Daemon(ref.Fleet)
		if d == nil {
			continue
		}
		view, has := d.Autoscaler(nameOf(ref))
		if !has {
			continue
		}
		owners = append(owners, n.name)
		if late := n.wall().Sub(view.Evaluation.Last); late > 2*period || view.Evaluation.Error != "" {
			m.t.Errorf("last evaluation of %s by %s was %s ago, with error %q", ref, n.name, late, view.Evaluation.Error)
		}
		_, want := m.paused[ref]
		if is := slices.ContainsFunc(d.Pauses(), func(p policy.Pause) bool { return p.Autoscaler == nameOf(ref) }); is != want && !m.unsure[ref] {
			m.t.Errorf("pauses of %s = %+v, want paused %t", ref, d.Pauses(), want)
		}
		if isPaused(d) {
			m.t.Errorf("%s is still paused with all autoscalers", ref)
		}
	}
	if len(owners) != 1 {
		m.t.Errorf("members that run %s = %q, want one", ref, owners)
	}
}

func (m *model) checkWrites(ref targets.Ref) {
	grown, grownLate := int32(0), int32(0)
	unmade := m.intended(nameOf(ref))
	for _, w := range m.fleets[ref.Fleet].Writes() {
		if w.Ref != ref {
			continue
		}
		if w.Err != nil {
			continue
		}
		delete(unmade, change{w.From, w.To})
		if w.To <= w.From {
			m.t.Errorf("%s went from %d to %d within the window, or twice", ref, w.From, w.To)
		}
		if strings.HasPrefix(w.Reason, late) {
			grownLate += w.To - w.From
			continue
		}
		grown += w.To - w.From
		for _, s := range m.spans {
			if s.ref == ref && w.At.After(s.from.Add(period)) && w.At.Before(s.to) {
				m.t.Errorf("%s went from %d to %d at %s, while it was paused", ref, w.From, w.To, w.At)
			}
		}
	}
	if grown > growth {
		m.t.Errorf("%s grew by %d, its rate allows %d", ref, grown, growth)
	}
	events := int32(0)
	for key, value := range m.store.Records(ref.Fleet) {
		name, record, err := state.RecordIn(key, value)
		if err != nil {
			m.t.Error(err)
		}
		if name != nameOf(ref) {
			continue
		}
		if record.Intention != nil {
			m.t.Errorf("%s still has an intention at the end: %+v", ref, record.Intention)
		}
		events += grownBy(record)
	}
	doubted := grownLate > 0 && len(unmade) > 0
	if events < grown || events > grown+grownLate && (!doubted || events > growth) {
		m.t.Errorf("%s grew by %d, and by %d through delayed calls, but its events add up to %d", ref, grown, grownLate, events)
	}
	m.mu.Lock()
	wanted := min(int32(m.load[ref.Fleet]), 3+growth)
	m.mu.Unlock()
	if _, paused := m.paused[ref]; paused || m.unsure[ref] || doubted {
		return
	}
	if got := m.fleets[ref.Fleet].Replicas(ref.Name); got < wanted {
		m.t.Errorf("final count of %s = %d, want at least %d", ref, got, wanted)
	}
}

type change struct{ from, to int32 }

func (m *model) intended(autoscaler string) map[change]bool {
	changes := map[change]bool{}
	for _, w := range m.store.Writes() {
		for key, value := range w.Values {
			if !strings.Contains(key, autoscaler) {
				continue // not about the autoscaler, so it is not decoded
			}
			name, record, err := state.RecordIn(key, value)
			if err != nil {
				m.t.Error(err)
			}
			if name == autoscaler && record.Intention != nil {
				changes[change{record.Intention.From, record.Intention.To}] = true
			}
		}
	}
	return changes
}

func grownBy(r state.Record) (sum int32) {
	for _, event := range r.Memory.ScaleUpEvents {
		sum += event.Change
	}
	return sum
}

func (m *model) checkRecords() {
	type written struct {
		state.Record
		at time.Time
	}
	before := map[string]written{}
	most := func(r state.Record) (n int32) {
		for _, recommendation := range r.Memory.Recommendations {
			n = max(n, recommendation.Replicas)
		}
		return n
	}
	for _, w := range m.store.Writes() {
		for key, value := range w.Values {
			name, now, err := state.RecordIn(key, value)
			if err != nil {
				m.t.Error(err)
			}
			if name == "" {
				continue
			}
			was, known := before[name]
			if known && (most(now) < most(was.Record) || grownBy(now) < grownBy(was.Record) || !now.Created.Equal(was.Created)) {
				m.t.Errorf("at %s: %s lost state of %s: highest recommendation %d, sum of events %d, written at %s; before: %d, %d, %s",
					w.Time, w.Member, name, most(now), grownBy(now), now.Created, most(was.Record), grownBy(was.Record), was.Created)
			}
			if was.Intention != nil && now.Intention == nil && grownBy(now) == grownBy(was.Record) && now.ExpectedReplicas != nil && *now.ExpectedReplicas == was.Intention.To &&
				!m.cameLate(name, *now.ExpectedReplicas, was.at, w.Time) { // otherwise the platform executed the write after hpad had found it not executed
				m.t.Errorf("at %s: %s lost the intention %+v of %s", w.Time, w.Member, was.Intention, name)
			}
			before[name] = written{now, w.Time}
		}
	}
}

// cameLate reports whether a platform executed a delayed call that set an autoscaler's target to
// count between two times.
func (m *model) cameLate(autoscaler string, count int32, from, to time.Time) bool {
	return slices.ContainsFunc(m.refs(), func(ref targets.Ref) bool {
		return nameOf(ref) == autoscaler && slices.ContainsFunc(m.fleets[ref.Fleet].Writes(), func(w targettest.MemoryWrite) bool {
			return w.Ref == ref && w.To == count && w.Err == nil && strings.HasPrefix(w.Reason, late) && w.At.After(from) && w.At.Before(to)
		})
	})
}

func TestModel(t *testing.T) {
	count := soak.Rounds(4, 10_000)
	if *seed != 0 {
		count = 1
	}
	if *schedules != 0 {
		count = *schedules
	}
	first := max(1, *seed)
	for run := first; run < first+uint64(count); run++ {
		t.Run(fmt.Sprint("seed=", run), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { newModel(t, run, dir).schedule() })
		})
	}
}

// standard is the tolerance in the members' configuration at the start and at the end of a test.
const standard = config.Tolerance(0.02)

func newModel(t *testing.T, run uint64, dir string) *model {
	m := &model{
		t: t, log: zap.NewNop(), dir: dir, window: window, random: rand.New(rand.NewPCG(run, 0)), chance: rand.New(rand.NewPCG(run, 2)), store: clustertest.NewMemory(run),
		begun: time.Now(), fleets: map[string]*targettest.Memory{}, load: map[string]float64{},
		evaluated: map[targets.Ref]time.Time{}, paused: map[targets.Ref]time.Time{}, unsure: map[targets.Ref]bool{},
		identities: map[config.Tolerance]map[string]string{}, delayed: map[targets.Ref]time.Time{},
	}
	for _, fleet := range []string{"alpha", "beta", "gamma", "delta"} {
		m.fleets[fleet] = targettest.NewMemory(fleet)
		m.load[fleet] = 3
		m.fleets[fleet].Add("web", targettest.MemoryTarget{Replicas: 3, Age: time.Hour})
	}
	return m
}

func (m *model) add() *node {
	n := &node{model: m, name: fmt.Sprint("hpad-", len(m.nodes)), tolerance: standard}
	m.nodes = append(m.nodes, n)
	return n
}

func (m *model) begin(members int) {
	for range members {
		m.add().start(true)
	}
	m.disturbed = time.Now()
	m.rest(patience)
}

func (m *model) setLoad(fleet string, load float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load[fleet] = load
}

func (m *model) schedule() {
	m.begin(2 + m.random.IntN(2))
	fleets, refs := slices.Sorted(maps.Keys(m.fleets)), m.refs()
	for range 12 {
		pause := time.Second + time.Duration(m.random.Int64N(int64(20*time.Second)))
		if m.random.IntN(4) == 0 {
			pause += time.Minute / 2
		}
		m.rest(pause)
		m.fault()
		if m.random.IntN(3) == 0 {
			m.person(refs[m.random.IntN(len(refs))])
		}
		if m.random.IntN(4) == 0 {
			m.everybody(m.nodes[m.random.IntN(len(m.nodes))])
		}
		m.setLoad(fleets[m.random.IntN(len(fleets))], float64(1+m.random.IntN(40)))
	}
	m.heal()
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
	m.rest(2 * patience)
	m.late.Wait()
	m.rest(2 * period)
	m.check()
	for _, n := range m.nodes {
		n.end(false)
	}
}

// TestTakeoverTime checks that the time during a takeover is not mistaken for a step of the wall
// clock if both hosts have correct clocks.
func TestTakeoverTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		core, logs := observer.New(zap.InfoLevel)
		m.log, m.calm = zap.New(core), true
		m.begin(2)
		former := m.store.Owner("alpha")
		for _, n := range m.nodes {
			if n.name == former {
				n.connection.Cut(true, true)
			}
		}
		time.Sleep(2 * patience)
		if owner := m.store.Owner("alpha"); owner == former || owner == "" {
			t.Errorf("owner = %q after %q", owner, former)
		}
		if steps := logs.FilterMessage("wall clock stepped").All(); len(steps) != 0 {
			t.Errorf("clock steps reported by the takeover = %v, want none", steps)
		}
		for _, n := range m.nodes {
			n.end(false)
		}
	})
}

// TestOutageOfTheStore checks that the recommendations from an outage of the store remain
// effective after the outage: the count does not fall below them within the window.
func TestOutageOfTheStore(t *testing.T) {
	for run := range uint64(soak.Rounds(6, 1000)) {
		t.Run(fmt.Sprint("seed=", run), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, run, dir)
				m.calm, m.window = true, 120
				everywhere := func(load float64) {
					for fleet := range m.fleets {
						m.setLoad(fleet, load)
					}
				}
				everywhere(6)
				m.begin(1 + int(run%3))
				for _, n := range m.nodes {
					n.connection.Cut(true, true)
				}
				time.Sleep(30 * time.Second)
				everywhere(7)
				time.Sleep(90 * time.Second)
				everywhere(4)
				for _, n := range m.nodes {
					time.Sleep(time.Duration(m.random.Int64N(int64(3 * time.Second))))
					n.connection.Cut(false, false)
				}
				time.Sleep(2 * patience)
				for _, ref := range m.refs() {
					if got := m.fleets[ref.Fleet].Replicas("web"); got != 6 {
						t.Errorf("count of %s = %d with %d members, want 6, because the load required 7 within the window", ref, got, len(m.nodes))
					}
				}
				for _, n := range m.nodes {
					n.end(false)
				}
			})
		})
	}
}
