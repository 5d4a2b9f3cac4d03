package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/soak"
)

// newDividedModel has one fleet, of eight targets in four parts as long as members have
// autoscalers of all of them.
func newDividedModel(t *testing.T, run uint64, dir string) *partsModel {
	m := newPartsModel(t, run, dir)
	m.targets, m.size = nil, 2
	clear(m.load)
	fleet := targettest.NewMemory("alpha")
	m.fleets = map[string]*targettest.Memory{"alpha": fleet}
	m.load["alpha"] = 3
	for i := range 8 {
		name := fmt.Sprint("t", i)
		m.targets = append(m.targets, name)
		fleet.Add(name, targettest.MemoryTarget{Replicas: 3, Age: time.Hour})
	}
	return m
}

// TestDividedModel is TestModel with a fleet that is divided, which reloads divide anew: into
// one, two and four parts. A window that is lost while parts move lets a count go down, and
// two members that run an autoscaler in two layouts are found by who owns its shards.
func TestDividedModel(t *testing.T) {
	schedules := soak.Rounds(20, 3_000)
	for i := range schedules {
		run := uint64(i + 1)
		if *seed != 0 {
			run = *seed
		}
		t.Run(fmt.Sprint("seed=", run), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { newDividedModel(t, run, dir).schedule() })
		})
		if *seed != 0 {
			return
		}
	}
}

// begun starts members and waits until they run all.
func (m *partsModel) begun(members int) {
	for i := range members {
		n := &partsNode{partsModel: m, name: fmt.Sprint("hpad-", i), tolerance: 0.02}
		m.nodes = append(m.nodes, n)
		n.start(true)
	}
	time.Sleep(patience)
}

func (m *partsModel) reload(t *testing.T, without int) {
	t.Helper()
	for _, n := range m.nodes {
		m.mu.Lock()
		n.without = without
		m.mu.Unlock()
		if _, err := n.cluster.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(patience)
}

// parts returns the parts that there are, of the layout in force.
func (m *partsModel) parts() string { return strings.Join(m.nodes[0].cluster.Shards(), " ") }

// TestDivision follows windows and pauses while a fleet is divided, and put together again.
func TestDivision(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		m.nodes = nil
		m.mu.Lock()
		m.load["alpha"] = 9
		m.mu.Unlock()
		m.begun(2)
		if got := m.parts(); got != "alpha~1-4 alpha~2-4 alpha~3-4 alpha~4-4" {
			t.Fatalf("the shards are %q", got)
		}
		for _, n := range m.nodes {
			count := 0
			for range n.cluster.Daemon("alpha").AutoscalersAfter("") {
				count++
			}
			if count == 0 || count == 8 {
				t.Errorf("%s runs %d of 8 autoscalers in 2 of 4 parts", n.name, count)
			}
		}
		everyone := policy.Scope{Fleet: "alpha"}
		for _, n := range m.nodes { // as the other one's face would have it
			if err := n.cluster.Alone().Pause(t.Context(), policy.Pause{Scope: everyone, Direction: policy.Up, Reason: "sale"}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.nodes[0].cluster.Alone().Pause(t.Context(), policy.Pause{Scope: policy.Scope{Autoscaler: m.ownAutoscaler()}, Reason: "mine"}, 0); err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		m.load["alpha"] = 1
		m.mu.Unlock()
		for _, without := range []int{6, 0, 4, 0} { // one part, four, two, four
			m.reload(t, without)
			if got, want := len(m.nodes[0].cluster.Shards()), max(1, (8-without)/2); got != want {
				t.Errorf("with %d autoscalers there are %d parts, want %d", 8-without, got, want)
			}
		}
		m.check()
		pauses := map[policy.Scope]int{}
		for _, n := range m.nodes {
			for _, pause := range n.cluster.Alone().Pauses() {
				pauses[pause.Scope]++
			}
		}
		if pauses[everyone] != 2 || len(pauses) != 2 {
			t.Errorf("the pauses are %v, want that of the fleet on both members and that of one autoscaler", pauses)
		}
		fleets := m.nodes[0].cluster.Whole().(api.Clustered).Cluster(t.Context()).Fleets
		if len(fleets) != 4 || fleets[1].Name != "alpha" || fleets[1].Part != "2-4" || fleets[1].Owner == "" {
			t.Errorf("the cluster shows %+v", fleets)
		}
		for _, n := range m.nodes {
			n.end(false)
		}
		if left := slices.Sorted(maps.Keys(m.store.Records("alpha"))); len(left) > 0 {
			t.Errorf("the records of the fleet as a whole are left: %q", left)
		}
	})
}

// ownAutoscaler returns one that the first member runs.
func (m *partsModel) ownAutoscaler() string {
	for a := range m.nodes[0].cluster.Daemon("alpha").AutoscalersAfter("") {
		return a.Name
	}
	return ""
}

// TestOneReading holds that who owns all parts of a fleet reads it once a round.
func TestOneReading(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		m.begun(1)
		before := m.fleets["alpha"].Calls().Snapshots
		time.Sleep(10 * period)
		if read := m.fleets["alpha"].Calls().Snapshots - before; read != 10 || len(m.nodes[0].cluster.Shards()) != 4 {
			t.Errorf("%d readings in 10 rounds of %d parts", read, len(m.nodes[0].cluster.Shards()))
		}
		m.nodes[0].end(false)
	})
}

// TestBeginsDuringTrial has a member take over all of a fleet while a reload tries a
// configuration without most of it, in another layout: it runs what is in force.
func TestBeginsDuringTrial(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		m.begun(2)
		other := &partsNode{partsModel: m, without: 7}
		tried, err := other.configuration()
		if err != nil {
			t.Fatal(err)
		}
		end := m.nodes[0].cluster.Try(tried)
		m.nodes[1].end(false)
		time.Sleep(patience)
		end()
		m.check()
		m.nodes[0].end(false)
	})
}

// leaking is a store in which some releases of shards, and some writes, fail.
type leaking struct {
	cluster.Coordinator
	of *partsModel
}

func (l leaking) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	s, err := l.Coordinator.Join(ctx, member, ttl)
	if err != nil {
		return nil, err
	}
	return leakingSession{s, l.of}, nil
}

type leakingSession struct {
	cluster.Session
	of *partsModel
}

func (s leakingSession) Acquire(ctx context.Context, shard, configuration string) (cluster.Term, error) {
	term, err := s.Session.Acquire(ctx, shard, configuration)
	if err != nil {
		return nil, err
	}
	return leakingTerm{term, s.of, shard}, nil
}

type leakingTerm struct {
	cluster.Term
	of    *partsModel
	shard string
}

func (t leakingTerm) Write(ctx context.Context, values map[string][]byte) error {
	t.of.mu.Lock()
	full := t.shard == t.of.full && slices.ContainsFunc(slices.Collect(maps.Values(values)), func(value []byte) bool { return value != nil })
	if full {
		t.of.refused++
	}
	t.of.mu.Unlock()
	if full {
		return errFull
	}
	return t.Term.Write(ctx, values)
}

func (t leakingTerm) Release(ctx context.Context) error {
	t.of.mu.Lock()
	leaks := t.of.leaks > 0
	if leaks {
		t.of.leaks--
	}
	t.of.mu.Unlock()
	if leaks {
		return errors.New("no quorum")
	}
	return t.Term.Release(ctx)
}

// TestDivisionAfterLeaks divides a fleet of which the members could not let go: of the parts
// that they ran, and then of all that the one had that divided it.
func TestDivisionAfterLeaks(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		m.begun(2)
		for _, leaks := range []int{4, 10} {
			m.mu.Lock()
			m.leaks = leaks
			m.mu.Unlock()
			m.reload(t, 6)
			if got := m.parts(); got != "alpha" {
				t.Errorf("after %d leaks the shards are %q", leaks, got)
			}
			m.reload(t, 0)
			if got := m.parts(); got != "alpha~1-4 alpha~2-4 alpha~3-4 alpha~4-4" {
				t.Errorf("after %d leaks the shards are %q again", leaks, got)
			}
			if m.mu.Lock(); m.leaks > 0 {
				t.Errorf("%d releases are left to fail", m.leaks)
			}
			m.mu.Unlock()
		}
		time.Sleep(patience)
		m.check()
		for _, n := range m.nodes {
			if _, _, err := n.cluster.View(); err != nil {
				t.Error(err)
			}
			n.end(false)
		}
	})
}

// TestDivisionFails has no room for one of four parts: what was copied is removed, the fleet is
// run as it was, and that is tried less and less often, and at the next reload.
func TestDivisionFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		full := func(shard string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.full = shard
		}
		m.begun(2)
		m.reload(t, 6)
		full("alpha~3-4")
		m.reload(t, 0)
		time.Sleep(time.Hour)
		m.check()
		if got := m.parts(); got != "alpha" {
			t.Errorf("the shards are %q", got)
		}
		if m.refused < 4 || m.refused > 6 {
			t.Errorf("it was tried %d times in an hour, want after 1, 2, 4, 8, 16 and 32 minutes", m.refused)
		}
		for part := range 4 {
			shard := fmt.Sprintf("alpha~%d-4", part+1)
			if left := len(m.store.Records(shard)); left > 0 {
				t.Errorf("%d records of %s are left", left, shard)
			}
		}
		full("")
		m.reload(t, 0)
		if got := m.parts(); got != "alpha~1-4 alpha~2-4 alpha~3-4 alpha~4-4" {
			t.Errorf("after a reload the shards are %q", got)
		}
		m.check()
		for _, n := range m.nodes {
			n.end(false)
		}
	})
}

// TestLockIsPassed holds that who takes parts over owns the lock after that, and lets go of it:
// a write of the layout that is on its way is over then.
func TestLockIsPassed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newDividedModel(t, 1, dir)
		m.begun(2)
		lock := func() cluster.Ownership {
			t.Helper()
			view, err := m.nodes[0].connection.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return view.Shards["alpha~"]
		}
		before := lock()
		m.nodes[1].end(true)
		time.Sleep(patience)
		if after := lock(); after.Term <= before.Term || after.Owner != "" || after.Configuration != before.Configuration {
			t.Errorf("after a take-over the lock is %+v, and was %+v", after, before)
		}
		m.check()
		m.nodes[0].end(false)
	})
}
