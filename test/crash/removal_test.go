package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// TestRemoval kills hpad after it has sent a request to remove two of three instances, but before
// it receives the response.
func TestRemoval(t *testing.T) {
	l := world.NewLoad(t)
	t.Run("cases", func(t *testing.T) { // all cases must end before Prometheus
		for _, how := range []held{unanswered, late, lost} {
			t.Run(string(how), func(t *testing.T) {
				t.Parallel()
				if how != lost {
					soak.Complete(t)
				}
				removes(t, l, "aws-"+string(how), how)
			})
		}
	})
}

func removes(t *testing.T, l *world.Load, name string, how held) {
	const stopTime = 2 * time.Second
	c := newAWS(t, 3, stopTime)
	_, before := c.observe()
	l.Queue(name, 30)
	l.AwaitQueue(t, name)
	h := program.New(t, c.configuration(l, name, "oldest", ""))
	h.Passes(name, 2)
	c.hold(how)
	l.Queue(name, 10)
	c.await(t)
	begun := h.View(name).Drains
	h.Kill()
	h.Start()
	h.Passes(name, 3)
	if how == late {
		if wanted, staying := c.observe(); wanted != 3 || len(staying) != 3 {
			t.Errorf("got instances %v and count %d before the call was forwarded, want 3 and 3", staying, wanted)
		}
		c.open()
	}
	wait.For(t, patience, "one instance", func() (string, bool) {
		wanted, staying := c.observe()
		return fmt.Sprintf("instances %v, count %d", staying, wanted), wanted == 1 && len(staying) == 1
	})
	awaitTerminated(t, h, name, begun)
	h.Passes(name, 3)
	taken, most := c.taken()
	left := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(taken, id) })
	if wanted, staying := c.observe(); wanted != 1 || len(taken) != 2 || !slices.Equal(staying, left) {
		t.Errorf("removal calls for %v of %v, got instances %v and count %d", taken, before, staying, wanted)
	}
	if want := map[held]int{unanswered: 1, late: 1, lost: 2}[how]; most != want {
		t.Errorf("got %d removal calls for an instance, want %d", most, want)
	}
	if view := h.View(name); view.Status.DesiredReplicas != 1 || view.Status.CurrentReplicas != 1 {
		t.Errorf("got %+v, want one replica", view.Status)
	}
}

// awaitTerminated waits until the operations have ended with the instances terminated.
func awaitTerminated(t *testing.T, h *program.Program, name string, begun []drain.Operation) {
	t.Helper()
	if len(begun) != 2 {
		t.Fatalf("got operations %+v before the kill, want two", begun)
	}
	wait.For(t, patience, "end of both operations", func() (string, bool) {
		now := h.View(name).Drains
		same := slices.EqualFunc(begun, now, func(a, b drain.Operation) bool {
			return a.ID == b.ID && a.Deadline.Equal(b.Deadline) && b.State == drain.Ended && b.Outcome == drain.Terminated
		})
		return fmt.Sprintf("operations were %+v and are %+v", begun, now), same
	})
}
