package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// maxReason is the maximum length of a pause's reason in bytes.
const maxReason = 500

// Pause activates a pause, which replaces an earlier pause of the same scope. The pause ends after
// duration or, if duration is 0, when it is resumed. An empty direction means both directions. The
// fields Since, Until and Message of pause are ignored.
//
// After Pause returns nil, no pass starts a write in the paused direction, even after a crash. An
// active write continues. If the error is an api.ErrUnknown or api.ErrRefused, the pause does not
// exist. After an api.ErrUnstored, the pause is active but not stored yet.
func (d *Daemon) Pause(ctx context.Context, pause policy.Pause, duration time.Duration) (policy.Pause, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return policy.Pause{}, err
	}
	if err := d.CheckPause(&pause, duration); err != nil {
		return policy.Pause{}, err
	}
	pause.Message, pause.Since, pause.Until = "", d.env.Clock.Now(), time.Time{}
	if duration > 0 {
		pause.Until = pause.Since.Add(duration)
	}
	commit := d.env.Pauses.Put(pause, d.env.Recorder)
	fields := append(records.PauseFields(pause.Scope, pause.Author), zap.String("direction", string(pause.Direction)), zap.String("reason", pause.Reason))
	if duration > 0 {
		fields = append(fields, zap.Duration("for", duration))
	}
	d.env.Log.Info("paused", fields...)
	err := awaitCommit(ctx, pause.Scope, commit)
	d.warnUnwritten(ctx)
	d.evaluateScope(pause.Scope)
	scale := d.env.Clock.Scale()
	pause.Message = records.PauseText(&pause, scale)
	return clock.AsWallTime(scale, pause), err
}

// pauseAtStart activates Options.Pause.
func (d *Daemon) pauseAtStart(now time.Time) {
	if d.options.Pause == nil {
		return
	}
	found := d.options.Pause()
	if found == nil {
		return
	}
	pause, scale := *found, d.env.Clock.Scale()
	if pause.Since = scale.Happened(pause.Since, now); !pause.Until.IsZero() {
		pause.Until = scale.Monotonic(pause.Until)
	}
	d.env.Pauses.Put(pause, d.env.Recorder)
}

// CheckPause returns an error if Pause would reject the arguments. It replaces an empty direction by
// both directions. The daemon must be running, unless the pause is for all autoscalers.
func (d *Daemon) CheckPause(pause *policy.Pause, duration time.Duration) error {
	if pause.Direction == "" {
		pause.Direction = policy.BothDirections
	}
	switch {
	case pause.Breaker:
		return fmt.Errorf("%w: only the breaker itself can create its pause", api.ErrRefused)
	case pause.Autoscaler != "" && pause.Fleet != "":
		return fmt.Errorf("%w: a pause applies to an autoscaler, a fleet or all autoscalers", api.ErrRefused)
	case !d.scheduler.Current().Has(pause.Scope):
		return fmt.Errorf("%s: %w", pause.Scope, api.ErrUnknown)
	case !slices.Contains([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}, pause.Direction):
		return fmt.Errorf("%w: direction = %q: must be up, down or both", api.ErrRefused, pause.Direction)
	case duration < 0:
		return fmt.Errorf("%w: a pause of %s: must be longer than 0s", api.ErrRefused, duration)
	case len(pause.Reason) > maxReason:
		return fmt.Errorf("%w: the reason has %d bytes, but the limit is %d", api.ErrRefused, len(pause.Reason), maxReason)
	case strings.ContainsFunc(pause.Reason, unicode.IsControl):
		return fmt.Errorf("%w: the reason must be one line without control characters", api.ErrRefused)
	}
	return nil
}

// Resume ends the pause of a scope and returns it. If a fleet has no pause of its own, Resume ends
// the pause by its breaker, which then does not open again for the length of its window. Pauses of
// wider scopes remain active, and the message names them. If the error is an api.ErrNotPaused or an
// api.ErrUnknown, no pause has ended. After any other error, the pause has ended, but the change is
// not stored yet.
func (d *Daemon) Resume(ctx context.Context, scope policy.Scope, author string) (policy.Pause, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return policy.Pause{}, err
	}
	message := "resumed"
	if author != "" {
		message += " by " + author
	}
	active, now := d.env.Pauses.Active(), d.env.Clock.Now()
	var waived time.Time
	ends, breaker := scope, policy.Scope{Fleet: scope.Fleet, Breaker: true}
	own, paused := active[scope]
	held, open := active[breaker]
	if open && scope.Fleet != "" && !held.Ended(now) && (!paused || own.Ended(now)) {
		ends = breaker
		waived = d.waiveBreaker(scope.Fleet) // before the pause ends, so that no round opens the breaker again
	}
	ended, commit := d.env.Pauses.End(now, d.env.Recorder, func(pause policy.Pause) (string, bool) {
		return message, pause.Scope == ends
	})
	if len(ended) == 0 {
		return policy.Pause{}, d.notPaused(scope)
	}
	d.env.Log.Info("resumed", records.PauseFields(scope, author)...)
	err := awaitCommit(ctx, scope, commit)
	d.warnUnwritten(ctx)
	d.evaluateScope(scope)
	scale := d.env.Clock.Scale()
	ended[0].Message = records.PauseText(&ended[0], scale)
	if ends.Breaker {
		ended[0].Message += "; it will not open before " + scale.Wall(waived).Format(time.RFC3339)
	}
	if others := d.wider(ends); others != "" {
		ended[0].Message += "; still active: " + others
	}
	return clock.AsWallTime(scale, ended[0]), err
}

// wider describes the active pauses of wider scopes. It returns "" if there are none.
func (d *Daemon) wider(scope policy.Scope) string {
	fleet := scope.Fleet
	if a := d.scheduler.Current().Autoscalers[scope.Autoscaler]; a != nil {
		fleet = a.Definition().Target.Fleet
	}
	var texts []string
	for _, pause := range d.Pauses() {
		if scope != (policy.Scope{}) && pause.Scope != scope && pause.Autoscaler == "" && (pause.Fleet == "" || pause.Fleet == fleet) {
			texts = append(texts, pause.Message)
		}
	}
	return strings.Join(texts, "; and: ")
}

// notPaused returns the error for a scope without a pause. The error names the active pauses of
// wider scopes.
func (d *Daemon) notPaused(scope policy.Scope) error {
	if !d.scheduler.Current().Has(scope) {
		return fmt.Errorf("%s: %w", scope, api.ErrUnknown)
	}
	if others := d.wider(scope); others != "" {
		return fmt.Errorf("%s: %w itself, but a wider pause is active: %s", scope, api.ErrNotPaused, others)
	}
	return fmt.Errorf("%s: %w", scope, api.ErrNotPaused)
}

// awaitCommit waits for the commit of a change to a pause.
func awaitCommit(ctx context.Context, scope policy.Scope, commit *records.Commit) error {
	err := commit.Wait(ctx, "")
	if errors.Is(err, state.ErrFenced) || errors.Is(err, records.ErrStopped) {
		return fmt.Errorf("%w: %s: the fleet has another owner, which does not have the change", api.ErrMoving, scope)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", scope, api.ErrUnstored, err)
	}
	return nil
}

// evaluateScope evaluates the autoscaler of a scope. The autoscalers of wider scopes wait for their
// ticks.
func (d *Daemon) evaluateScope(scope policy.Scope) {
	if scope.Autoscaler != "" {
		d.env.Evaluate(scope.Autoscaler)
	}
}

// waiveBreaker disables the breaker of a fleet for the length of its window. It returns the time
// when it is enabled again.
func (d *Daemon) waiveBreaker(fleet string) time.Time {
	now := d.env.Clock.Now()
	breaker := d.scheduler.Current().Config.Fleets[fleet].Breaker
	if breaker == nil {
		return now
	}
	until := now.Add(breaker.Window)
	d.env.Breakers.Change(fleet, breaker.Window, now, d.env.Recorder, func(removals *state.Removals) { removals.Waived = until })
	return until
}

// ScaleTo sets the count of an autoscaler's target in a separate pass, with an intention like any
// other write. It adds no scale event and ignores windows, rates, pauses and the mode. Later passes
// start from the new count, and on_foreign_change = "restore" restores it. A count of 0 disables
// the autoscaler (R51).
//
// Without force, the count must be within min and max, or 0. ScaleTo returns when the count is
// written and recorded. The error is an api.ErrUnknown, or an api.ErrRefused if the count was not
// written, for example in a dry run, during a hold, or because the target could not be read. If ctx
// ends first, the outcome is unknown, and passes continue a request that they have begun.
func (d *Daemon) ScaleTo(ctx context.Context, name string, replicas int32, force bool, author string) error {
	if err := d.AwaitRunning(ctx); err != nil {
		return err
	}
	a := d.scheduler.Current().Autoscalers[name]
	switch {
	case a == nil:
		return fmt.Errorf("%s: %w", policy.Scope{Autoscaler: name}, api.ErrUnknown)
	case d.env.DryRun:
		return fmt.Errorf("%w: %s", api.ErrRefused, api.DryRun)
	case a.Last().Quarantined(d.env.Clock.Now()):
		return fmt.Errorf("%w: the autoscaler is %s", api.ErrRefused, a.Last().Unevaluated)
	}
	fields := []zap.Field{zap.String("autoscaler", name), zap.Int32("replicas", replicas), zap.Bool("force", force), zap.String("author", author)}
	d.env.Log.Info("scaling requested", fields...)
	err := d.scheduler.Scale(ctx, a, policy.Command{Replicas: replicas, Force: force, Author: author})
	if err != nil {
		d.env.Log.Warn("requested scaling failed", append(fields, zap.NamedError("err", err))...)
	}
	d.warnUnwritten(ctx)
	return err
}

// warnUnwritten adds a warning to the response to a command if the state cannot be written.
func (d *Daemon) warnUnwritten(ctx context.Context) {
	if text := cmp.Or(d.env.Unwritten.Text(), d.env.Unstorable.Text()); text != "" {
		api.Warn(ctx, "the state cannot be written, so a restart may lose this change: "+text)
	}
}

// evaluatedInterval is the interval at which EvaluateNow checks whether the pass has ended.
const evaluatedInterval = 20 * time.Millisecond

// EvaluateNow evaluates an autoscaler and returns when the pass has ended, regardless of its
// result. The error is an api.ErrUnknown, an api.ErrRefused during a quarantine, or the cause of
// ctx.
func (d *Daemon) EvaluateNow(ctx context.Context, name string) error {
	if err := d.AwaitRunning(ctx); err != nil {
		return err
	}
	requested := d.env.Clock.Now()
	d.env.Log.Info("evaluation requested", zap.String("autoscaler", name), authorField(api.Author(ctx)))
	d.env.Evaluate(name)
	ticker := time.NewTicker(evaluatedInterval)
	defer ticker.Stop()
	for {
		a := d.scheduler.Current().Autoscalers[name]
		if a == nil {
			return fmt.Errorf("%s: %w", policy.Scope{Autoscaler: name}, api.ErrUnknown)
		}
		switch published := a.Last(); {
		case !published.Record.Through.Before(requested):
			return nil
		case published.Quarantined(d.env.Clock.Now()):
			return fmt.Errorf("%w: the autoscaler is %s", api.ErrRefused, published.Unevaluated)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: the pass has not ended yet: %w", policy.Scope{Autoscaler: name}, context.Cause(ctx))
		case <-d.env.RunContext.Done():
			return errStopping
		}
	}
}

// authorField returns the log field for the user who issued a command, if the user is known.
func authorField(name string) zap.Field {
	if name == "" {
		return zap.Skip()
	}
	return zap.String("author", name)
}

// InstancesOf reads the instances of an autoscaler's target and their metrics, and the last output
// of failing instances. They are not stored, because a fleet can have thousands of instances. The
// error is an api.ErrUnknown if the autoscaler does not exist.
func (d *Daemon) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return api.InstanceList{}, err
	}
	a := d.scheduler.Current().Autoscalers[name]
	if a == nil {
		return api.InstanceList{}, fmt.Errorf("autoscaler %q: %w", name, api.ErrUnknown)
	}
	list, err := d.scheduler.Instances(ctx, a)
	d.addLastOutput(ctx, a.Definition().Target, &list)
	return list, err
}
