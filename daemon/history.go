package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// History answers what the store has of an autoscaler's history, for the API. What
// is being written is not there yet.
func (d *Daemon) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	scale := d.clock.Scale()
	entries, err := d.store.History(ctx, name, scale.Steady(from), scale.Steady(to), limit)
	if err != nil {
		return nil, err
	}
	recorded := make([]api.Recorded, len(entries))
	for i, entry := range entries {
		recorded[i] = api.Recorded{
			Autoscaler: entry.Autoscaler, Time: scale.Wall(entry.Time), Written: entry.Written, Events: entry.Events,
			Victims: entry.Victims, Error: entry.Error, Decision: decisionShownBy(scale, entry.Decision),
			Hold: entry.Hold, DryRun: entry.DryRun, Since: scale.Wall(entry.Since),
		}
		if entry.Untold != nil {
			recorded[i].Untold = &api.Untold{Changes: entry.Untold.Changes, From: scale.Wall(entry.Untold.From)}
		}
	}
	return recorded, nil
}

// history follows what hinders the autoscaler and answers the entry of a pass that
// is worth one: it settled something, its reasons are new, or what is wrong is.
func (a *autoscaler) history(before, after *publication, settled, dryRun bool, events []policy.Event, err string) []state.Entry {
	decision := &after.decision
	known := a.hindrance.Cause
	hindrance := hindranceOf(decision, after.outcome, failureOf(decision, after.outcome, after.failed))
	news, flapped := a.hindrance.Follow(hindrance, decision.Time, settled)
	after.since, after.untold = a.hindrance.Since, a.hindrance.Untold
	if hindrance == "" {
		after.since = time.Time{}
	}
	// A cause that comes and goes changes the reasons too, which is not news again.
	if !settled && !news && (hindrance != known || sameReasons(&before.status, &a.status)) {
		return nil
	}
	entry := state.Entry{
		Autoscaler: a.name, Time: decision.Time, Decision: *decision, Events: events, Victims: after.victims,
		Error: err, Hold: after.outcome.Hold, DryRun: dryRun, Since: after.since,
	}
	if after.outcome.Kind == policy.Written {
		entry.Written = &after.outcome.Reached
	}
	if flapped.Changes > 0 {
		entry.Untold = &state.Untold{Changes: flapped.Changes, From: flapped.From}
	}
	return []state.Entry{entry}
}

// boundsChanged finds what the configuration, or the target's labels, changed of min
// and max since the last pass. The answer is an event for each such pass.
func (p *pass) boundsChanged(decision *policy.Decision) []policy.Event {
	a := p.plan.autoscaler
	now := state.Bounds{Min: decision.MinReplicas, Max: decision.MaxReplicas}
	before := a.bounds
	if before != nil && *before == now {
		return nil
	}
	a.bounds = &now
	if before == nil {
		return nil
	}
	var changed []string
	if before.Min != now.Min {
		changed = append(changed, fmt.Sprintf("min from %d to %d", before.Min, now.Min))
	}
	if before.Max != now.Max {
		changed = append(changed, fmt.Sprintf("max from %d to %d", before.Max, now.Max))
	}
	message := "the configuration changed " + strings.Join(changed, " and ")
	p.round.daemon.log.Info("bounds changed", zap.String("autoscaler", a.name), zap.Stringer("target", p.plan.definition.Target),
		zap.Int32("min", now.Min), zap.Int32("max", now.Max), zap.String("change", message))
	return []policy.Event{{Kind: policy.NormalEvent, Reason: api.BoundsChanged, Message: message}}
}

// failureOf identifies why a pass failed; empty where it did not.
func failureOf(decision *policy.Decision, outcome policy.Outcome, failed string) string {
	if failed == "" {
		return ""
	}
	if decision.Case == policy.CaseUnreadable {
		return trouble.Cause(decision.Error)
	}
	said := []string{outcome.Error}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Error != "" {
			said = append(said, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Error)
		}
	}
	if cause := trouble.Cause(said...); cause != "" {
		return cause
	}
	return trouble.Cause(failed)
}

// hindranceOf identifies all that is wrong with an autoscaler: why its pass failed,
// what holds its target, and what else the platform says. It is empty where
// nothing is.
func hindranceOf(decision *policy.Decision, outcome policy.Outcome, failure string) string {
	var said []string
	for _, hold := range []*policy.Hold{decision.Hold, outcome.Hold} {
		if hold != nil {
			said = append(said, hold.Reason, hold.Message)
		}
	}
	for i := range decision.Notices {
		notice := &decision.Notices[i]
		said = append(said, string(notice.Condition), notice.Reason, notice.Message)
	}
	if cause := trouble.Cause(said...); cause != "" {
		return cause + failure
	}
	return failure
}
