package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// environment is what rounds and passes use of the daemon.
type environment struct {
	log     *zap.Logger
	metrics *metrics.Metrics
	// clock measures whatever lasts, and stamps what is remembered.
	clock    *clock.Clock
	recorder *recorder
	dryRun   bool
	// until is as in Options.
	until func() time.Time
	// decided, if not nil, is called with the autoscaler of every decision as it is published.
	decided func(name string)
	// steps counts the steps of the wall clock that this run has seen, and has the event
	// for the last one.
	steps atomic.Pointer[clockSteps]

	// runContext ends reads and waits when the daemon stops, actContext writes
	// when it has stopped waiting for them.
	runContext, actContext context.Context
	// pauses are what people paused.
	pauses pauses
	// receivers are told of what happens.
	receivers notify.Receivers
	// graph keeps what drawings show; nil where nothing does.
	graph *graph.Store
	// breakers are those of fleets.
	breakers breakers
	// unwritten is why what the recorder has is not in the store.
	unwritten trouble.Problem
	// lastTick is when the scheduler last looked for rounds that are due.
	lastTick atomic.Pointer[time.Time]

	// evaluations are the names of autoscalers that are to be evaluated out of turn.
	evaluations     chan string
	readers, actors sync.WaitGroup
}

// clockSteps are the steps of the wall clock that this run noticed. They are never
// changed.
type clockSteps struct {
	count uint64
	// event is that for the last one.
	event policy.Event
}

// clockSteppedReason is the reason of the event for a step.
const clockSteppedReason = "ClockStepped"

// lookAtClock notices a step of the wall clock: it is logged and counted, and the
// autoscalers' next passes have it as an event. The scheduler calls it each time it
// wakes.
func (e *environment) lookAtClock() {
	step, stepped := e.clock.Look()
	if !stepped {
		return
	}
	direction := "forward"
	if step.By < 0 {
		direction = "back"
	}
	by := step.By.Abs().Round(100 * time.Millisecond)
	e.log.Warn("the wall clock was stepped; windows and rates go on without it",
		zap.String("direction", direction), zap.Duration("by", by), zap.Duration("offset", step.Offset))
	e.metrics.ClockStep(step.By, step.Offset)
	e.steps.Store(&clockSteps{count: e.steps.Load().count + 1, event: policy.Event{
		Kind: policy.WarningEvent, Reason: clockSteppedReason,
		Message: fmt.Sprintf("the wall clock was stepped %s by %s; windows and rates go on without it", direction, by),
	}})
}

// evaluate has an autoscaler evaluated at once, or as soon as the pass under way ends.
func (e *environment) evaluate(name string) {
	select {
	case e.evaluations <- name:
	case <-e.runContext.Done():
	}
}

// reportState counts a write of the state, keeps whether it can be written, and
// logs when that changes.
func (e *environment) reportState(took time.Duration, records int, err error) {
	e.metrics.StateWrite(took, records, err)
	news, fields := e.unwritten.Set(err)
	effect := "scaling goes on"
	if e.until != nil { // no intention, no action
		effect = "no count is changed until it can be"
	}
	switch {
	case news && err != nil:
		e.log.Error("state cannot be written; "+effect, append(fields, zap.NamedError("err", err))...)
	case news:
		e.log.Info("state can be written again", fields...)
	}
}

// errStopping is why calls end when the daemon does, and reloads are refused.
var errStopping = errors.New("hpad is stopping")
