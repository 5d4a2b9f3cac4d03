package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/targettest"
)

// collected returns so many series of a label "id" within a budget.
func collected(ctx context.Context, budget *sources.Budget, series int, at time.Time) (sources.Vector, error) {
	c, err := budget.Collect(ctx, sources.Query{Labels: []string{"id"}})
	if err != nil {
		return sources.Vector{}, err
	}
	for i := range series {
		if err := c.Label([]byte("id"), fmt.Append(nil, i)); err != nil {
			return sources.Vector{}, err
		}
		if err := c.Add(3, at); err != nil {
			c.Release()
			return sources.Vector{}, err
		}
	}
	return c.Vector(nil), nil
}

// An answer is held until the last pass has read it and no longer: not for the
// writes of the round, not when nobody waits any more, and not when it comes late.
func TestAnswersAreGivenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		budget := sources.NewBudget(16<<20, "")
		var delay atomic.Int64
		w.source().set("shared", func(ctx context.Context, at time.Time) (sources.Vector, error) {
			vector, err := collected(ctx, budget, 10, at)
			time.Sleep(time.Duration(delay.Load())) // whatever the context says
			return vector, err
		})
		shared := func(a *config.Autoscaler) {
			a.Inputs[0].Query, a.Inputs[0].Select = "shared", config.SelectionOf(map[string]string{"id": "1"})
			a.Spec.Metrics, a.Inputs = append(a.Spec.Metrics, a.Spec.Metrics[0]), append(a.Inputs, a.Inputs[0])
		}
		w.queue("steady", 3, shared)
		w.queue("stuck", 1, shared) // wants 3
		w.queue("hasty", 3, shared, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		remove := w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "stuck", Hang: true})
		w.start()
		w.advance(100 * time.Millisecond)
		held := func(when string, want bool) {
			t.Helper()
			if used := budget.Usage().Used; (used > 0) != want {
				t.Errorf("%s: %d bytes of answers are held, want some: %t", when, used, want)
			}
		}
		held("while a write hangs", false)
		w.advance(time.Minute + 100*time.Millisecond)
		held("while its autoscaler is late", false)
		delay.Store(int64(800 * time.Millisecond))
		w.advance(time.Minute) // a tick of hasty's and of the others
		held("until the answer is there", true)
		w.advance(550 * time.Millisecond)
		held("while hasty has given up and others wait", true)
		w.advance(100 * time.Millisecond)
		held("when others have read it", false)
		delay.Store(int64(12 * time.Second)) // longer than anybody waits
		w.advance(14 * time.Second)
		w.advance(11 * time.Second)
		held("after everybody gave up", true)
		delay.Store(0)
		w.advance(14 * time.Second)
		held("when answers came too late", false)
		if got := w.view("steady").Evaluation.Error; got != "" {
			t.Errorf("steady failed in the end: %s", got)
		}
		remove()
		w.stop()
		held("at the end", false)
	})
}

// A source gets the labels that any reader of the answer looks at, whoever of them
// is due.
func TestQueriesNameTheirLabels(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("a", 1, func(a *config.Autoscaler) {
			a.Inputs[0].Query, a.Inputs[0].Select = "shared", config.SelectionOf(map[string]string{"queue": "a", "env": "x"})
		})
		w.queue("b", 1, instances(1, config.Input{InstanceLabel: "id", Match: config.MatchID, Select: config.SelectionOf(map[string]string{"env": "x"})}), func(a *config.Autoscaler) {
			a.Inputs[0].Query = "shared"
		})
		w.queue("c", 1)
		w.start()
		w.advance(time.Minute)
		for text, want := range map[string][]string{"shared": {"env", "id", "queue"}, "c": nil} {
			if got := slices.Sorted(slices.Values(w.source().named(text))); !slices.Equal(got, want) {
				t.Errorf("query %q named the labels %q, want %q", text, got, want)
			}
		}
		w.stop()
	})
}

// An answer that is looked up in more ways than there is room for is a failed
// reading of those who find none, and of nobody else.
func TestLookupsAreOfTheBudget(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		budget := sources.NewBudget(16<<20, "")
		w.source().set("shared", func(ctx context.Context, at time.Time) (sources.Vector, error) {
			return collected(ctx, budget, 12_000, at)
		})
		low := int32(1)
		for i := range 40 {
			w.queue(fmt.Sprintf("q%02d", i), 3, func(a *config.Autoscaler) {
				a.Spec.MinReplicas = &low
				a.Inputs[0].Query, a.Inputs[0].Select = "shared", config.SelectionOf(map[string]string{"id": "1", fmt.Sprintf("l%d", i): ""})
			})
		}
		w.fed("other", 3, 4)
		w.start()
		w.advance(time.Minute)
		failed := 0
		for i := range 40 {
			name := fmt.Sprintf("q%02d", i)
			if text := w.view(name).Evaluation.Error; strings.Contains(text, sources.ErrNoRoom.Error()) {
				failed++
			} else if text != "" || w.condition(name, policy.ScalingActive) != "True/ValidMetricFound" {
				t.Errorf("%s failed: %q", name, text)
			}
			if got := w.fleet().Replicas(name); got != 3 {
				t.Errorf("replicas of %s = %d, want 3 as before", name, got)
			}
		}
		if failed == 0 || failed == 40 {
			t.Errorf("%d of 40 lookups found no room in 16 MiB, want some", failed)
		}
		if got := w.fleet().Replicas("other"); got != 4 || budget.Usage().Used != 0 {
			t.Errorf("replicas of another autoscaler = %d, want 4, and %d bytes are held", got, budget.Usage().Used)
		}
		w.stop()
	})
}

// Queries of the configuration go before those of labels, and the first ones of all
// before the further ones of any: where many are slow, they are so for themselves.
func TestQueriesOfManyWaitBehindOthers(t *testing.T) {
	w := newWorld(t)
	source := &adapters.Source{Adapter: adapters.Adapter{Name: "source"}}
	fleet := &adapters.Fleet{Adapter: adapters.Adapter{Name: "fleet"}}
	var all []*autoscaler
	add := func(name string, labels map[string]string, queries ...string) {
		w.queue(name, 1)
		c := w.config.Autoscalers[name]
		c.Labels, c.Inputs = labels, nil
		for _, query := range queries {
			c.Inputs = append(c.Inputs, config.Input{Source: "source", Query: query})
		}
		a := &autoscaler{name: name}
		a.definition.Store(define(c, w.config.Daemon, fleet, map[string]*adapters.Source{"source": source}))
		all = append(all, a)
	}
	label := map[string]string{"hpad.enable": "true"}
	add("a", label, "a0", "a1", "shared")
	add("b", nil, "b0", "b1", "b2")
	add("c", label, "c0")
	add("d", nil, "b2", "shared")
	p := newRoster(all).plan
	var order []string
	for _, q := range p.batches[0].queries {
		order = append(order, p.queries[q].query.Text)
	}
	if want := []string{"b0", "b2", "shared", "b1", "a0", "c0", "a1"}; len(p.batches) != 1 || !slices.Equal(order, want) {
		t.Errorf("order = %q, want %q", order, want)
	}
}
