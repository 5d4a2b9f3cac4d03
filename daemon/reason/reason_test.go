package reason_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// TestReasonsAreDocumented compares docs/reasons.md with the codes.
func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, codes []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllSubmatch(page, -1) {
		documented = append(documented, string(row[1]))
	}
	for _, code := range reason.All() {
		codes = append(codes, code.String())
	}
	slices.Sort(documented)
	slices.Sort(codes)
	if !slices.Equal(documented, codes) {
		t.Errorf("codes in docs/reasons.md = %q, want %q", documented, codes)
	}
}

func TestEveryPassHasAReason(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	is := func() bool { return random.IntN(2) == 0 }
	pick := func(n int) int { return random.IntN(n) }
	cases := []policy.Case{
		policy.CaseUnreadable, policy.CaseDisabled, policy.CaseAboveMax, policy.CaseBelowMin, policy.CaseRestored, policy.CaseMetrics, policy.CaseMetricsFailed,
		policy.CaseOff, policy.CaseCommanded,
	}
	reasons := []policy.RescaleReason{
		policy.NoReason, policy.MetricAboveTarget, policy.AllBelowTarget, policy.MetricMissing, policy.AboveMax, policy.BelowMin, policy.ForeignChanged, policy.Commanded,
	}
	limits := []string{"DesiredWithinRange", "TooFewReplicas", "TooManyReplicas", "ScaleUpLimit", "ScaleDownLimit"}
	failures := []error{nil, targets.ErrForbidden, targets.ErrTargetNotFound, targets.ErrUnscalable, targets.ErrUnknownOutcome, targets.ErrTransient}
	for range 100_000 {
		count := func() int32 { return int32(pick(4)) }
		d := &policy.Decision{Case: cases[pick(len(cases))], CurrentReplicas: count(), DesiredReplicas: count(), Reason: reasons[pick(len(reasons))]}
		if is() {
			d.Recommendation = new(count())
		}
		if is() {
			d.Limit = &policy.Limit{Limited: is(), Reason: limits[pick(len(limits))]}
		}
		if is() {
			d.PlatformBound = &policy.PlatformBound{Wanted: count()}
		}
		if pick(4) == 0 {
			d.HeldBy = []policy.HeldBy{policy.HeldByPause, policy.HeldByMode}[pick(2)]
		}
		if pick(4) == 0 {
			d.Hold = &policy.Hold{}
		}
		p := reason.Pass{
			Decision: d, Err: failures[pick(len(failures))], Implausible: pick(8) == 0, Lost: pick(8) == 0, Failed: is(),
			Outcome: policy.Outcome{Kind: policy.OutcomeKind(pick(4)), Reached: count()},
		}
		if code := reason.Of(p); !slices.Contains(reason.All(), code) {
			t.Fatalf("Of(%+v) of %+v = %q", p, d, code)
		}
	}
}
