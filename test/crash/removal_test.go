package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// configuration returns an autoscaler that wants one instance per 10 entries of its queue.
// drain is the content of its drain table, if any.
func (c cloud) configuration(l *world.Load, name, victims, drain string) string {
	text := strings.Replace(world.Queued(name, c.target, 1, 9), "min_replicas", fmt.Sprintf("victims = %q\nmin_replicas", victims), 1)
	if drain != "" {
		text += fmt.Sprintf("[autoscalers.%s.drain]\ninterval = \"1s\"\n%s", name, drain)
	}
	return c.fleet + l.Source() + text
}

// TestRemoval kills hpad after it has sent a request to remove two of three instances and
// before it gets the response.
func TestRemoval(t *testing.T) {
	l := world.NewLoad(t)
	// groups the cases, so that Prometheus outlives them
	t.Run("cases", func(t *testing.T) {
		for _, how := range []held{unanswered, late, lost} {
			t.Run(string(how), func(t *testing.T) {
				t.Parallel()
				c, _ := newAWS(t, 3, stopTime)
				r := &removal{cloud: c, load: l, name: "aws-" + string(how)}
				r.run(t, how)
			})
		}
	})
}

// stopTime is the time that an instance takes to terminate.
const stopTime = 2 * time.Second

type removal struct {
	cloud
	load *world.Load
	name string
}

func (r *removal) run(t *testing.T, how held) {
	_, before := r.look(t)
	r.load.Queue(r.name, 30)
	r.load.AwaitQueue(t, r.name)
	h := program.New(t, r.configuration(r.load, r.name, "oldest", ""))
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
			t.Errorf("got instances %v and count %d before the call was forwarded, want 3 and 3", staying, wanted)
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
		t.Errorf("removed %v of %v, got instances %v and count %d", taken, before, staying, wanted)
	}
	if want := map[held]int{unanswered: 1, late: 1, lost: 2}[how]; most != want {
		t.Errorf("got %d removal calls for an instance, want %d", most, want)
	}
	if view := h.View(r.name); view.Status.DesiredReplicas != 1 || view.Status.CurrentReplicas != 1 {
		t.Errorf("got %+v, want one replica", view.Status)
	}
}

// awaitTerminated waits until the operations have ended with a termination.
func (r *removal) awaitTerminated(t *testing.T, h *program.Program, begun []drain.Operation) {
	t.Helper()
	if len(begun) != 2 {
		t.Fatalf("got operations %+v before the kill, want two", begun)
	}
	wait.For(t, patience, "end of both operations", func() (string, bool) {
		now := h.View(r.name).Drains
		same := slices.EqualFunc(begun, now, func(a, b drain.Operation) bool {
			return a.ID == b.ID && a.Deadline.Equal(b.Deadline) && b.State == drain.Ended && b.Outcome == drain.Terminated
		})
		return fmt.Sprintf("they were %+v and are %+v", begun, now), same
	})
}
