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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/soak"
)

var seed = flag.Uint64("seed", 0, "the schedule to run alone; 0 runs all")

const (
	ttl    = 15 * time.Second
	period = 5 * time.Second
	// patience is how long after the last fault every fleet is run again: a lease, a
	// period, and what looks and calls take.
	patience = ttl + period + 5*time.Second
)

// model is some members over one store, and what they scale.
type model struct {
	t      *testing.T
	random *rand.Rand
	store  *clustertest.Memory
	dir    string
	fleets map[string]*targettest.Memory

	mu sync.Mutex
	// load is what each fleet's target has to do.
	load map[string]float64
	// asked are the calls of members for counts.
	asked []ask
	nodes []*node
}

// ask is a call for a count, when it was made.
type ask struct {
	at            time.Time
	member, fleet string
	owner         string
	to            int32
}

// node is a member, which may run or not.
type node struct {
	*model
	name string
	// tolerance is what makes its configuration another one.
	tolerance config.Tolerance
	// hung has its calls to fleets hang, as in a process that stands still.
	hung bool
	// address is where others reach it; empty where nobody does.
	address    string
	connection *clustertest.Connection
	cluster    *cluster.Cluster
	stop       context.CancelFunc
	ended      chan error
	runs       int
}

// fleetOf is the configuration of a fleet as one member has it.
type fleetOf struct{ *node }

func (fleetOf) SetDefaults()                    {}
func (fleetOf) Validate() []settings.FieldError { return nil }

func (f fleetOf) Build(name string, _ targets.Env) (targets.Fleet, error) {
	return view{f.node, name}, nil
}

// view is a fleet as one member reaches it.
type view struct {
	*node
	fleet string
}

func (v view) stands(ctx context.Context) error {
	v.mu.Lock()
	hung := v.hung
	v.mu.Unlock()
	if !hung {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (v view) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := v.stands(ctx); err != nil {
		return nil, err
	}
	return v.fleets[v.fleet].Snapshot(ctx, refs)
}

func (v view) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	owner := v.store.Owner(v.fleet)
	v.mu.Lock()
	v.asked = append(v.asked, ask{at: time.Now(), member: v.name, fleet: v.fleet, owner: owner, to: n})
	v.mu.Unlock()
	if err := v.stands(ctx); err != nil {
		return errors.Join(targets.ErrUnknownOutcome, err)
	}
	return v.fleets[v.fleet].SetReplicas(ctx, ref, n, version, reason)
}

// sourceOf is the configuration of the source.
type sourceOf struct{ *model }

func (sourceOf) SetDefaults()                                        {}
func (sourceOf) Validate() []settings.FieldError                     { return nil }
func (s sourceOf) Build(string, sources.Env) (sources.Source, error) { return s, nil }

func (s sourceOf) Query(_ context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sources.Vector{Series: []sources.Series{{Value: s.load[query.Text], At: at}}}, nil
}

// configuration returns what a member loads.
func (n *node) configuration() (*config.Config, error) {
	c := &config.Config{
		Daemon: config.DefaultDaemon(), Fleets: map[string]config.Fleet{}, Autoscalers: map[string]*config.Autoscaler{},
		Sources: map[string]config.Source{"source": {Name: "source", Kind: "memory", Config: sourceOf{n.model}}},
	}
	c.Daemon.SyncPeriod = period
	n.mu.Lock()
	c.Daemon.Tolerance = n.tolerance
	n.mu.Unlock()
	low, each, window := int32(1), int64(1000), int32(3600)
	for fleet, memory := range n.fleets {
		c.Fleets[fleet] = config.Fleet{Name: fleet, Kind: "memory", Config: fleetOf{n}}
		c.Autoscalers[fleet+"-web"] = &config.Autoscaler{
			Name: fleet + "-web", Target: memory.Ref("web"), SyncPeriod: period,
			Spec: policy.Default(policy.Spec{
				MinReplicas: &low, MaxReplicas: 1000,
				Metrics: []policy.MetricSpec{{
					Type: policy.ExternalMetric, Name: "load",
					Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &each},
				}},
				Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: &window}},
			}),
			Inputs: []config.Input{{Source: "source", Query: fleet}},
		}
	}
	return c, nil
}

// start runs the member, with a directory as empty as on another machine, or its own.
func (n *node) start(fresh bool) {
	if fresh {
		n.runs++
	}
	dir := filepath.Join(n.dir, fmt.Sprint(n.name, "-", n.runs))
	own, err := state.Open(filepath.Join(dir, "own"), state.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.connection = n.store.Connect()
	n.cluster = cluster.New(cluster.Options{
		Load: n.configuration, Coordinator: n.connection, Member: cluster.Member{Name: n.name, Address: n.address}, TTL: ttl,
		Peer:   func(address string) *api.Client { return api.NewServerClient(api.Server{URL: address}) },
		Daemon: daemon.Options{Store: own, Log: zap.NewNop()}, Dir: filepath.Join(dir, "fleets"),
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.stop, n.ended = cancel, make(chan error, 1)
	running, ended := n.cluster, n.ended
	go func() {
		err := running.Run(ctx)
		ended <- errors.Join(err, own.Close())
	}()
}

// end ends the member: as asked to, or as one that is gone at once.
func (n *node) end(killed bool) {
	if n.stop == nil {
		return
	}
	if killed {
		n.connection.Cut(true, true)
		n.hang(true)
	}
	n.stop()
	<-n.ended // what it says of a store that it does not reach is no matter
	n.stop = nil
	n.hang(false)
}

func (n *node) hang(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hung = on
}

// fault has something happen to some member.
func (m *model) fault() {
	n := m.nodes[m.random.IntN(len(m.nodes))]
	switch what := m.random.IntN(8); {
	case n.stop == nil:
		n.start(m.random.IntN(2) == 0)
	case what == 0:
		n.end(false)
	case what == 1:
		n.end(true)
	case what <= 3: // from the store: either way, or both
		way := m.random.IntN(3)
		n.connection.Cut(way != 0, way != 1)
	case what == 4: // it stands still, but for its own clock
		n.connection.Cut(true, true)
		n.hang(true)
	case what == 5: // from its fleets
		n.hang(true)
	case what == 6:
		m.mu.Lock()
		n.tolerance = config.Tolerance(0.01 * float64(1+m.random.IntN(2)))
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, _ = n.cluster.Reload(ctx) // refused while it starts
		cancel()
	default:
		n.connection.Cut(false, false)
		n.hang(false)
	}
}

// heal ends all faults, and lets all members have the same configuration.
func (m *model) heal() {
	for _, n := range m.nodes {
		m.mu.Lock()
		n.tolerance = 0.02
		m.mu.Unlock()
		n.hang(false)
		if n.stop == nil {
			n.start(false)
		}
		n.connection.Cut(false, false)
	}
	time.Sleep(ttl + 2*time.Second) // those that were cut off are members again
	for _, n := range m.nodes {
		if _, err := n.cluster.Reload(m.t.Context()); err != nil {
			m.t.Errorf("reload of %s: %v", n.name, err)
		}
	}
	for fleet := range m.fleets {
		if err := m.nodes[0].cluster.Adopt(m.t.Context(), fleet); err != nil {
			m.t.Error(err)
		}
	}
}

// check holds what happened to what is promised.
func (m *model) check() {
	terms, members := map[string]uint64{}, map[string]string{}
	for _, w := range m.store.Writes() {
		key := fmt.Sprint(w.Shard, " ", w.Term)
		if !w.Owner || w.Term < terms[w.Shard] || members[key] != "" && members[key] != w.Member {
			m.t.Errorf("%s wrote the state of %s in term %d, after one of term %d: owner %v", w.Member, w.Shard, w.Term, terms[w.Shard], w.Owner)
		}
		terms[w.Shard], members[key] = w.Term, w.Member
	}
	for _, a := range m.asked {
		if a.owner != a.member {
			m.t.Errorf("at %s %s asked for %d of %s, whose owner is %q", a.at, a.member, a.to, a.fleet, a.owner)
		}
	}
	for fleet, memory := range m.fleets {
		highest := int32(0)
		for _, w := range memory.Writes() {
			if w.Err == nil && w.To < w.From {
				m.t.Errorf("%s went down from %d to %d within the window", fleet, w.From, w.To)
			}
			highest = max(highest, w.To)
		}
		m.mu.Lock()
		wanted := int32(m.load[fleet])
		m.mu.Unlock()
		if got := memory.Replicas("web"); got < wanted {
			m.t.Errorf("%s has %d replicas in the end, want %d at least", fleet, got, wanted)
		}
		var owners []string
		for _, n := range m.nodes {
			d := n.cluster.Daemon(fleet)
			if d == nil {
				continue
			}
			owners = append(owners, n.name)
			view, _ := d.Autoscaler(fleet + "-web")
			if late := time.Since(view.Evaluation.Last); late > 2*period || view.Evaluation.Error != "" {
				m.t.Errorf("%s is evaluated by %s %s ago, with %q", fleet, n.name, late, view.Evaluation.Error)
			}
		}
		if len(owners) != 1 {
			m.t.Errorf("%s is run by %q, want one member", fleet, owners)
		}
	}
}

// TestModel runs members through faults by a seed, and holds what they did to what is
// promised: no write of state and no call for a count but by the owner, no count that goes
// down within the window, and every fleet run by one
// member soon after the faults are over.
//
// Of the first 40 schedules 25 fail where the store's transactions do not compare the
// term, and 21 where members ask platforms without an intention and past their lease.
// With one of these two none does: nothing here stops a process between its last look at
// the clock and its call.
func TestModel(t *testing.T) {
	schedules := soak.Rounds(40, 10_000)
	for i := range schedules {
		run := uint64(i + 1)
		if *seed != 0 {
			run = *seed
		}
		t.Run(fmt.Sprint("seed=", run), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { schedule(t, run, dir) })
		})
		if *seed != 0 {
			return
		}
	}
}

func newModel(t *testing.T, run uint64, dir string) *model {
	m := &model{
		t: t, dir: dir, random: rand.New(rand.NewPCG(run, 0)), store: clustertest.NewMemory(run),
		fleets: map[string]*targettest.Memory{}, load: map[string]float64{},
	}
	for _, fleet := range []string{"alpha", "beta", "gamma", "delta"} {
		m.fleets[fleet] = targettest.NewMemory(fleet)
		m.fleets[fleet].Add("web", targettest.MemoryTarget{Replicas: 3, Age: time.Hour})
		m.load[fleet] = 3
	}
	return m
}

func schedule(t *testing.T, run uint64, dir string) {
	m := newModel(t, run, dir)
	for i := range 2 + m.random.IntN(2) {
		n := &node{model: m, name: fmt.Sprint("hpad-", i), tolerance: 0.02}
		m.nodes = append(m.nodes, n)
		n.start(true)
	}
	time.Sleep(patience)
	names := slices.Sorted(maps.Keys(m.fleets))
	for range 12 {
		time.Sleep(time.Duration(m.random.Int64N(int64(20 * time.Second))))
		m.fault()
		m.mu.Lock()
		fleet := names[m.random.IntN(len(names))]
		m.load[fleet] = float64(1 + m.random.IntN(40))
		m.mu.Unlock()
	}
	m.heal()
	time.Sleep(2 * patience)
	m.check()
	for _, n := range m.nodes {
		n.end(false)
	}
}
