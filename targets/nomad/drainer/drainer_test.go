package drainer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/nomad/drainer"
)

// nodes implements Nodes in memory and records its calls.
type nodes struct {
	// of maps the first ID of a query to a node. counts maps nodes to their number of allocations.
	of     map[string]string
	counts map[string]int
	calls  []string
	err    error
}

func (n *nodes) note(format string, arguments ...any) error {
	n.calls = append(n.calls, fmt.Sprintf(format, arguments...))
	return n.err
}

func (n *nodes) FindNodes(_ context.Context, queries []nomad.NodeQuery) ([]nomad.NodeMatch, error) {
	matches := make([]nomad.NodeMatch, len(queries))
	for i, query := range queries {
		_ = n.note("find %v %v %v %s", query.IDs, query.Names, query.Addresses, query.Attribute)
		matches[i].ID = n.of[query.IDs[0]]
		if matches[i].ID == "twins" {
			matches[i] = nomad.NodeMatch{Err: targets.ErrUnscalable}
		}
	}
	return matches, nil
}

func (n *nodes) DrainNode(_ context.Context, id string, within time.Duration, ignoreSystem bool) error {
	return n.note("drain %s within %v, system %v", id, within, !ignoreSystem)
}

func (n *nodes) NodeDrained(_ context.Context, id string) (bool, error) {
	return true, n.note("drained %s", id)
}
func (n *nodes) RestoreNode(_ context.Context, id string) error { return n.note("restore %s", id) }
func (n *nodes) PurgeNode(_ context.Context, id string) error   { return n.note("purge %s", id) }

func (n *nodes) NodeAllocations(context.Context) (map[string]int, error) {
	return maps.Clone(n.counts), n.note("count")
}

func (n *nodes) said() string {
	said := strings.Join(n.calls, "; ")
	n.calls = nil
	return said
}

func TestDrainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{of: map[string]string{"i-1": "n-1", "i-2": "twins"}}
		d := drainer.New(n, drainer.Config{})
		instance := drain.Instance{
			ID: "i-1", Name: "web-1", Node: "host-1", Addresses: []string{"10.0.0.1"}, Deadline: time.Now().Add(10 * time.Minute),
		}
		expect := func(err error, want string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if got := n.said(); got != want {
				t.Errorf("calls =\n%s\nwant\n%s", got, want)
			}
		}
		const looked = "find [i-1] [i-1 web-1 host-1] [10.0.0.1] "
		expect(d.Begin(t.Context(), instance), looked+"; drain n-1 within 9m30s, system true")
		done, err := d.Drained(t.Context(), instance)
		expect(err, looked+"; drained n-1")
		if !done {
			t.Error("Drained() = false, want true")
		}
		expect(d.Undo(t.Context(), instance), looked+"; restore n-1")
		expect(d.Finish(t.Context(), instance), looked+"; purge n-1")

		n.of["i-1"] = ""
		if err := d.Begin(t.Context(), instance); err == nil || !strings.Contains(err.Error(), "no Nomad node matches") {
			t.Errorf("Begin() without a node = %v, want an error", err)
		}
		n.said()
		done, err = d.Drained(t.Context(), instance)
		expect(err, looked)
		if !done {
			t.Error("Drained() of a purged node = false, want true")
		}
		expect(d.Undo(t.Context(), instance), looked)
		expect(d.Finish(t.Context(), instance), looked)

		twin := drain.Instance{ID: "i-2"}
		for name, call := range map[string]func(context.Context, drain.Instance) error{"Begin": d.Begin, "Undo": d.Undo, "Finish": d.Finish} {
			if err := call(t.Context(), twin); !errors.Is(err, targets.ErrUnscalable) || !strings.Contains(err.Error(), "i-2") {
				t.Errorf("%s() of an instance with two nodes = %v, want an error", name, err)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	n := &nodes{of: map[string]string{"i-1": "n-1"}}
	d := drainer.New(n, drainer.Config{NodeAttribute: "meta.machine", IgnoreSystemJobs: true, KeepNodes: true})
	instance := drain.Instance{ID: "i-1", Deadline: time.Now().Add(time.Hour)}
	if err := d.Begin(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	if got := n.said(); !strings.HasPrefix(got, "find [i-1] [i-1] [] meta.machine; drain n-1 within 59m") || !strings.HasSuffix(got, "system false") {
		t.Errorf("calls = %s, want a search by the attribute and a drain without system jobs", got)
	}
	if err := d.Finish(t.Context(), instance); err != nil || len(n.calls) != 0 {
		t.Errorf("Finish() = %v, %v, want no calls", err, n.calls)
	}
}

func TestAllocations(t *testing.T) {
	n := &nodes{of: map[string]string{"i-1": "n-1", "i-2": "n-2"}, counts: map[string]int{"n-1": 4}}
	d := drainer.New(n, drainer.Config{})
	instances := []drain.Instance{{ID: "i-1"}, {ID: "i-2"}, {ID: "i-3"}}
	counts, err := d.Allocations(t.Context(), instances)
	if want := map[string]int{"i-1": 4, "i-2": 0}; err != nil || !maps.Equal(counts, want) {
		t.Errorf("Allocations() = %v, %v, want %v", counts, err, want)
	}
	n.err = targets.ErrTransient
	if _, err := d.Allocations(t.Context(), instances); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Allocations() = %v", err)
	}
}
