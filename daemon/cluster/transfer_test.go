package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// single returns the state of an hpad that is not in a cluster. It contains the eight autoscalers
// of fleet alpha and one autoscaler of the host's own fleet.
func single(t *testing.T, dir string) (export []byte, snapshot state.Snapshot) {
	t.Helper()
	s, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	changes := state.Changes{
		Records: map[string]state.Record{"here": {Created: noon, Target: targets.Ref{Fleet: "local", Name: "here"}}},
		Pauses: map[policy.Scope]*policy.Pause{
			{}:                          {Since: noon, Reason: "all"},
			{Fleet: "alpha"}:            {Scope: policy.Scope{Fleet: "alpha"}, Since: noon},
			{Autoscaler: "alpha-t3"}:    {Scope: policy.Scope{Autoscaler: "alpha-t3"}, Since: noon},
			{Autoscaler: "here"}:        {Scope: policy.Scope{Autoscaler: "here"}, Since: noon},
			{Fleet: "a", Breaker: true}: {Scope: policy.Scope{Fleet: "a", Breaker: true}, Since: noon},
		},
		Removals:  map[string]state.Removals{"alpha": {Rounds: []state.Removal{{Time: noon, Instances: 2}}}},
		LastRound: noon.Add(time.Minute), Clock: clock.State{Time: noon.Add(time.Minute)},
		Entries: []state.Entry{{Autoscaler: "alpha-t1", Time: noon}, {Autoscaler: "here", Time: noon}},
	}
	for i := range 8 {
		changes.Records[fmt.Sprint("alpha-t", i)] = state.Record{
			Created: noon, Through: noon, Target: targets.Ref{Fleet: "alpha", Name: fmt.Sprint("t", i)},
			Memory: policy.Memory{Recommendations: []policy.Recommendation{{Replicas: int32(i), Time: noon}}},
			Replay: &state.Replay{Replicas: int32(i), Period: time.Minute},
		}
	}
	if err := s.Commit(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := s.Fleet("alpha").Save(t.Context(), "readiness/3f", []byte("known\n")); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.Export(t.Context(), &text, true); err != nil {
		t.Fatal(err)
	}
	if snapshot, err = s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes(), snapshot
}

func filled(t *testing.T, into cluster.Coordinator, c *config.Config, dir string, export []byte) error {
	t.Helper()
	i, err := cluster.BeginImport(t.Context(), into, c)
	if err != nil {
		return err
	}
	_, err = state.Import(t.Context(), dir, bytes.NewReader(export), func(values map[string][]byte, keep func(map[string][]byte) error) error {
		return i.Write(t.Context(), values, keep)
	})
	return i.End(t.Context(), err)
}

// TestTransfer checks that the state of a single hpad is unchanged after a move into a cluster and
// back.
func TestTransfer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		export, before := single(t, filepath.Join(dir, "single"))
		m := newModel(t, 1, dir)
		c := m.add().configurationOf(standard)
		into := m.store.Connect()
		if err := filled(t, into, c, filepath.Join(dir, "member"), export); err != nil {
			t.Fatal(err)
		}
		again := filled(t, into, c, filepath.Join(dir, "again"), export)
		if again == nil || !strings.Contains(again.Error(), "has state in the cluster store") {
			t.Errorf("second import = %v, want an error", again)
		}
		own, err := state.Open(filepath.Join(dir, "member"), state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		left, err := own.Load(t.Context())
		if err != nil || len(left.Autoscalers) != 1 || len(left.Pauses) != 3 {
			t.Errorf("state of the host's own fleet = %+v, %v", left, err)
		}
		fleets, err := cluster.ReadAll(t.Context(), into)
		if err != nil || len(fleets) != len(m.fleets) {
			t.Fatalf("got %d fleets, %v, want %d", len(fleets), err, len(m.fleets))
		}
		back, err := state.Spool(t.Context(), own, fleets, []state.Store{own})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = back.Close() }()
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := state.Import(t.Context(), filepath.Join(dir, "back"), back, nil); err != nil {
			t.Fatal(err)
		}
		s, err := state.Open(filepath.Join(dir, "back"), state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := s.Load(t.Context())
		if diff := cmp.Diff(before, after); diff != "" || err != nil {
			t.Errorf("state after the round trip (-before +after), %v:\n%s", err, diff)
		}
		if known, err := s.Fleet("alpha").Load(t.Context(), "readiness/3f"); string(known) != "known\n" {
			t.Errorf("the fleet's store contains %q, %v", known, err)
		}
		if entries, err := s.History(t.Context(), "", time.Time{}, time.Time{}, 0); len(entries) != 2 {
			t.Errorf("history = %+v, %v", entries, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

type hooks struct {
	// write is called before a write. puts is false if the write only removes values.
	write func(puts bool) error
	// written is called after a write.
	written func(values map[string][]byte)
}

// hooked is a store with hooks.
type hooked struct {
	cluster.Coordinator
	*hooks
}

func (h hooked) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	s, err := h.Coordinator.Join(ctx, member, ttl)
	if err != nil {
		return nil, err
	}
	return hookedSession{s, h.hooks}, nil
}

type hookedSession struct {
	cluster.Session
	*hooks
}

func (s hookedSession) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	term, err := s.Session.Acquire(ctx, fleet, configuration)
	if err != nil {
		return nil, err
	}
	return hookedTerm{term, s.hooks}, nil
}

type hookedTerm struct {
	cluster.Term
	hooks *hooks
}

func (t hookedTerm) Write(ctx context.Context, values map[string][]byte) error {
	puts := slices.ContainsFunc(slices.Collect(maps.Values(values)), func(value []byte) bool { return value != nil })
	if t.hooks.write != nil {
		if err := t.hooks.write(puts); err != nil {
			return err
		}
	}
	err := t.Term.Write(ctx, values)
	if t.hooks.written != nil {
		t.hooks.written(values)
	}
	return err
}

var errFull = errors.New("quota exceeded")

type reader struct {
	io.Writer
	reads func()
}

func (r reader) Write(text []byte) (int, error) {
	r.reads()
	return r.Writer.Write(text)
}

func TestImportFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		export, _ := single(t, filepath.Join(dir, "single"))
		m := newModel(t, 1, dir)
		n := m.add()
		c := n.configurationOf(standard)
		into := m.store.Connect()
		left := 2
		full := hooks{write: func(puts bool) error {
			if puts && left == 0 {
				return errFull
			}
			if puts {
				left--
			}
			return nil
		}}
		if err := filled(t, hooked{into, &full}, c, filepath.Join(dir, "full"), export); !errors.Is(err, errFull) {
			t.Errorf("import into a store that becomes full = %v", err)
		}
		if err := filled(t, into, c, filepath.Join(dir, "member"), export); err != nil {
			t.Errorf("import after a failed import = %v", err)
		}
		n.start(true)
		time.Sleep(patience)
		if err := filled(t, into, c, filepath.Join(dir, "late"), export); err == nil || !strings.Contains(err.Error(), "members of the cluster are running (hpad-0)") {
			t.Errorf("import while a member is running = %v", err)
		}
		var out bytes.Buffer
		if err := n.cluster.ClusterAPI().ExportState(t.Context(), reader{&out, func() {
			if n.cluster.IsArchiving() {
				t.Error("a starting run waited for the reader of an export")
			}
		}}, true); err != nil {
			t.Fatal(err)
		}
		values := map[string][]byte{}
		if _, err := state.Import(t.Context(), filepath.Join(dir, "out"), &out, func(found map[string][]byte, keep func(map[string][]byte) error) error {
			maps.Copy(values, found)
			return keep(found)
		}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"autoscalers/alpha-t0", "autoscalers/alpha-t7", "meta/pause/f/alpha", "meta/pause/a/alpha-t3"} {
			if values[key] == nil {
				t.Errorf("the export of a member lacks %q", key)
			}
		}
		n.end(false)
	})
}

// TestImportIsKilled kills an import before each of its calls to the store. A member that starts
// after that owns no fleet, unless the import had not begun. A repeated import succeeds.
func TestImportIsKilled(t *testing.T) {
	dir, calls, complete := t.TempDir(), 0, false
	for !complete {
		calls++
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(dir, fmt.Sprint(calls))
			export, _ := single(t, filepath.Join(dir, "single"))
			m := newModel(t, 1, dir)
			n := m.add()
			killed := m.store.Connect()
			killed.CutAfter(calls)
			err := filled(t, killed, n.configurationOf(standard), filepath.Join(dir, "killed"), export)
			complete = err == nil
			n.start(true)
			time.Sleep(20 * time.Second) // the lease of the import has ended
			owned := m.store.Owned(n.name)
			n.end(false)
			switch {
			case complete:
				if len(owned) != len(m.fleets) {
					t.Errorf("fleets of the member after a complete import = %q", owned)
				}
				return
			case calls > 2 && len(owned) > 0:
				t.Errorf("fleets of the member after an import that was killed at call %d = %q, want none", calls, owned)
			case calls <= 2 || calls%4 != 0: // the store has no mark yet, or the import is not repeated, because one in four is enough
				return
			}
			if err := filled(t, m.store.Connect(), n.configurationOf(standard), filepath.Join(dir, "again"), export); err != nil {
				t.Errorf("import repeated after a kill at call %d: %v", calls, err)
			}
			n.start(true)
			time.Sleep(patience)
			if d := n.cluster.Daemon("alpha"); d == nil || len(d.Pauses()) != 3 {
				t.Errorf("import repeated after a kill at call %d: alpha runs = %t, want it with its pauses", calls, d != nil)
			}
			n.end(false)
		})
	}
	if calls < 20 {
		t.Errorf("the import made only %d calls", calls)
	}
}
