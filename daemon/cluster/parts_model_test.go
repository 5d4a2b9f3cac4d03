package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
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
)

// partsModel is some members over one store, and what they scale.
type partsModel struct {
	t      *testing.T
	random *rand.Rand
	store  *clustertest.Memory
	dir    string
	fleets map[string]*targettest.Memory
	// targets are those of each fleet, size is how many autoscalers a shard has at most.
	targets []string
	size    int

	mu sync.Mutex
	// load is what each fleet's target has to do.
	load map[string]float64
	// asked are the calls of members for counts.
	asked []partsAsk
	nodes []*partsNode
	// leaks is how many releases of shards fail from now on.
	leaks int
	// full is a shard of which no state is written, refused how many writes of it were not.
	full    string
	refused int
}

// partsAsk is a call for a count, when it was made.
type partsAsk struct {
	at            time.Time
	member, fleet string
	owner         string
	to            int32
}

// partsNode is a member, which may run or not.
type partsNode struct {
	*partsModel
	name string
	// tolerance is what makes its configuration another one.
	tolerance config.Tolerance
	// without is how many of the last targets it has no autoscalers of.
	without int
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

// partsFleet is the configuration of a fleet as one member has it.
type partsFleet struct{ *partsNode }

func (partsFleet) SetDefaults()                    {}
func (partsFleet) Validate() []settings.FieldError { return nil }
func (partsFleet) Divides() bool                   { return true }

func (f partsFleet) Build(name string, _ targets.Env) (targets.Fleet, error) {
	return partsView{f.partsNode, name}, nil
}

// partsView is a fleet as one member reaches it.
type partsView struct {
	*partsNode
	fleet string
}

func (v partsView) stands(ctx context.Context) error {
	v.mu.Lock()
	hung := v.hung
	v.mu.Unlock()
	if !hung {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (v partsView) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := v.stands(ctx); err != nil {
		return nil, err
	}
	return v.fleets[v.fleet].Snapshot(ctx, refs)
}

func (v partsView) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	owner := v.ownerOf(v.fleet, v.fleet+"-"+ref.Name)
	v.mu.Lock()
	v.asked = append(v.asked, partsAsk{at: time.Now(), member: v.name, fleet: v.fleet, owner: owner, to: n})
	v.mu.Unlock()
	if err := v.stands(ctx); err != nil {
		return errors.Join(targets.ErrUnknownOutcome, err)
	}
	return v.fleets[v.fleet].SetReplicas(ctx, ref, n, version, reason)
}

// ownerOf returns who owns an autoscaler's shard, however its fleet is divided; several where
// that is somebody else otherwise.
func (m *partsModel) ownerOf(fleet, autoscaler string) string {
	owners := ""
	for _, shard := range cluster.ShardsOf(fleet, autoscaler, 4) {
		if owner := m.store.Owner(shard); owner != "" && owner != owners {
			owners += owner
		}
	}
	return owners
}

// partsSource is the configuration of the source.
type partsSource struct{ *partsModel }

func (partsSource) SetDefaults()                                        {}
func (partsSource) Validate() []settings.FieldError                     { return nil }
func (s partsSource) Build(string, sources.Env) (sources.Source, error) { return s, nil }

func (s partsSource) Query(_ context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sources.Vector{Series: []sources.Series{{Value: s.load[query.Text], At: at}}}, nil
}

// configuration returns what a member loads.
func (n *partsNode) configuration() (*config.Config, error) {
	c := &config.Config{
		Daemon: config.DefaultDaemon(), Fleets: map[string]config.Fleet{}, Autoscalers: map[string]*config.Autoscaler{},
		Sources: map[string]config.Source{"source": {Name: "source", Kind: "memory", Config: partsSource{n.partsModel}}},
	}
	c.Daemon.SyncPeriod = period
	n.mu.Lock()
	c.Daemon.Tolerance = n.tolerance
	having := n.targets[:len(n.targets)-n.without]
	n.mu.Unlock()
	low, each, window := int32(1), int64(1000), int32(3600)
	for fleet, memory := range n.fleets {
		c.Fleets[fleet] = config.Fleet{Name: fleet, Kind: "memory", Config: partsFleet{n}}
		for _, target := range having {
			name := fleet + "-" + target
			c.Autoscalers[name] = &config.Autoscaler{
				Name: name, Target: memory.Ref(target), SyncPeriod: period,
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
	}
	return c, nil
}

// start runs the member, with a directory as empty as on another machine, or its own.
func (n *partsNode) start(fresh bool) {
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
		Load: n.configuration, Coordinator: leaking{n.connection, n.partsModel}, Member: cluster.Member{Name: n.name, Address: n.address}, TTL: ttl, ShardSize: n.size,
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
func (n *partsNode) end(killed bool) {
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

func (n *partsNode) hang(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hung = on
}

// fault has something happen to some member.
func (m *partsModel) fault() {
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
		n.without = m.random.IntN(len(m.targets))
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
func (m *partsModel) heal() {
	for _, n := range m.nodes {
		m.mu.Lock()
		n.tolerance, n.without = 0.02, 0
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
func (m *partsModel) check() {
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
		for _, target := range m.targets {
			name := fleet + "-" + target
			if got := memory.Replicas(target); got < wanted {
				m.t.Errorf("%s has %d replicas in the end, want %d at least", name, got, wanted)
			}
			m.checkOwner(fleet, name)
		}
	}
}

// checkOwner holds that one member evaluates an autoscaler.
func (m *partsModel) checkOwner(fleet, name string) {
	var owners []string
	for _, n := range m.nodes {
		d := n.cluster.Daemon(fleet)
		if d == nil {
			continue
		}
		view, has := d.Autoscaler(name)
		if !has {
			continue
		}
		owners = append(owners, n.name)
		if late := time.Since(view.Evaluation.Last); late > 2*period || view.Evaluation.Error != "" {
			m.t.Errorf("%s is evaluated by %s %s ago, with %q", name, n.name, late, view.Evaluation.Error)
		}
	}
	if len(owners) != 1 {
		m.t.Errorf("%s is run by %q, want one member", name, owners)
	}
}

func newPartsModel(t *testing.T, run uint64, dir string) *partsModel {
	m := &partsModel{
		t: t, dir: dir, random: rand.New(rand.NewPCG(run, 0)), store: clustertest.NewMemory(run),
		fleets: map[string]*targettest.Memory{}, load: map[string]float64{}, targets: []string{"web"},
	}
	for _, fleet := range []string{"alpha", "beta", "gamma", "delta"} {
		m.fleets[fleet] = targettest.NewMemory(fleet)
		m.fleets[fleet].Add("web", targettest.MemoryTarget{Replicas: 3, Age: time.Hour})
		m.load[fleet] = 3
	}
	return m
}

func (m *partsModel) schedule() {
	for i := range 2 + m.random.IntN(2) {
		n := &partsNode{partsModel: m, name: fmt.Sprint("hpad-", i), tolerance: 0.02}
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
