package policy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/soak"
)

// These tests record decisions in a store, as the daemon does, and then verify them.

// recordedDecisions writes decisions to a store in batches of recordedAtOnce decisions.
type recordedDecisions struct {
	t       *testing.T
	store   state.Store
	entries []state.Entry
	count   int
}

func newRecordedDecisions(t *testing.T) *recordedDecisions {
	store, err := state.Open(t.TempDir(), state.Options{Retention: 100 * 365 * 24 * time.Hour, HistoryBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &recordedDecisions{t: t, store: store}
}

const recordedAtOnce = 5000

func (r *recordedDecisions) add(in *policy.Inputs, decision policy.Decision) {
	r.count++
	own := *in
	own.Observation.Instances = slices.Clone(in.Observation.Instances) // the replay modifies the original list
	r.entries = append(r.entries, state.Entry{
		Autoscaler: strconv.Itoa(r.count), Time: in.Now, Decision: decision.Explained(), Engine: policy.Engine, Inputs: &own,
	})
	if len(r.entries) == recordedAtOnce {
		r.commit()
	}
}

func (r *recordedDecisions) commit() {
	r.t.Helper()
	if err := r.store.Commit(r.t.Context(), state.Changes{Entries: r.entries}); err != nil {
		r.t.Fatal(err)
	}
	r.entries = nil
}

func (r *recordedDecisions) check() {
	r.t.Helper()
	r.commit()
	found, err := r.store.Verify(r.t.Context(), "", time.Time{}, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	if found.Checked != r.count || found.Identical != r.count || r.count == 0 {
		r.t.Errorf("decisions: %d, checked: %d, identical: %d, different: %d, not verifiable: %d; first differences: %+v",
			r.count, found.Checked, found.Identical, found.Different, found.NotVerifiable, found.Differences[:min(3, len(found.Differences))])
	}
	r.t.Logf("%d decisions", r.count)
}

const engineDigest = "8 8dcae39e93ec9fdb"

func TestEngine(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	eachVectorDecision(t, func(_ *policy.Inputs, decision policy.Decision) {
		if err := json.NewEncoder(sum).Encode(decision.Explained()); err != nil {
			t.Fatal(err)
		}
	})
	if got := fmt.Sprintf("%d %x", policy.Engine, sum.Sum(nil)[:8]); got != engineDigest {
		t.Errorf("digest of the decisions = %q, want %q: if the change is intended, increase policy.Engine and update this constant", got, engineDigest)
	}
}

func eachVectorDecision(t *testing.T, do func(*policy.Inputs, policy.Decision)) {
	for _, file := range vectorFiles(t, "HPAD_VECTORS", "testdata/hpa-v[0-9]*.jsonl.gz") {
		readLines(t, file, func(line []byte) {
			scenario := decodeStrictly[vectorScenario](t, line)
			r := newReplay(&scenario)
			r.decided = do
			for i := range scenario.Steps {
				r.run(t, &scenario.Steps[i])
			}
		})
	}
}

func TestVerifyVectors(t *testing.T) {
	t.Parallel()
	recorded := newRecordedDecisions(t)
	every, n := soak.Rounds(4, 1), 0
	eachVectorDecision(t, func(in *policy.Inputs, decision policy.Decision) {
		if n++; n%every == 0 {
			recorded.add(in, decision)
		}
	})
	recorded.check()
}
