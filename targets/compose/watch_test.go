package compose

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// happens sends an event of one of the service's containers.
func (i *imitation) happens(number int, action events.Action, signal string) {
	c := i.of("shop", "web")[number-1]
	i.with(func() { i.emit(c, action, signal) })
}

// TestStopping holds which containers are taken for ones that somebody is stopping,
// and how long.
func TestStopping(t *testing.T) {
	i := newImitation(t)
	i.up(service{project: "shop", name: "web"}, 2)
	i.up(service{project: "shop", name: "db"}, 1)
	i.up(service{project: "else", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	k := key{"shop", "db"}
	i.happens(1, events.ActionKill, "15") // before anybody follows
	i.with(func() { i.emit(i.replicas("else", "web")[0], events.ActionKill, "15") })
	w := f.follow("shop")
	defer w.close()
	told := func(later time.Duration) string {
		t.Helper()
		l, err := f.list(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		l.observed = l.observed.Add(later)
		if held, _ := w.stopping(k, l, nil); held != nil {
			return held.Message
		}
		return ""
	}
	wait.Soon(t, "signal", func() bool {
		return strings.Contains(told(0), `of project "shop": shop-web-1; new replicas of service "db"`)
	})
	if got := told(stopAge); got != "" {
		t.Errorf("after %v %q", stopAge, got)
	}

	i.happens(1, events.ActionStart, "")
	wait.Soon(t, "start", func() bool { return told(0) == "" })
	i.happens(2, events.ActionKill, "1")
	i.happens(1, events.ActionKill, "28")
	wait.Soon(t, "another signal", func() bool { return strings.Contains(told(0), "shop-web-1") })
	if got := told(0); strings.Contains(got, "shop-web-2") {
		t.Errorf("SIGHUP stops nothing, but %q", got)
	}

	i.with(func() { i.replicas("shop", "web")[0].State.Status = container.StateExited })
	i.happens(1, events.ActionDie, "")
	i.happens(2, events.ActionKill, "9")
	wait.Soon(t, "third signal", func() bool { return strings.Contains(told(0), "shop-web-1, shop-web-2") })
	if got := told(endAge); !strings.Contains(got, "shop-web-2") || strings.Contains(got, "shop-web-1") {
		t.Errorf("after %v %q, want the one that runs", endAge, got)
	}

	if err := f.removals.doom(t.Context(), key{"shop", "web"}, []*member{{Summary: i.of("shop", "web")[1].summary(), name: "shop-web-2"}}); err != nil {
		t.Fatal(err)
	}
	if got := told(endAge); got != "" {
		t.Errorf("%q, and that one is hpad's own victim", got)
	}
}

// TestStoppedMeanwhile holds that a batch makes nothing more once somebody stops
// containers of the project, and that the replica goes of which they cannot know.
func TestStoppedMeanwhile(t *testing.T) {
	i := newImitation(t)
	i.up(service{project: "shop", name: "web"}, 2)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	l, err := f.list(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	k := key{"shop", "web"}
	o := &order{key: k, members: l.services[k], living: counted(l.services[k]), listing: l, to: 5}
	b, err := f.plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := f.follow("shop")
	defer w.close()
	made := newBatch(o, b, w)
	f.removals.begin(t.Context(), k, b.names(3, 3))
	if err := f.add(t.Context(), made, 3); err != nil {
		t.Fatal(err)
	}
	i.happens(1, events.ActionKill, "15")
	if err := f.startInTurn(t.Context(), made, 4); err != nil {
		t.Fatal(err)
	}
	wait.Soon(t, "signal", func() bool { held, _ := w.stopping(k, l, nil); return held != nil })
	err = f.finish(made, f.look(made))
	var held *targets.HeldError
	if !errors.As(err, &held) || held.Hold.Reason != ContainersStopping {
		t.Errorf("the batch ends with %v, want %s", err, ContainersStopping)
	}
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
	// It is at once: nothing was stopped.
	if len(i.order) != 1 || i.order[0] != "remove shop-web-4 v=1" {
		t.Errorf("the engine was asked to %q", i.order)
	}
	// What has served stays until nothing else is there.
	i.takeDown("shop", i.seen("shop")[:2])
	if got := read(t, f); targets.Reason(got.Err) != ProjectRemoved {
		t.Errorf("the reading says %v, want %s", got.Err, ProjectRemoved)
	}
	wantNames(t, i)
}

// TestHaltedBesideGrowth holds that a replica which starts after somebody has asked all
// others to end, and which Compose saw before it ran, is stopped too; and that it runs on
// where others of its service do.
func TestHaltedBesideGrowth(t *testing.T) {
	for name, halted := range map[string]int{"all others": 2, "one": 1} {
		t.Run(name, func(t *testing.T) {
			i := newImitation(t)
			i.up(service{project: "shop", name: "web"}, 2)
			f := started(t, i, &targettest.Store{})
			read(t, f)
			i.with(func() {
				i.refuseStart = func(*imitated) string { // under the lock
					for _, c := range i.replicas("shop", "web")[:halted] {
						i.emit(c, events.ActionKill, "15")
						c.end(143)
						i.emit(c, events.ActionDie, "")
					}
					return ""
				}
			})
			err := scale(t, f, 4)
			var partial *targets.PartialError
			if !errors.As(err, &partial) || !strings.Contains(err.Error(), ContainersStopping) {
				t.Errorf("SetReplicas() = %v, want a part and %s", err, ContainersStopping)
			}
			if halted == 1 {
				if got := running(i); len(got) != 2 {
					t.Errorf("%v run, want the other one and the new one", got)
				}
				return
			}
			wait.Soon(t, "end of all", func() bool { return len(running(i)) == 0 })
			i.age()
			isHeld(t, f, true)
		})
	}
}

// TestWithoutEvents holds that a service grows also where events may not be read.
func TestWithoutEvents(t *testing.T) {
	i := newImitation(t)
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/events") {
				return http.StatusForbidden, "the proxy forbids it"
			}
			return 0, ""
		}
	})
	mustScale(t, f, 3)
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
}
