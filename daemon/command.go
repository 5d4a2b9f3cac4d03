package daemon

import (
	"errors"
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// takeCommand takes up the command that waits, or refuses it.
func (p *pass) takeCommand(observation *policy.Observation) {
	asked := p.autoscaler.commanded()
	if asked == nil {
		return
	}
	if refusal := asked.Refusal(p.definition.Spec, observation); refusal != "" {
		asked.done <- commandOutcome{err: fmt.Errorf("%w: %s", api.ErrRefused, refusal)}
		return
	}
	observation.Command = &asked.Command
	p.asked = asked
}

// answer sends the outcome of the command that the pass took up.
func (p *pass) answer(outcome policy.Outcome, kept *recording) {
	if p.asked == nil {
		return
	}
	var became commandOutcome
	if kept != nil {
		became.kept = kept.wait
	}
	switch {
	case outcome.Kind == policy.WriteHeld:
		became.err = fmt.Errorf("%w: the target is held", api.ErrRefused)
		if outcome.Hold != nil {
			became.err = fmt.Errorf("%w: the target is held: %s", api.ErrRefused, outcome.Hold.Message)
		}
	case outcome.Error != "":
		became.err = errors.New(outcome.Error)
	}
	p.asked.done <- became
	p.asked = nil
}

// unanswered sends the outcome of a command whose pass ended without one.
func (p *pass) unanswered() {
	if p.asked == nil {
		return
	}
	text := p.autoscaler.published.Load().unevaluated
	if p.autoscaler.removed.Load() {
		text = errRemoved.Error()
	}
	p.asked.done <- commandOutcome{err: fmt.Errorf("it is not known what became of it: %s", text)}
	p.asked = nil
}
