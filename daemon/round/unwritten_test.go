package round_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
)

// TestUnwrittenState checks the behavior while writes to the store fail, and when the daemon stops
// with unwritten state.
func TestUnwrittenState(t *testing.T) {
	full := errors.New("no space left on device")
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.AddWithValue("a", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		if problems := w.Daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems = %v, want none", problems)
		}

		w.Store.Fail(full)
		w.Source().Value("a", 6)
		w.Advance(time.Minute)
		if got := w.Daemon.Autoscalers()[0].Status.DesiredReplicas; got != 6 {
			t.Errorf("DesiredReplicas = %d while the store fails, want 6", got)
		}
		problems := w.Daemon.Readiness().Problems
		if len(problems) != 1 || problems[0].Subject != "state" || !strings.Contains(problems[0].Message, full.Error()) {
			t.Errorf("problems = %v, want one about the state", problems)
		}
		if w.Daemon.Readiness().Ready {
			t.Error("the daemon is ready although it cannot write its state")
		}
		health := w.Daemon.Health()
		if !health.Healthy || health.Strictly() || !strings.Contains(health.Unwritten, full.Error()) {
			t.Errorf("health = %+v, want a healthy daemon with the error of the store", health)
		}
		ctx := api.WithWarnings(httptest.NewRequest("", "/", http.NoBody)).Context()
		if err := w.Daemon.ScaleTo(ctx, "a", 5, false, ""); err != nil || !strings.Contains(fmt.Sprint(api.Warnings(ctx)), full.Error()) {
			t.Errorf("ScaleTo() = %v with warnings %q, want success with the error of the store", err, api.Warnings(ctx))
		}
		if logged := logs.FilterMessage("state write failed, scaling continues").Len(); logged != 1 {
			t.Errorf("%d log lines about the failed store, want 1", logged)
		}

		w.Store.Fail(nil)
		w.Advance(time.Minute)
		if health := w.Daemon.Health(); health.Unwritten != "" {
			t.Errorf("health = %+v after the store recovered, want no error", health)
		}
		if readiness := w.Daemon.Readiness(); !readiness.Ready || len(readiness.Problems) != 0 {
			t.Errorf("readiness = %+v after the store recovered, want no problem", readiness)
		}
		if logs.FilterMessage("state writes recovered").Len() != 1 {
			t.Error("no log line reports that the store has recovered")
		}
		if logged := logs.FilterMessageSnippet("evaluation").All(); len(logged) != 0 {
			t.Errorf("log lines about evaluations = %v, want none, because all succeeded", logged)
		}

		w.Store.Fail(full)
		w.Advance(time.Minute)
		w.Cancel()
		if err := <-w.Ended; err == nil || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("Run returned %v, want the error of the store", err)
		}
	})
}
