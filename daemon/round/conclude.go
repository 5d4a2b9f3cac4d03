package round

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

// conclude ends the pass after its write, if it made one. Each step needs the results of the
// previous steps:
//
//   - settle and complete compute the result. They change only the result.
//   - follow compares the result with earlier passes. It changes only the result and a.following.
//   - publish makes the result visible and starts its commit.
//   - report sends the result to the log, the metrics, the graph, the receivers and a waiting user.
//
// conclude returns the commit of the record, or nil if the store can derive the record from the
// previous record.
func (p *pass) conclude(outcome policy.Outcome) *records.Commit {
	a := p.autoscaler
	settlement, err := p.settle(outcome)
	if err != nil {
		p.panicked(err)
		return nil
	}
	before := a.published.Load()
	p.after.extraEvents = append(p.after.extraEvents, a.takeAdded()...)
	p.complete(before, &settlement, outcome)
	news := p.follow(before, settlement.Events)
	commit, ok := a.publish(p.env.Recorder, before, p.after, settlement, p.definition.SyncPeriod, p.historyEntries(&news, settlement.Error))
	if !ok {
		p.env.Metrics.Reason(reason.Abandoned)
		return nil
	}
	if commit == nil && p.after.Decision.Steady() {
		a.steady = p.steady()
	}
	p.report(before, &news)
	p.finishRequest(outcome, commit)
	return commit
}

// settle returns the memory, status and events after the write. The error is a panic.
func (p *pass) settle(outcome policy.Outcome) (settlement policy.Settlement, err error) {
	at := p.now()
	if outcome.Kind == policy.Written { // rate periods start at the write
		at = at.Add(p.delayed)
	}
	err = guard.Call(func() error {
		settlement = policy.Settle(p.after.Decision, outcome, at)
		return nil
	})
	return settlement, err
}

// complete computes the result of the pass, except for the parts that depend on earlier passes.
func (p *pass) complete(before *Result, settlement *policy.Settlement, outcome policy.Outcome) {
	after, decision := p.after, &p.after.Decision
	p.updateRecord(before, settlement, outcome)
	*decision = decision.Explained()
	if !isIdle(decision, settlement) {
		after.failed, after.Err = settlement.Error, settlement.Error
	}
	after.Outcome, after.outage = outcome, p.isOutage(decision, outcome)
	after.Shortage, after.newlyHeld = decision.Shortage(), isNewlyHeld(before, decision)
	after.Reason = p.reasonCode()
	after.Evaluated, after.Duration = p.round.started, time.Since(p.round.started)
}

// updateRecord updates the record for the next pass.
func (p *pass) updateRecord(before *Result, settlement *policy.Settlement, outcome policy.Outcome) {
	record, decision := &p.after.Record, &p.after.Decision
	record.Status = settlement.Status
	record.Bounds = records.Keep(record.Bounds, state.Bounds{Min: decision.MinReplicas, Max: decision.MaxReplicas})
	if p.after.suspect {
		return
	}
	record.Memory = settlement.Memory
	records.SetExpectedReplicas(record, decision, outcome)
	record.NeverStarted = record.NeverStarted && outcome.Kind != policy.Written && decision.Case != policy.CaseCommanded
	record.Restore = record.Restore.After(decision, outcome, p.env.DryRun)
	if count := decision.Recommendation; count != nil {
		record.Replay = records.Keep(before.Record.Replay, state.Replay{Replicas: *count, Held: decision.Outage != nil, Period: p.definition.SyncPeriod, Rules: p.definition.rules})
	}
}

// reasonCode returns the reason code of a completed pass.
func (p *pass) reasonCode() reason.Code {
	after := p.after
	_, lost := errors.AsType[*foreignError](after.cause)
	return reason.Of(reason.Pass{
		Decision: &after.Decision, Outcome: after.Outcome, Err: after.cause,
		Implausible: after.suspect, Lost: lost, Fenced: errors.Is(after.cause, errNotOwner), Failed: after.Err != "",
	})
}

// isIdle reports whether the pass failed only because there are no instances to measure. That is
// not an error at zero replicas if a metric can start the first instance.
func isIdle(decision *policy.Decision, settlement *policy.Settlement) bool {
	if decision.CurrentReplicas != 0 || decision.Winner == nil || settlement.Error != decision.Error {
		return false
	}
	return !slices.ContainsFunc(decision.Metrics, func(m policy.MetricResult) bool {
		return m.Error != "" && (m.Type == policy.ObjectMetric || m.Type == policy.ExternalMetric)
	})
}

// isNewlyHeld determines [passResult.newlyHeld].
func isNewlyHeld(before *Result, decision *policy.Decision) bool {
	if decision.HeldBy == "" || decision.DesiredReplicas == decision.CurrentReplicas {
		return false
	}
	earlier := &before.Decision
	return earlier.HeldBy == "" ||
		cmp.Compare(earlier.DesiredReplicas, earlier.CurrentReplicas) != cmp.Compare(decision.DesiredReplicas, decision.CurrentReplicas)
}

// isOutage reports whether the pass failed only because of an outage of its fleet, the fleet's
// samples or its sources, which is reported once for all autoscalers.
func (p *pass) isOutage(decision *policy.Decision, outcome policy.Outcome) bool {
	if p.isFleetOut() {
		return true
	}
	if outcome.Error != "" {
		return false
	}
	failed := false
	for i := range decision.Metrics {
		if decision.Metrics[i].Error == "" {
			continue
		}
		formula := p.definition.Spec.Metrics[i].Formula != ""
		if formula && failed {
			continue // an input failed because of an outage
		}
		if failed = !formula && p.isOut(i); !failed {
			return false
		}
	}
	return failed
}

// isFleetOut reports whether the read of the fleet failed, or did not end within the timeout of any
// pass.
func (p *pass) isFleetOut() bool {
	if read := p.snapshot().get(); read != nil {
		return read.Err != nil
	}
	return p.snapshot().late.Load()
}

// isOut reports whether the fleet or the source of a failed metric has an outage.
func (p *pass) isOut(metric int) bool {
	q := p.plan.queries[metric]
	if q < 0 {
		result := p.round.samples[p.plan.samples].get()
		return result != nil && result.err != nil
	}
	result := p.round.queries[q].get()
	return (result == nil || result.err != nil) && !p.round.responded[p.round.plan.queries[q].batch].Load()
}
