package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestUnwrittenState checks a store that cannot be written for some time, and when the daemon
// stops.
func TestUnwrittenState(t *testing.T) {
	full := errors.New("no space left on device")
	inWorld(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zap.InfoLevel)
		w.log = zap.New(core)
		w.fed("a", 3, 3)
		w.start()
		w.advance(time.Minute)
		if problems := w.daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems %v, want none", problems)
		}

		w.store.fail(full)
		w.source().value("a", 6)
		w.advance(time.Minute)
		if got := w.daemon.Autoscalers()[0].Status.DesiredReplicas; got != 6 {
			t.Errorf("it wants %d replicas, want 6 whatever the store says", got)
		}
		problems := w.daemon.Readiness().Problems
		if len(problems) != 1 || problems[0].Subject != "state" || !strings.Contains(problems[0].Message, full.Error()) {
			t.Errorf("problems %v, want that of the state", problems)
		}
		if w.daemon.Readiness().Ready {
			t.Error("a daemon that cannot write its state is ready")
		}
		if told := logs.FilterMessage("state cannot be written; scaling continues").Len(); told != 1 {
			t.Errorf("the log tells %d times that the state cannot be written, want once", told)
		}

		w.store.fail(nil)
		w.advance(time.Minute)
		if readiness := w.daemon.Readiness(); !readiness.Ready || len(readiness.Problems) != 0 {
			t.Errorf("with room again the readiness is %+v, want no problem", readiness)
		}
		if logs.FilterMessage("state can be written again").Len() != 1 {
			t.Error("the log does not tell that the state can be written again")
		}
		if told := logs.FilterMessageSnippet("evaluation").All(); len(told) != 0 {
			t.Errorf("the log tells of evaluations, which went well: %v", told)
		}

		w.store.fail(full)
		w.advance(time.Minute)
		w.cancel()
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("it ended with %v, want what was lost", err)
		}
	})
}
