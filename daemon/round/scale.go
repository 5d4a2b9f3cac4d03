package round

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

var (
	// errNotOwner is returned if this member might no longer own the fleet.
	errNotOwner = errors.New("not scaled")
	// errStoreTimeout is returned if a commit takes longer than StoreTimeout.
	errStoreTimeout = errors.New("the store did not respond in time")
)

var errRemoved = errors.New("the autoscaler was removed")

// scale carries out the decision: it commits the intention, writes the count, settles and
// publishes the outcome, and commits it.
func (p *pass) scale() {
	defer p.end()
	a, def, decision, started := p.autoscaler, p.definition, &p.after.Decision, time.Now()
	p.awaitBreaker()
	until, err := p.mayWrite(nil) // without a lease, there is no reason to wait for the store
	if err == nil {
		p.after.Record.Intention = &policy.Intention{
			From: decision.CurrentReplicas, To: decision.DesiredReplicas, Time: p.now(), Reason: decision.Reason, Message: decision.Message,
		}
		intent := p.after.Record
		intent.Memory = decision.Memory
		intended := a.intend(p.env.Recorder, &intent)
		if intended == nil { // the autoscaler was removed
			return
		}
		unwritten := p.await(intended)
		p.delayed = time.Since(started)
		if decision.Command == nil && p.pausedMeanwhile(decision) {
			p.after.Record.Intention = nil
			p.returnUnmade(policy.Outcome{})
			p.concludeWrite(policy.Outcome{})
			return
		}
		until, err = p.mayWrite(unwritten)
	}
	if err == nil {
		err = write{
			fleet: def.Fleet, target: def.Target, from: decision.CurrentReplicas, to: decision.DesiredReplicas,
			version: p.after.version, reason: decision.Message, overwrite: def.strict || decision.Command != nil, period: def.SyncPeriod,
			until: until, metrics: p.env.Metrics,
		}.run(p.env.WriteContext)
		a.known = time.Now()
	}
	outcome := outcomeOf(decision, err)
	p.after.cause = err
	if outcome.Kind != policy.WriteFailed || !errors.Is(err, targets.ErrUnknownOutcome) {
		p.after.Record.Intention = nil
		p.returnUnmade(outcome)
	}
	if _, panicked := errors.AsType[*guard.Panic](err); panicked {
		p.panicked(err)
		return
	}
	p.concludeWrite(outcome)
}

// concludeWrite concludes the pass and waits for the commit of its record. It does not wait if
// this member might no longer own the fleet, or the store hangs.
func (p *pass) concludeWrite(outcome policy.Outcome) {
	if commit := p.conclude(outcome); commit != nil && !errors.Is(p.after.cause, errNotOwner) && !errors.Is(p.after.cause, errStoreTimeout) {
		_ = p.await(commit) // storeFailed publishes an error
	}
}

// await waits for a commit, for at most StoreTimeout.
func (p *pass) await(commit *records.Commit) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.env.StoreTimeout, errStoreTimeout)
	defer cancel()
	return commit.Wait(ctx, p.autoscaler.Name)
}

// mayWrite returns the time until which the pass can write; zero means no limit. The error is the
// reason if the pass must not write. unwritten is the error of committing its intention. Without a
// cluster, a store that fails does not prevent a write. A store that hangs or rejects the intention
// does, because the write would be unknown after a restart.
func (p *pass) mayWrite(unwritten error) (until time.Time, err error) {
	_, rejected := errors.AsType[state.RejectedError](unwritten)
	_, isCopy := errors.AsType[*state.CopyError](unwritten)
	switch {
	case p.autoscaler.removed.Load():
		return time.Time{}, errRemoved
	case rejected:
		return time.Time{}, unwritten
	case p.env.Until == nil && errors.Is(unwritten, errStoreTimeout): // the store may still write it
		return time.Time{}, fmt.Errorf("not scaled: the planned change was not stored within %s: %w", p.env.StoreTimeout, unwritten)
	case p.env.Until == nil && unwritten != nil:
		p.env.Log.Error("intention not committed, scaling anyway", zap.String("autoscaler", p.autoscaler.Name), zap.NamedError("err", unwritten))
		return time.Time{}, nil
	case p.env.Until == nil:
		return time.Time{}, nil
	case isCopy:
		return time.Time{}, fmt.Errorf("not scaled: the planned change could not be stored: %w", unwritten)
	case errors.Is(unwritten, errStoreTimeout):
		return time.Time{}, fmt.Errorf("%w: the planned change could not be written to the cluster store within %s", errNotOwner, p.env.StoreTimeout.Round(time.Second/10))
	case unwritten != nil:
		return time.Time{}, fmt.Errorf("%w: the planned change could not be written to the cluster store: %w", errNotOwner, unwritten)
	}
	if until = p.env.Until(); !time.Now().Before(until) {
		err = fmt.Errorf("%w: the owner's lease has not been renewed", errNotOwner)
		if p.env.LeaseProblem != nil {
			if cause := p.env.LeaseProblem(); cause != "" {
				err = fmt.Errorf("%w: %s", err, cause)
			}
		}
		return until, err
	}
	return until, nil
}

// pausedMeanwhile reports whether a pause that began after the decision prevents the write.
func (p *pass) pausedMeanwhile(decision *policy.Decision) bool {
	active, _ := p.env.Pauses.Of(p.autoscaler.Name, p.definition.Target.Fleet, p.env.Clock.Now(), p.env.Clock.Scale())
	if !decision.HoldBy(active, p.now()) {
		return false
	}
	p.inputs.Meanwhile = active
	return true
}

// outcomeOf returns the outcome of a write that returned err.
func outcomeOf(decision *policy.Decision, err error) policy.Outcome {
	var held *targets.HeldError
	var partial *targets.PartialError
	switch {
	case err == nil:
		return policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
	case errors.As(err, &held):
		return policy.Outcome{Kind: policy.WriteHeld, Hold: shortHold(&held.Hold)}
	case errors.Is(err, targets.ErrHeld):
		return policy.Outcome{Kind: policy.WriteHeld, Hold: &policy.Hold{Message: problem.Shorten(err.Error())}}
	case errors.As(err, &partial) && partial.Reached != decision.CurrentReplicas:
		return policy.Outcome{Kind: policy.Written, Reached: partial.Reached, Error: problem.Shorten(err.Error())}
	default:
		return policy.Outcome{Kind: policy.WriteFailed, Error: problem.Shorten(err.Error()), Reason: targets.Reason(err)}
	}
}
