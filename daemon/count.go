package daemon

import (
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/policy"
)

// countPass counts a pass by what it decided and whose fault its error was:
// upstream calls what is wrong with the autoscaler itself "spec" and everything
// else "internal".
func (a *autoscaler) countPass(after *publication) {
	kind := metrics.NoError
	switch {
	case after.err == "":
	case after.decision.Case == policy.CaseUnreadable && !a.definition.Load().fleet.problem.Exists():
		kind = metrics.SpecError // the fleet answers, and does not know the target
	default:
		kind = metrics.InternalError
	}
	a.metrics.Pass(&after.decision, kind, after.duration)
}
