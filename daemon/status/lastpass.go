package status

import (
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// Pass is the last evaluation of an autoscaler with everything that it stored. The
// conformance tests compare it with the state of the upstream controller.
type Pass struct {
	// Record is the record after the evaluation. Its Through is the instant of the
	// evaluation, and zero before the first one.
	Record state.Record
	// Decision is empty before the first evaluation.
	Decision policy.Decision
	Outcome  policy.Outcome
	// Events are all current events of the autoscaler, including older events.
	Events []api.Event
}

// LastPass returns the last evaluation of an autoscaler, and false if the configuration has
// no autoscaler of this name. It may be called from Options.Decided.
func (s *Reader) LastPass(name string) (Pass, bool) {
	a, ok := s.scheduler.Current().Autoscalers[name]
	if !ok {
		return Pass{}, false
	}
	published := a.Last()
	return Pass{Record: published.Record, Decision: published.Decision, Outcome: published.Outcome, Events: a.Events()}, true
}
