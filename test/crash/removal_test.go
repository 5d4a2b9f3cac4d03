package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// configuration is that of an autoscaler that gives the group an instance for each
// 10 in its queue, and of the drain of what it takes, where there is one.
func (c cloud) configuration(l *world.Load, name, victims, drain string) string {
	text := strings.Replace(world.Queued(name, c.target, 1, 9), "min_replicas", fmt.Sprintf("victims = %q\nmin_replicas", victims), 1)
	if drain != "" {
		text += fmt.Sprintf("[autoscalers.%s.drain]\ninterval = \"1s\"\n%s", name, drain)
	}
	return c.fleet + l.Source() + text
}

// TestRemoval kills hpad after it has asked a cloud to take two of three machines,
// and before it has a response.
func TestRemoval(t *testing.T) {
	l := world.NewLoad(t)
	// The group ends before Prometheus does.
	t.Run("cases", func(t *testing.T) {
		for _, c := range []struct {
			name string
			make func(t *testing.T) cloud
			// drain is the configuration of the drain; empty means none.
			drain func(t *testing.T) string
		}{
			{"aws", func(t *testing.T) cloud { c, _ := newAWS(t, 3, stopTime); return c }, func(*testing.T) string { return "" }},
			{"gce", func(t *testing.T) cloud { return newGCE(t, 3, stopTime) }, webhook},
			{"azure", func(t *testing.T) cloud { return newAzure(t, 3, stopTime) }, command},
		} {
			for _, how := range []held{unanswered, late, lost} {
				t.Run(c.name+" "+string(how), func(t *testing.T) {
					t.Parallel()
					r := &removal{cloud: c.make(t), load: l, name: c.name + "-" + string(how)}
					r.run(t, how, c.drain(t))
				})
			}
		}
	})
}

// stopTime is how long a machine takes to go.
const stopTime = 2 * time.Second

// removal is one case.
type removal struct {
	cloud
	load *world.Load
	name string
}

func (r *removal) run(t *testing.T, how held, drain string) {
	_, before := r.look(t)
	r.load.Queue(r.name, 30)
	r.load.AwaitQueue(t, r.name)
	h := program.New(t, r.configuration(r.load, r.name, "oldest", drain))
	h.Passes(r.name, 2)
	r.hold(how)
	r.load.Queue(r.name, 10)
	r.await(t)
	begun := h.View(r.name).Drains
	h.Kill()
	h.Start()
	h.Passes(r.name, 3)
	if how == late {
		if wanted, staying := r.look(t); wanted != 3 || len(staying) != 3 {
			t.Errorf("%v stay for a count of %d before the call came through", staying, wanted)
		}
		r.open()
	}
	wait.For(t, patience, "one machine", func() (string, bool) {
		wanted, staying := r.look(t)
		return fmt.Sprintf("%v stay for a count of %d", staying, wanted), wanted == 1 && len(staying) == 1
	})
	r.awaitTerminated(t, h, begun)
	h.Passes(r.name, 3)
	taken, most := r.taken()
	left := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(taken, id) })
	if wanted, staying := r.look(t); wanted != 1 || len(taken) != 2 || !slices.Equal(staying, left) {
		t.Errorf("%v were taken of %v, and %v stay for a count of %d", taken, before, staying, wanted)
	}
	if want := map[held]int{unanswered: 1, late: 1, lost: 2}[how]; most != want {
		t.Errorf("a machine was to be taken %d times, want %d", most, want)
	}
	if view := h.View(r.name); view.Status.DesiredReplicas != 1 || view.Status.CurrentReplicas != 1 {
		t.Errorf("%+v, want one replica", view.Status)
	}
}

// awaitTerminated waits until the operations that were begun ended well.
func (r *removal) awaitTerminated(t *testing.T, h *program.Program, begun []drain.Operation) {
	t.Helper()
	if len(begun) != 2 {
		t.Fatalf("operations %+v before the end, want two", begun)
	}
	wait.For(t, patience, "end of both operations", func() (string, bool) {
		now := h.View(r.name).Drains
		same := slices.EqualFunc(begun, now, func(a, b drain.Operation) bool {
			return a.ID == b.ID && a.Deadline.Equal(b.Deadline) && b.State == drain.Ended && b.Outcome == drain.Terminated
		})
		return fmt.Sprintf("they were %+v and are %+v", begun, now), same
	})
}

// webhook returns the configuration of a drain that is through at once.
func webhook(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Action string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Action == "undo" {
			t.Errorf("the webhook is asked to %q, %v", asked.Action, err)
		}
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("kind = \"webhook\"\nurl = %q\n", server.URL)
}

// drainVariable makes the test's own program the command of a drain. It names a
// directory, in which the command writes down its calls.
const drainVariable = "HPAD_CRASH_TEST_DRAIN"

// command returns the configuration of a drain that is through at once.
func command(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if undone, err := filepath.Glob(filepath.Join(dir, "undo-*")); err != nil || len(undone) > 0 {
			t.Errorf("the command was asked for %q, %v", undone, err)
		}
	})
	return fmt.Sprintf("kind = \"command\"\ncommand = [\"/usr/bin/env\", %q, %q]\n", drainVariable+"="+dir, own)
}

// drainCommand is that command.
func drainCommand(dir string) int {
	name := os.Getenv("HPAD_ACTION") + "-" + filepath.Base(os.Getenv("HPAD_INSTANCE"))
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
