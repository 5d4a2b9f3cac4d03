package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// longestReason bounds the reason that a person gives, in bytes: it is shown wherever the
// autoscaler is.
const longestReason = 500

// Pause puts a pause in force, in the place of an earlier one of its scope, for so long
// or, if that is 0, until somebody resumes, and returns it. An empty direction is both. Of
// the pause that is given Since, Until and Message are not looked at.
//
// Once it returns nil no pass that begins writes what the pause holds, also after a
// crash; a write that is under way is not taken back. With an error that is an
// api.ErrUnknown or an api.ErrRefused nothing was done; with another one the pause is in
// force and could not be kept in the state yet.
func (d *Daemon) Pause(ctx context.Context, pause policy.Pause, lasts time.Duration) (policy.Pause, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return policy.Pause{}, err
	}
	if pause.Direction == "" {
		pause.Direction = policy.BothDirections
	}
	if err := d.checkPause(&pause, lasts); err != nil {
		return policy.Pause{}, err
	}
	pause.Message, pause.Since, pause.Until = "", d.clock.Now(), time.Time{}
	if lasts > 0 {
		pause.Until = pause.Since.Add(lasts)
	}
	commit := d.pauses.put(pause, d.recorder)
	d.log.Info("paused", append(pauseFields(pause.Scope, pause.Author), zap.String("direction", string(pause.Direction)),
		zap.String("reason", pause.Reason), lastsField(lasts))...)
	err := awaitKept(ctx, pause.Scope, commit)
	d.evaluateScope(pause.Scope)
	scale := d.clock.Scale()
	pause.Message = pauseText(&pause, scale)
	return clock.Shown(scale, pause), err
}

// lastsField is for how long a pause is, where it ends by itself.
func lastsField(lasts time.Duration) zap.Field {
	if lasts == 0 {
		return zap.Skip()
	}
	return zap.Duration("for", lasts)
}

func (d *Daemon) checkPause(pause *policy.Pause, lasts time.Duration) error {
	switch {
	case pause.Breaker:
		return fmt.Errorf("%w: nobody but the breaker holds for it", api.ErrRefused)
	case pause.Autoscaler != "" && pause.Fleet != "":
		return fmt.Errorf("%w: a pause is of an autoscaler, of a fleet or of all", api.ErrRefused)
	case !d.current.Load().has(pause.Scope):
		return fmt.Errorf("%s: %w", pause.Scope, api.ErrUnknown)
	case !slices.Contains([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}, pause.Direction):
		return fmt.Errorf("%w: direction = %q: must be up, down or both", api.ErrRefused, pause.Direction)
	case lasts < 0:
		return fmt.Errorf("%w: a pause of %s: must be longer than 0s", api.ErrRefused, lasts)
	case len(pause.Reason) > longestReason:
		return fmt.Errorf("%w: the reason has %d bytes and may have %d", api.ErrRefused, len(pause.Reason), longestReason)
	case strings.ContainsFunc(pause.Reason, unicode.IsControl):
		return fmt.Errorf("%w: the reason has a line break or another control character, and must be one line", api.ErrRefused)
	}
	return nil
}

// Resume ends the pause of a scope, and returns it. Of a fleet that nobody paused it ends
// what its breaker holds, which then holds nothing for its window; of one that somebody
// paused the breaker goes on. Pauses of other scopes stay in force: the message of the
// pause names those that hold the same autoscalers. The error is an api.ErrNotPaused where
// there is none, and an api.ErrUnknown where there is no such scope either; with another
// one the pause is over and that could not be kept in the state yet.
func (d *Daemon) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return policy.Pause{}, err
	}
	message := "resumed"
	if author != "" {
		message += " by " + author
	}
	inForce, now := d.pauses.table.Load().inForce, d.clock.Now()
	var waived time.Time
	ends, breaker := scope, policy.Scope{Fleet: scope.Fleet, Breaker: true}
	own, paused := inForce[scope]
	held, open := inForce[breaker]
	if open && scope.Fleet != "" && !held.Ended(now) && (!paused || own.Ended(now)) {
		ends = breaker
		waived = d.waiveBreaker(scope.Fleet) // first, so that no round opens it again
	}
	ended, commit := d.pauses.end(now, d.recorder, func(pause policy.Pause) (string, bool) {
		return message, pause.Scope == ends
	})
	if len(ended) == 0 {
		return policy.Pause{}, d.notPaused(scope)
	}
	d.log.Info("resumed", pauseFields(scope, author)...)
	err := awaitKept(ctx, scope, commit)
	d.evaluateScope(scope)
	scale := d.clock.Scale()
	ended[0].Message = pauseText(&ended[0], scale)
	if ends.Breaker {
		ended[0].Message += "; it holds nothing until " + scale.Wall(waived).Format(time.RFC3339)
	}
	if others := d.wider(ends); others != "" {
		ended[0].Message += "; still in force, until it is resumed as well: " + others
	}
	return clock.Shown(scale, ended[0]), err
}

// wider says which pauses of wider scopes hold what is in a scope; empty without any.
func (d *Daemon) wider(scope policy.Scope) string {
	fleet := scope.Fleet
	if a := d.current.Load().autoscalers[scope.Autoscaler]; a != nil {
		fleet = a.definition.Load().Target.Fleet
	}
	var texts []string
	for _, pause := range d.Pauses() {
		if scope != (policy.Scope{}) && pause.Scope != scope && pause.Autoscaler == "" && (pause.Fleet == "" || pause.Fleet == fleet) {
			texts = append(texts, pause.Message)
		}
	}
	return strings.Join(texts, "; and: ")
}

// notPaused is the error of a scope without a pause, which names what pauses it all the
// same.
func (d *Daemon) notPaused(scope policy.Scope) error {
	if !d.current.Load().has(scope) {
		return fmt.Errorf("%s: %w", scope, api.ErrUnknown)
	}
	if others := d.wider(scope); others != "" {
		return fmt.Errorf("%s: %w by itself, but: %s", scope, api.ErrNotPaused, others)
	}
	return fmt.Errorf("%s: %w", scope, api.ErrNotPaused)
}

// awaitKept returns once what became of the pause of a scope is in the state.
func awaitKept(ctx context.Context, scope policy.Scope, commit *commit) error {
	var err error
	select {
	case <-commit.done:
		err = commit.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: done, and not in the state yet, so that a restart may forget it: %w", scope, err)
	}
	return nil
}

// evaluateScope has the one autoscaler of a scope evaluated at once; those of wider ones
// are at their ticks.
func (d *Daemon) evaluateScope(scope policy.Scope) {
	if scope.Autoscaler != "" {
		d.evaluate(scope.Autoscaler)
	}
}

// waiveBreaker lets a fleet's scale-downs go on that its breaker held, for its window, and
// returns until when.
func (d *Daemon) waiveBreaker(fleet string) time.Time {
	now := d.clock.Now()
	breaker := d.current.Load().config.Fleets[fleet].Breaker
	if breaker == nil {
		return now
	}
	until := now.Add(breaker.Window)
	d.breakers.change(fleet, breaker.Window, now, d.recorder, func(removals *state.Removals) { removals.Waived = until })
	return until
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
	if err := d.AwaitRunning(ctx); err != nil {
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
			outcome.kept()
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
