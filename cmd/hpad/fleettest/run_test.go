package fleettest

import (
	"context"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/adapter/adaptertest"
	"github.com/hpad/hpad/targets/http"
	"github.com/hpad/hpad/targets/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options returns options for the target "web" of a Memory with 2 replicas.
func options(t *testing.T) (Options, *targettest.Memory) {
	t.Helper()
	m := targettest.NewMemory("memory")
	m.Add("web", targettest.MemoryTarget{Replicas: 2, Usage: func(time.Time, policy.Instance, int) []policy.TaskUsage {
		return []policy.TaskUsage{{Task: "web", Usage: []policy.Amount{{Resource: "cpu", Milli: 250}}}}
	}})
	server := httptest.NewServer(&adaptertest.Server{Memory: m})
	t.Cleanup(server.Close)
	config := &http.Config{URL: server.URL}
	config.SetDefaults()
	config.ResourceInterval = adaptertest.Interval
	return Options{
		Targets: []string{"web"}, Patience: time.Second, Interval: 5 * time.Millisecond,
		Build: func(name string, store targets.Store) (*adapter.Fleet, error) {
			fleet, err := config.Build(name, targets.Env{Store: store})
			if err != nil {
				return nil, err
			}
			return fleet.(*adapter.Fleet), nil
		},
	}, m
}

// run runs the cases, and returns the names of the cases by outcome.
func run(t *testing.T, o Options) map[string][]string {
	t.Helper()
	runner, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	if err := runner.Run(t.Context(), func(r Result) {
		found[r.Outcome] = append(found[r.Outcome], r.Promise)
		if len(r.Details) > 0 {
			t.Logf("%s: %s: %q", r.Outcome, r.Promise, r.Details)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := runner.Close(); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestGoodAdapter checks that a good adapter keeps all promises, and that all counts are within the
// bounds.
func TestGoodAdapter(t *testing.T) {
	for _, test := range []struct {
		min, max              int32
		kept, broken, skipped int
	}{{0, 0, 4, 0, 14}, {0, 6, 18, 0, 0}, {0, 3, 14, 0, 4}, {2, 3, 6, 0, 12}} {
		o, m := options(t)
		o.Min, o.Max = test.min, test.max
		got := run(t, o)
		if len(got[Kept]) != test.kept || len(got[Broken]) != test.broken || len(got[Skipped]) != test.skipped {
			t.Errorf("with the bounds %d-%d, the outcomes are %v, want %d kept, %d broken and %d skipped", test.min, test.max, got, test.kept, test.broken, test.skipped)
		}
		for _, write := range m.Writes() {
			if test.max == 0 || write.Err == nil && (write.To < test.min || write.To > test.max) {
				t.Errorf("with the bounds %d-%d, the target was scaled to %d", test.min, test.max, write.To)
			}
		}
		if got := m.Replicas("web"); got != 2 {
			t.Errorf("the final count is %d, want 2", got)
		}
	}
}

// TestBadAdapter checks that violations are found.
func TestBadAdapter(t *testing.T) {
	o, m := options(t)
	o.Max, o.Patience, o.Only = 6, 100*time.Millisecond, regexp.MustCompile("^(scales up|keeps instances between reads)$")
	reads := 0
	m.Change("web", func(target *targettest.MemoryTarget) {
		target.Edit = func(r *targets.Reading) {
			reads++
			r.Version += strings.Repeat("x", reads)
		}
	})
	if got := run(t, o); !slices.Equal(got[Broken], []string{"keeps instances between reads", "scales up"}) {
		t.Errorf("outcomes of an adapter with unstable versions = %v", got)
	}
}

// TestOutsideOfBounds checks that a target with a count outside of the bounds is rejected.
func TestOutsideOfBounds(t *testing.T) {
	o, m := options(t)
	o.Min, o.Max = 3, 6
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), `target "web" has the count 2, which is outside of the bounds 3-6`) {
		t.Errorf("Open() = %v", err)
	}
	if got := len(m.Writes()); got != 0 {
		t.Errorf("writes = %d, want 0", got)
	}
}

// TestInterrupted checks that a canceled run restores the count.
func TestInterrupted(t *testing.T) {
	o, m := options(t)
	o.Max = 6
	runner, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = runner.Run(ctx, func(r Result) {
		if r.Promise == "scales up" {
			cancel()
		}
	})
	if err == nil || m.Replicas("web") != 2 {
		t.Errorf("Run() = %v with the final count %d, want an error and 2", err, m.Replicas("web"))
	}
	if err := runner.Close(); err != nil {
		t.Fatal(err)
	}
}
