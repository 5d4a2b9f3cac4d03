package round

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Env contains the dependencies that all rounds share.
type Env struct {
	Log      *zap.Logger
	Metrics  *metrics.Metrics
	Clock    *clock.Clock
	Recorder *records.Recorder
	// Pauses and Breakers record their changes with Recorder.
	Pauses   records.Pauses
	Breakers records.Breakers
	// Receivers receive notifications.
	Receivers notify.Receivers
	// Graph stores the data points of graphs; it may be nil.
	Graph  *graph.Store
	DryRun bool
	// Until returns the time until which this member can change the platform, which is shortly
	// before its lease expires. Until is nil without a cluster.
	Until func() time.Time
	// LeaseProblem returns the reason why the lease is not renewed, or "" if it is unknown. It may be nil.
	LeaseProblem func() string
	// StoreTimeout is the maximum time that a pass waits for a commit.
	StoreTimeout time.Duration
	// Decided, if not nil, is called after each pass with the name of its autoscaler.
	Decided func(name string)
	// EndpointsProblem returns the problem of a target's endpoints, or "".
	EndpointsProblem func(ref targets.Ref) string
	// EndpointsWithdrawing reports whether the removal of a target's instances waits until its
	// endpoints are published.
	EndpointsWithdrawing func(ref targets.Ref) bool
	// Unwritten is the problem that prevents the state from being written.
	Unwritten problem.Problem
	// Unstorable is the reason why the next write of the state may fail, such as a full disk.
	Unstorable problem.Problem
	// diskErrors is the number of consecutive commits that failed on this host's disk. diskError is the
	// error of the last one.
	diskErrors atomic.Int32
	diskError  atomic.Pointer[error]
	// RunContext cancels reads when the daemon stops. WriteContext cancels writes that are still
	// active some time after that.
	RunContext, WriteContext context.Context

	// evaluations receives the names of autoscalers to evaluate before their next tick.
	evaluations chan string
	// readers tracks the goroutines that read fleets and sources. writers tracks the goroutines
	// that write counts.
	readers, writers guard.Tasks
}

// CheckClock logs and counts a step of the wall clock.
func (e *Env) CheckClock() {
	step, stepped := e.Clock.TakeStep()
	if !stepped {
		return
	}
	e.Log.Warn("wall clock stepped", zap.Duration("by", step.By.Round(100*time.Millisecond)), zap.Duration("offset", step.Offset))
	e.Metrics.ClockStep(step.By, step.Offset)
}

// Evaluate evaluates an autoscaler immediately, or after its active pass.
func (e *Env) Evaluate(name string) {
	select {
	case e.evaluations <- name:
	case <-e.RunContext.Done():
	}
}

// ReportCommit counts and logs the result of a state commit.
func (e *Env) ReportCommit(took time.Duration, records int, err error) {
	e.Metrics.StateWrite(took, records, err)
	news, fields := e.Unwritten.Set(err)
	_, history := errors.AsType[*state.HistoryError](err)
	_, isCopy := errors.AsType[*state.CopyError](err)
	switch {
	case err == nil:
		e.diskErrors.Store(0)
	case history || isCopy:
		e.diskError.Store(&err)
		e.diskErrors.Add(1)
	}
	switch {
	case news && history:
		e.Log.Error("history write failed, scaling continues", append(fields, zap.NamedError("err", err))...)
	case news && err != nil && e.Until != nil: // a write requires an intention
		e.Log.Error("state write failed, scaling suspended", append(fields, zap.NamedError("err", err))...)
	case news && err != nil:
		e.Log.Error("state write failed, scaling continues", append(fields, zap.NamedError("err", err))...)
	case news:
		e.Log.Info("state writes recovered", fields...)
	}
}

// DiskError returns the error of the last commit if the last commits, at least the given number,
// failed on this host's disk, and nil otherwise. Failed writes to the cluster store do not count.
func (e *Env) DiskError(commits int32) error {
	if e.diskErrors.Load() < commits {
		return nil
	}
	return *e.diskError.Load()
}

// ErrStopping is the error of calls and reloads that are interrupted because the daemon stops.
var ErrStopping = errors.New("hpad is stopping")
