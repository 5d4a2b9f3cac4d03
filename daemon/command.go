package daemon

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// askedCommand is a count that a person asks for, and what becomes of it.
type askedCommand struct {
	policy.Command
	// done gets what became of it, once.
	done chan commandOutcome
}

// commandOutcome is what became of a command: its error, or the commit of the pass that
// obeyed; nil where there was nothing to record.
type commandOutcome struct {
	err  error
	kept *recording
}

// ScaleTo sets the count of an autoscaler's target, by a pass of its own that goes the way
// of every write: recorded as an intention before it is made, and settled after. It makes
// no scale event, windows and rates have no part in it, and it is what
// on_foreign_change = "restore" puts back from then on. 0 switches the autoscaler off, as
// for everybody who sets it (R51). Pauses and the mode do not keep it; the passes after it
// go on from there, as far as those let them.
//
// Without force the count must be within min and max, or 0. It returns once the fleet has
// taken the count and the state has that. The error is an api.ErrUnknown, or an
// api.ErrRefused where nothing was done: in a dry run, under a hold, while the target
// cannot be read. After ctx has ended it is not known what becomes of it.
func (d *Daemon) ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error {
	if err := d.awaitRunning(ctx); err != nil {
		return err
	}
	a := d.current.Load().autoscalers[name]
	switch {
	case a == nil:
		return fmt.Errorf("%s: %w", policy.Scope{Autoscaler: name}, api.ErrUnknown)
	case d.dryRun:
		return fmt.Errorf("%w: %s", api.ErrRefused, api.DryRun)
	case a.published.Load().quarantined(d.clock.Now()):
		return fmt.Errorf("%w: the autoscaler is %s", api.ErrRefused, a.published.Load().unevaluated)
	}
	asked := &askedCommand{
		Command: policy.Command{Replicas: replicas, Force: force, Author: author}, done: make(chan commandOutcome, 1),
	}
	if !a.ask(asked) {
		return fmt.Errorf("%w: another count is being set already", api.ErrRefused)
	}
	d.log.Info("asked to scale", zap.String("autoscaler", name), zap.Int32("replicas", replicas), zap.Bool("force", force), zap.String("author", author))
	d.evaluate(name)
	select {
	case outcome := <-asked.done:
		if outcome.kept != nil {
			outcome.kept.wait()
		}
		if outcome.err != nil {
			d.log.Warn("not scaled as asked", zap.String("autoscaler", name), zap.Int32("replicas", replicas), zap.String("author", author), zap.NamedError("err", outcome.err))
		}
		return outcome.err
	case <-ctx.Done():
		return d.giveUp(a, asked, context.Cause(ctx))
	case <-d.runContext.Done():
		return d.giveUp(a, asked, errStopping)
	}
}

// giveUp returns the error of a command that is not waited for any longer.
func (d *Daemon) giveUp(a *autoscaler, asked *askedCommand, cause error) error {
	if a.takeBack(asked) {
		return fmt.Errorf("%w: no pass took it up in time: %w", api.ErrRefused, cause)
	}
	return fmt.Errorf("scale %s to %d replicas: it is not known what became of it: %w", a.name, asked.Replicas, cause)
}

// ask has the next pass obey a command; false where another one waits for that.
func (a *autoscaler) ask(asked *askedCommand) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.command != nil {
		return false
	}
	a.command = asked
	return true
}

// takeBack reports whether no pass has taken up a command, which none does then.
func (a *autoscaler) takeBack(asked *askedCommand) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.command != asked {
		return false
	}
	a.command = nil
	return true
}

// commanded returns the command that waits for a pass, which owes it an outcome; nil when
// there is none.
func (a *autoscaler) commanded() *askedCommand {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.command
	a.command = nil
	return asked
}

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
	became := commandOutcome{kept: kept}
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
