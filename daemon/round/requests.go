package round

import (
	"context"
	"errors"
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// scaleRequest is a count that a user requests.
type scaleRequest struct {
	policy.Command
	// reached is the count after the last of several partial writes, or 0 before the first write.
	reached int32
	// done receives the result once.
	done chan scaleResult
}

type scaleResult struct {
	err error
	// commit stores the pass that carried out the request. It is nil if no pass was stored.
	commit *records.Commit
}

// Scale sets the count that a user requests, in a pass of the autoscaler, or in several passes if the
// time limit for one write is too short. It returns when the count is written and recorded. The error
// is an api.ErrRefused if the count was not written. If ctx ends first, the outcome is unknown, and
// passes continue a request that they have begun.
func (s *Scheduler) Scale(ctx context.Context, a *Autoscaler, command policy.Command) error {
	request := &scaleRequest{Command: command, done: make(chan scaleResult, 1)}
	if !a.addRequest(request) {
		return fmt.Errorf("%w: another request to set the count is in progress", api.ErrRefused)
	}
	s.env.Evaluate(a.Name)
	var cause error
	select {
	case result := <-request.done:
		if result.commit != nil {
			_ = result.commit.Wait(ctx, a.Name) // the autoscaler shows the error
		}
		return result.err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-s.env.RunContext.Done():
		cause = ErrStopping
	}
	if a.withdrawRequest(request) {
		return fmt.Errorf("%w: %w, before a pass started", api.ErrMoving, cause)
	}
	return fmt.Errorf("scale %s to %d replicas: %w: %w", a.Name, request.Replicas, api.ErrUnknownOutcome, cause)
}

// addRequest adds a request for the next pass. It returns false if another request is already
// waiting.
func (a *Autoscaler) addRequest(request *scaleRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request != nil {
		return false
	}
	a.request = request
	return true
}

// withdrawRequest removes a request. It returns false if a pass has already taken it.
func (a *Autoscaler) withdrawRequest(request *scaleRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request != request || request.reached > 0 {
		return false
	}
	a.request = nil
	return true
}

// takeRequest removes and returns the waiting request, or nil.
func (a *Autoscaler) takeRequest() *scaleRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	request := a.request
	a.request = nil
	return request
}

// maxAddedEvents limits the events that wait for a pass.
const maxAddedEvents = 10

// AddEvent adds an event to the next pass.
func (a *Autoscaler) AddEvent(event policy.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.addedEvents) < maxAddedEvents {
		a.addedEvents = append(a.addedEvents, event)
	}
}

// takeAdded removes and returns the events of AddEvent.
func (a *Autoscaler) takeAdded() []policy.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	added := a.addedEvents
	a.addedEvents = nil
	return added
}

// takeRequest takes the waiting request and accepts or rejects it.
func (p *pass) takeRequest(observation *policy.Observation) {
	request := p.autoscaler.takeRequest()
	if request == nil {
		return
	}
	if refusal := request.Refusal(p.definition.Spec, observation); refusal != "" {
		request.done <- scaleResult{err: fmt.Errorf("%w: %s", api.ErrRefused, refusal)}
		return
	}
	observation.Command = &request.Command
	p.request = request
}

// finishRequest sends the result of the request that the pass has taken, or lets the next pass
// continue it.
func (p *pass) finishRequest(outcome policy.Outcome, commit *records.Commit) {
	if p.request == nil {
		return
	}
	if p.continueRequest(outcome) {
		return
	}
	result := scaleResult{commit: commit}
	switch {
	case outcome.Kind == policy.WriteHeld:
		result.err = fmt.Errorf("%w: the target is held", api.ErrRefused)
		if outcome.Hold != nil {
			result.err = fmt.Errorf("%w: the target is held: %s", api.ErrRefused, outcome.Hold.Message)
		}
	case outcome.Error != "":
		result.err = errors.New(outcome.Error)
		_, isCopy := errors.AsType[*state.CopyError](p.after.cause)
		switch {
		case isCopy || errors.Is(p.after.cause, errNotOwner): // the next owner may succeed
			result.err = targets.WithClass(api.ErrMoving, result.err)
		case errors.Is(p.after.cause, targets.ErrUnknownOutcome):
			result.err = targets.WithClass(api.ErrUnknownOutcome, result.err)
		}
	}
	p.request.done <- result
	p.request = nil
}

// continueRequest adds the request for the next pass if the time limit ended its write, and the write
// made progress. It returns false if the request ends with this pass. The next pass may have no other
// reason to write the count.
func (p *pass) continueRequest(outcome policy.Outcome) bool {
	request := p.request
	if outcome.Kind != policy.Written || !errors.Is(p.after.cause, targets.ErrWriteTime) || outcome.Reached <= request.reached {
		return false
	}
	request.reached = outcome.Reached
	if !p.autoscaler.addRequest(request) {
		return false // a newer request replaces it
	}
	p.request = nil
	p.env.Evaluate(p.autoscaler.Name)
	return true
}

// abandonRequest reports an unknown outcome if the pass ends without a result for its request.
func (p *pass) abandonRequest() {
	if p.request == nil {
		return
	}
	text := p.autoscaler.published.Load().Unevaluated
	if p.autoscaler.removed.Load() {
		text = errRemoved.Error()
	}
	p.request.done <- scaleResult{err: fmt.Errorf("%w: %s", api.ErrUnknownOutcome, text)}
	p.request = nil
}
