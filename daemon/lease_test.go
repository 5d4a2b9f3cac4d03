package daemon

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/targettest"
)

// TestWritesWithinLease checks that a cluster member whose lease has expired does not write,
// continues to observe, and writes again after a renewal.
func TestWritesWithinLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var until atomic.Pointer[time.Time]
		set := func(at time.Time) { until.Store(&at) }
		set(time.Now().Add(time.Hour))
		w.until = func() time.Time { return *until.Load() }
		w.fed("web", 3, 3)
		w.start()
		w.advance(time.Minute)
		set(time.Now())
		w.source().value("web", 6)
		w.advance(time.Minute)
		if got := w.fleet().Replicas("web"); got != 3 {
			t.Errorf("count after the lease expired = %d, want 3", got)
		}
		view := w.view("web")
		if view.Evaluation.Reason != reason.NotOwner.String() || !strings.Contains(view.Evaluation.Error, "lease") {
			t.Errorf("reason = %q, error = %q", view.Evaluation.Reason, view.Evaluation.Error)
		}
		if view.Decision.DesiredReplicas != 6 {
			t.Errorf("DesiredReplicas = %d, want 6, because the member continues to observe", view.Decision.DesiredReplicas)
		}
		if record, _ := w.store.record("web"); record.Intention != nil {
			t.Errorf("stored intention = %+v, want none without a call to the platform", record.Intention)
		}
		set(time.Now().Add(time.Hour))
		w.advance(15 * time.Second)
		if got := w.fleet().Replicas("web"); got != 6 {
			t.Errorf("count after the lease was renewed = %d, want 6", got)
		}
		w.stop()
	})
}

// TestIntentionBeforeAction checks that a member does not write without a committed intention,
// because other members rely on it.
func TestIntentionBeforeAction(t *testing.T) {
	t.Run("store", func(t *testing.T) { intentionFails(t, errors.New("cannot be written"), reason.NotOwner) })
	t.Run("own disk", func(t *testing.T) {
		intentionFails(t, &state.CopyError{Err: errors.New("cannot be written")}, reason.FailedUpdateScale)
	})
}

func intentionFails(t *testing.T, failure error, code reason.Code) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zap.ErrorLevel)
		w.log = zap.New(core)
		w.until = func() time.Time { return time.Now().Add(time.Hour) }
		w.fed("web", 3, 3)
		w.start()
		w.advance(time.Minute)
		w.store.fail(failure)
		w.source().value("web", 6)
		w.advance(time.Minute)
		if got := w.fleet().Replicas("web"); got != 3 {
			t.Errorf("count without an intention = %d, want 3", got)
		}
		if got := w.view("web").Evaluation; !strings.Contains(got.Error, failure.Error()) || got.Reason != code.String() {
			t.Errorf("error = %q with reason %s, want %v with reason %s", got.Error, got.Reason, failure, code)
		}
		if logged := logs.FilterMessage("state write failed, scaling suspended").Len(); logged != 1 {
			t.Errorf("%d log lines about the store, want 1: %v", logged, logs.All())
		}
		w.store.fail(nil)
		w.advance(15 * time.Second)
		if got := w.fleet().Replicas("web"); got != 6 {
			t.Errorf("count after the store recovered = %d, want 6", got)
		}
		w.stop()
	})
}

// TestStoreHangs checks the passes while calls to the store time out. Each pass must end in time and
// report the reason. After the store recovers, the recovery of the evaluation must be reported once.
func TestStoreHangs(t *testing.T) {
	member := func() time.Time { return time.Now().Add(time.Hour) }
	testStoreHangs(t, member, 5*time.Second, reason.NotOwner, "not scaled: the planned change could not be written to the cluster store within 5s")
	testStoreHangs(t, nil, 0, reason.FailedUpdateScale, "not scaled: the planned change was not stored within 10s: the store did not respond in time")
}

func testStoreHangs(t *testing.T, until func() time.Time, limit time.Duration, why reason.Code, text string) {
	inWorld(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zap.InfoLevel)
		w.log = zap.New(core)
		w.until, w.storeTimeout = until, limit
		w.fed("web", 3, 3)
		w.start()
		w.advance(time.Minute)
		w.store.fail(errors.New("no response"))
		w.store.slowDown(11 * time.Second)
		w.source().value("web", 6)
		w.advance(26 * time.Second)
		for range 60 {
			w.advance(time.Second)
			e := w.view("web").Evaluation
			if e.Reason != why.String() || e.Error != text || e.Late > 0 {
				t.Errorf("evaluation = %+v", e)
			}
		}
		w.source().value("web", 3)
		w.advance(time.Minute)
		if again := logs.FilterMessage("evaluation recovered").Len(); again > 0 || w.fleet().Replicas("web") != 3 {
			t.Errorf("logged recoveries while the store fails = %d, replicas = %d", again, w.fleet().Replicas("web"))
		}
		w.store.fail(nil)
		w.store.slowDown(0)
		w.advance(time.Minute)
		if again := logs.FilterMessage("evaluation recovered").Len(); again != 1 {
			t.Errorf("logged recoveries after the recovery of the store = %d, want 1", again)
		}
		w.stop()
	})
}

// TestWriteEndsWithLease checks that an active write is canceled when the lease expires.
func TestWriteEndsWithLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.until = func() time.Time { return time.Now().Add(3 * time.Second) }
		w.fed("web", 3, 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Hang: true, Times: 1})
		w.start()
		w.advance(4 * time.Second)
		if got := w.view("web").Evaluation.Error; !strings.Contains(got, "until the owner's lease ends") {
			t.Errorf("error = %q", got)
		}
		w.stop()
	})
}
