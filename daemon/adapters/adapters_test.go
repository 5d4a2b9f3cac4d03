package adapters

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// journal records the actions of fleets in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if diff := cmp.Diff(lines, j.lines); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	j.lines = nil
}

// table is the configuration of a fake fleet.
type table struct {
	journal *journal
	// version distinguishes tables with the same name.
	version string
	// unbuildable makes the build fail. failingStarts is the number of starts that fail.
	unbuildable   bool
	failingStarts int
	// succeeds makes the fleet a targets.Successor.
	succeeds bool
}

func (*table) SetDefaults()                    {}
func (*table) Validate() []settings.FieldError { return nil }

func (c *table) Build(name string, _ targets.Env) (targets.Fleet, error) {
	if c.unbuildable {
		return nil, errors.New("invalid table")
	}
	return &fleet{table: *c, name: name + " " + c.version}, nil
}

type fleet struct {
	targets.Fleet
	table
	name string
}

func (f *fleet) Start(context.Context) error {
	if f.failingStarts > 0 {
		f.failingStarts--
		f.journal.add(f.name + " start failed")
		return errors.New("not started")
	}
	f.journal.add(f.name + " starts")
	return nil
}

func (f *fleet) Succeed(any) bool { return f.succeeds }

func (f *fleet) Close() error {
	f.journal.add(f.name + " closed")
	return nil
}

// newManager returns a Manager and a function that stops it.
func newManager(t *testing.T) (*Manager, context.CancelFunc) {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return NewManager(running, running, Env{
		Log:   zap.NewNop(),
		Store: func(string) targets.Store { return nil },
		Meter: func(string) targets.Meter { return nil },
	}), stop
}

func of(tables map[string]*table) *config.Config {
	c := &config.Config{Fleets: map[string]config.Fleet{}}
	c.Daemon.ConcurrentSyncs = 1
	for name, one := range tables {
		c.Fleets[name] = config.Fleet{Name: name, Kind: "imitated", Config: one}
	}
	return c
}

// reload builds the fleets and swaps them with the fleets in before.
func reload(t *testing.T, k *Manager, tables map[string]*table, before Set) Set {
	t.Helper()
	change, err := k.Build(of(tables), before)
	if err != nil {
		t.Fatal(err)
	}
	k.Swap(change)
	return change.Set
}

// TestSuccessor checks that a successor does not wait for calls into the old fleet.
func TestSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newManager(t)
		j := &journal{}
		first := reload(t, k, map[string]*table{"web": {journal: j, version: "1"}}, Set{})
		j.want(t, "web 1 starts")
		first.Fleets["web"].Uses.Begin()
		reload(t, k, map[string]*table{"web": {journal: j, version: "2", succeeds: true}}, first)
		j.want(t, "web 2 starts")
		time.Sleep(retireWait - time.Second)
		j.want(t)
		time.Sleep(time.Second) // longer than retireWait
		j.want(t, "web 1 closed")
		k.Wait()
	})
}

// TestStartAgain checks that a failed start is repeated until the fleet is replaced or the daemon
// stops.
func TestStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stop := newManager(t)
		j := &journal{}
		first := reload(t, k, map[string]*table{"web": {journal: j, version: "1", failingStarts: 2}}, Set{})
		j.want(t, "web 1 start failed")
		if got := first.Fleets["web"].Problem.Text(); !strings.Contains(got, "not started") {
			t.Errorf("problem = %q, want the error of the start", got)
		}
		time.Sleep(StartRetry)
		j.want(t, "web 1 start failed")
		time.Sleep(StartRetry)
		j.want(t, "web 1 starts")
		if got := first.Fleets["web"].Problem.Text(); got != "" {
			t.Errorf("problem after the start = %q", got)
		}
		second := reload(t, k, map[string]*table{"web": {journal: j, version: "2", failingStarts: 100}}, first)
		j.want(t, "web 1 closed", "web 2 start failed")
		reload(t, k, map[string]*table{"web": {journal: j, version: "3", failingStarts: 100}}, second)
		j.want(t, "web 2 closed", "web 3 start failed")
		stop()
		k.Wait()
		j.want(t)
	})
}

// TestBuildFails checks that a failed build closes new fleets and does not affect active ones.
func TestBuildFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newManager(t)
		j := &journal{}
		first := reload(t, k, map[string]*table{"web": {journal: j, version: "1"}}, Set{})
		j.want(t, "web 1 starts")
		_, err := k.Build(of(map[string]*table{"api": {journal: j, version: "1"}, "web": {journal: j, unbuildable: true}}), first)
		if err == nil || !strings.Contains(err.Error(), `fleet "web": invalid table`) {
			t.Errorf("Build = %v, want an error with the name of the fleet", err)
		}
		j.want(t, "api 1 closed")
		k.Wait()
	})
}

// TestSharedRead checks that an active read is shared only if it includes all targets and began late
// enough.
func TestSharedRead(t *testing.T) {
	ref := func(name string) targets.Ref { return targets.Ref{Fleet: "f", Name: name} }
	var reads reads
	before := time.Now()
	active, begun := reads.Begin([]targets.Ref{ref("a"), ref("b")}, before)
	if !begun {
		t.Fatal("the first read did not begin")
	}
	for _, test := range []struct {
		refs  []targets.Ref
		since time.Time
		begun bool
	}{
		{[]targets.Ref{ref("b")}, before, false},
		{[]targets.Ref{ref("b"), ref("a")}, before, false},
		{[]targets.Ref{ref("a"), ref("c")}, before, true},
		{[]targets.Ref{ref("a"), ref("b"), ref("c")}, before, true},
		{[]targets.Ref{ref("a")}, time.Now().Add(time.Hour), true},
	} {
		read, begun := reads.Begin(test.refs, test.since)
		if begun != test.begun {
			t.Errorf("a read of %v began: %t, want %t", test.refs, begun, test.begun)
		}
		if begun {
			reads.End(read, nil, nil)
		}
	}
	reads.End(active, nil, nil)
	if _, begun := reads.Begin([]targets.Ref{ref("a")}, before); !begun {
		t.Error("an ended read was shared")
	}
}
