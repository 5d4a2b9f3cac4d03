package round_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/targettest"
)

// TestWritesWithinLease checks that a cluster member whose lease has expired does not write,
// continues to observe, and writes again after a renewal.
func TestWritesWithinLease(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		var until atomic.Pointer[time.Time]
		set := func(at time.Time) { until.Store(&at) }
		set(time.Now().Add(time.Hour))
		w.Until = func() time.Time { return *until.Load() }
		w.AddWithValue("web", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		set(time.Now())
		w.Source().Value("web", 6)
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("web"); got != 3 {
			t.Errorf("count after the lease expired = %d, want 3", got)
		}
		view := w.View("web")
		if view.Evaluation.Reason != reason.NotOwner.String() || !strings.Contains(view.Evaluation.Error, "lease") {
			t.Errorf("reason = %q, error = %q", view.Evaluation.Reason, view.Evaluation.Error)
		}
		if view.Decision.DesiredReplicas != 6 {
			t.Errorf("DesiredReplicas = %d, want 6, because the member continues to observe", view.Decision.DesiredReplicas)
		}
		if record, _ := w.Store.Record("web"); record.Intention != nil {
			t.Errorf("stored intention = %+v, want none without a call to the platform", record.Intention)
		}
		set(time.Now().Add(time.Hour))
		w.Advance(15 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 6 {
			t.Errorf("count after the lease was renewed = %d, want 6", got)
		}
		w.Stop()
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
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.Until = func() time.Time { return time.Now().Add(time.Hour) }
		w.AddWithValue("web", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		w.Store.Fail(failure)
		w.Source().Value("web", 6)
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("web"); got != 3 {
			t.Errorf("count without an intention = %d, want 3", got)
		}
		if got := w.View("web").Evaluation; !strings.Contains(got.Error, failure.Error()) || got.Reason != code.String() {
			t.Errorf("error = %q with reason %s, want %v with reason %s", got.Error, got.Reason, failure, code)
		}
		if logged := logs.FilterMessage("state write failed, scaling suspended").Len(); logged != 1 {
			t.Errorf("%d log lines about the store, want 1: %v", logged, logs.All())
		}
		w.Store.Fail(nil)
		w.Advance(15 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 6 {
			t.Errorf("count after the store recovered = %d, want 6", got)
		}
		w.Stop()
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
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.Until, w.StoreTimeout = until, limit
		w.AddWithValue("web", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		w.Store.Fail(errors.New("no response"))
		w.Store.SlowDown(11 * time.Second)
		w.Source().Value("web", 6)
		w.Advance(26 * time.Second)
		for range 60 {
			w.Advance(time.Second)
			e := w.View("web").Evaluation
			if e.Reason != why.String() || e.Error != text || e.Late > 0 {
				t.Errorf("evaluation = %+v", e)
			}
		}
		w.Source().Value("web", 3)
		w.Advance(time.Minute)
		if again := logs.FilterMessage("evaluation recovered").Len(); again > 0 || w.Fleet().Replicas("web") != 3 {
			t.Errorf("logged recoveries while the store fails = %d, replicas = %d", again, w.Fleet().Replicas("web"))
		}
		w.Store.Fail(nil)
		w.Store.SlowDown(0)
		w.Advance(time.Minute)
		if again := logs.FilterMessage("evaluation recovered").Len(); again != 1 {
			t.Errorf("logged recoveries after the recovery of the store = %d, want 1", again)
		}
		w.Stop()
	})
}

// TestWriteEndsWithLease checks that an active write is canceled when the lease expires.
func TestWriteEndsWithLease(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Until = func() time.Time { return time.Now().Add(3 * time.Second) }
		w.AddWithValue("web", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Hang: true, Times: 1})
		w.Start()
		w.Advance(4 * time.Second)
		if got := w.View("web").Evaluation.Error; !strings.Contains(got, "until the owner's lease ends") {
			t.Errorf("error = %q", got)
		}
		w.Stop()
	})
}
