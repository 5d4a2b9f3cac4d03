package process

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/rollout"
)

// wantWorking waits until the given number of instances are ready, and of all instances exist, and
// until the reading has the given notices.
func wantWorking(t *testing.T, f *Fleet, ready, all int, reasons ...string) targets.Reading {
	t.Helper()
	var reading targets.Reading
	eventually(t, func() string {
		reading = read(t, f, "a")
		got := 0
		for _, i := range reading.Instances {
			if i.Readiness == policy.ReadinessTrue && !i.Deleting {
				got++
			}
		}
		var notices []string
		for _, notice := range reading.Notices {
			notices = append(notices, notice.Reason)
		}
		if got != ready || int(reading.StatusReplicas) != all || !slices.Equal(notices, reasons) || reading.Hold != nil {
			return fmt.Sprintf("%d of %d instances are ready, want %d of %d; hold %v, notices %+v", got, reading.StatusReplicas, ready, all, reading.Hold, reading.Notices)
		}
		return ""
	})
	return reading
}

// TestScaleDuringBrokenReplacement checks scaling while the processes of a new version exit: in
// proportion before the progress deadline, and with instances of the old version afterwards. A
// restart of hpad does not change that.
func TestScaleDuringBrokenReplacement(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			w := newFixture(t, 4)
			w.survive = true
			f := start(t, w.open(t))
			settled(t, f, "a", 4)
			change := func(change func(s *Service)) {
				if !restarts {
					f = w.reload(t, f, change)
					return
				}
				closeFleet(t, f)
				w.alter("a", change)
				f = start(t, w.open(t))
			}
			change(func(s *Service) {
				s.Env = maps.Clone(s.Env)
				s.Env["WORKER"], s.ProgressDeadline = "crash", time.Hour
			})
			wantWorking(t, f, 4, 5, processRestarting, rollout.ReplacementInProgress)
			scale(t, f, "a", 8)
			reading := wantWorking(t, f, 7, 9, processRestarting, rollout.ReplacementInProgress)
			for i, words := range []string{"exit status 3", "2 of 9 instances of service \"a\" use the new definition; 0 of them are ready; only 7 of 8 wanted"} {
				if got := reading.Notices[i].Message; !strings.Contains(got, words) {
					t.Errorf("notice %q lacks %q", got, words)
				}
			}
			scale(t, f, "a", 6)
			wantWorking(t, f, 6, 7, processRestarting, rollout.ReplacementInProgress)
			change(func(s *Service) { s.ProgressDeadline = time.Second })
			wantWorking(t, f, 6, 7, processRestarting, rollout.ProgressDeadlineExceeded)
			scale(t, f, "a", 8)
			wantWorking(t, f, 8, 9, processRestarting, rollout.ProgressDeadlineExceeded)
			scale(t, f, "a", 4)
			wantWorking(t, f, 4, 5, processRestarting, rollout.ProgressDeadlineExceeded)
			scale(t, f, "a", 10) // uses all ports
			wantWorking(t, f, 10, 11, noFreePort)
			change(func(s *Service) {
				s.Env = maps.Clone(s.Env)
				s.Env["WORKER"], s.MaxUnavailable = "serve", 1
			})
			wantWorking(t, f, 10, 10)
		})
	}
}

// TestRestartOfOldVersion checks that an instance of an old version that crashes is restarted with
// its own settings, also if an earlier hpad started it.
func TestRestartOfOldVersion(t *testing.T) {
	w := newFixture(t, 2)
	w.survive = true
	f := start(t, w.open(t))
	before := ids(settled(t, f, "a", 2))
	closeFleet(t, f)
	w.alter("a", func(s *Service) {
		s.Env = maps.Clone(s.Env)
		s.Env["WORKER"] = "crash"
	})
	f = start(t, w.open(t))
	wantWorking(t, f, 2, 3, processRestarting, rollout.ReplacementInProgress)
	for _, i := range f.services["a"].instances() {
		if slices.Contains(before, i.id) {
			if err := syscall.Kill(i.leader(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() string {
		if got := strings.Count(w.output.String(), "serving as"); got < 4 {
			return fmt.Sprintf("%d starts of the old version, want 4", got)
		}
		return ""
	})
	after := ids(wantWorking(t, f, 2, 3, processRestarting, rollout.ReplacementInProgress))
	for _, id := range before {
		if !slices.Contains(after, id) {
			t.Errorf("instance %s was replaced by a broken version: %v", id, after)
		}
	}
}

// TestRestart checks that a requested restart replaces all instances without a change of the
// service, and continues after a restart of hpad.
func TestRestart(t *testing.T) {
	w := newFixture(t, 3)
	w.survive = true
	f := start(t, w.open(t))
	before := ids(settled(t, f, "a", 3))
	restart := func() {
		t.Helper()
		if err := f.Restart(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
	}
	replaced := func() {
		t.Helper()
		eventually(t, func() string {
			if got := ids(wantReady(t, f, 3)); len(got) != 3 || slices.ContainsFunc(got, func(id string) bool { return slices.Contains(before, id) }) {
				return fmt.Sprintf("instances %v, before %v", got, before)
			}
			return ""
		})
		before = ids(wantWorking(t, f, 3, 3))
	}
	restart()
	replaced()
	restart()
	closeFleet(t, f)
	f = start(t, w.open(t))
	replaced()
	f = w.reload(t, f, func(s *Service) { s.MaxSurge = new(int32(2)) })
	if got := ids(wantWorking(t, f, 3, 3)); !slices.Equal(got, before) {
		t.Errorf("a reload without a change replaced %v by %v", before, got)
	}
	scale(t, f, "a", 4)
	wantWorking(t, f, 4, 4)
	closeFleet(t, f)
	if err := f.Restart(t.Context(), ref("a")); err == nil {
		t.Error("Restart() of a closed fleet = nil")
	}
}

// wantReady reads the service and checks that at least n instances are ready.
func wantReady(t *testing.T, f *Fleet, n int) targets.Reading {
	t.Helper()
	reading := read(t, f, "a")
	ready := 0
	for _, i := range reading.Instances {
		if i.Readiness == policy.ReadinessTrue && !i.Deleting {
			ready++
		}
	}
	if ready < n {
		t.Errorf("only %d instances are ready during a restart, want %d", ready, n)
	}
	return reading
}
