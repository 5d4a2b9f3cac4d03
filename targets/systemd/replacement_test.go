package systemd

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/rollout"
)

// runReplacement runs test with instances 1 to 3 of a template that has restart_on_change set
// and whose file has changed. Instances without a probe are ready after 5 s.
func runReplacement(t *testing.T, test func(r *fixture)) {
	t.Helper()
	run(t, []int{1, 2, 3}, func(r *fixture) {
		r.config.Templates = map[string]Template{"worker@.service": {RestartOnChange: true, ProgressDeadline: time.Minute}}
		r.open()
		if got := r.wantSpec(3); len(got.Notices) > 0 {
			r.Errorf("notices %v without a change", got.Notices)
		}
		pass(rollout.SettleTime)
		r.change()
		test(r)
	})
}

// change changes the template's file.
func (r *fixture) change() {
	r.m.set(func() { r.m.fileChanged = time.Now() })
	pass(time.Second)
}

// wantReplacing checks that a replacement makes progress at a count of 3, and does not hold the
// autoscaler.
func (r *fixture) wantReplacing(active ...int) {
	r.Helper()
	if got := r.wantSpec(3); got.Hold != nil || len(got.Notices) != 1 || got.Notices[0].Reason != rollout.ReplacementInProgress {
		r.Errorf("hold %v, notices %v, want ReplacementInProgress", got.Hold, got.Notices)
	}
	r.wantActive(active...)
}

// TestReplacement checks that hpad replaces outdated instances one by one, waits for the readiness of
// the new instances, continues after its own restart, and uses only one index above the count.
func TestReplacement(t *testing.T) {
	for _, drain := range []time.Duration{0, 3 * time.Second} {
		for _, restarts := range []bool{false, true} {
			runReplacement(t, func(r *fixture) {
				own := r.config.Templates["worker@.service"]
				own.DrainDelay = drain
				r.config.Templates["worker@.service"] = own
				r.open()
				r.wantReplacing(1, 2, 3, 4)
				for second := range 90 {
					if restarts && second%7 == 0 {
						r.open()
					}
					ready := 0
					for _, i := range r.wantSpec(3).Instances {
						if !i.Deleting && time.Since(i.ReadinessChanged) >= rollout.SettleTime {
							ready++
						}
					}
					if active := r.m.active(); ready < 3 || len(active) > 4 || slices.Contains(active, "worker@5.service") {
						r.Fatalf("%d ready instances, active units %q", ready, active)
					}
					pass(time.Second)
				}
				if got := r.wantSpec(3); len(got.Notices) > 0 {
					r.Errorf("notices %v after the replacement", got.Notices)
				}
				r.wantActive(2, 3, 4)
			})
		}
	}
}

// TestReplacementSteps checks that a replacement does not wait for readings.
func TestReplacementSteps(t *testing.T) {
	runReplacement(t, func(r *fixture) {
		r.wantReplacing(1, 2, 3, 4)
		pass(30 * time.Second)
		r.wantActive(2, 3, 4)
		r.change()
		r.wantReplacing(1, 2, 3, 4)
		r.scale(0)
		pass(time.Minute)
		r.wantActive()
	})
}

// TestReplacementFailing checks that the old instances stay if a new instance does not become ready,
// that the autoscaler can then scale, and that a corrected definition is used.
func TestReplacementFailing(t *testing.T) {
	runReplacement(t, func(r *fixture) {
		r.m.set(func() { r.m.limited["worker@4.service"] = true })
		r.wantReplacing(1, 2, 3)
		pass(time.Minute)
		r.wantNotice(rollout.ReplacementFailing, rollout.ProgressDeadlineExceeded, "1 of 4 instances of worker@.service use the new definition; 0 of them are ready; no further instance")
		r.m.called("")
		pass(time.Minute)
		if calls := r.m.called(""); len(calls) > 0 {
			r.Errorf("calls %q between the readings of a stuck replacement", calls)
		}
		r.wantActive(1, 2, 3)
		r.scale(4)
		r.wantActive(1, 2, 3, 5)
		r.scale(3) // stops the failed instance
		r.wantSpec(3)
		r.m.set(func() { clear(r.m.limited) })
		r.change()
		r.read()
		pass(time.Minute)
		r.wantSpec(3)
		r.wantActive(2, 3, 4)
		r.wantNotice(rollout.ReplacementFailing, "", "")
	})
}

// TestScaleDuringReplacement checks that a replacement in which no instance becomes ready does not
// prevent scaling, and that its notice contains the shortage. Only instances with the new definition
// can be started.
func TestScaleDuringReplacement(t *testing.T) {
	runReplacement(t, func(r *fixture) {
		r.m.set(func() {
			for _, name := range workers(3, 4, 5, 6) {
				r.m.limited[name] = true
			}
		})
		r.wantReplacing(1, 2, 3)
		r.scale(5)
		r.wantNotice(rollout.Replacing, rollout.ReplacementInProgress, "3 of 6 instances of worker@.service use the new definition; 0 of them are ready; only 3 of 5 wanted instances are ready")
		r.wantNotice(UnitsFailing, StartLimitHit, "worker@4.service (result: start-limit-hit), worker@5.service (result: start-limit-hit), worker@6.service")
		pass(time.Minute)
		r.wantNotice(rollout.ReplacementFailing, rollout.ProgressDeadlineExceeded, "only 3 of 5 wanted instances are ready")
		r.scale(2)
		for range 3 { // a stuck replacement continues only at readings
			r.wantSpec(2)
			pass(rollout.SettleTime)
		}
		r.wantNotice(rollout.ReplacementFailing, rollout.ProgressDeadlineExceeded, "1 of 3 instances of worker@.service use the new definition; 0 of them are ready; no further")
		r.wantActive(1, 2)
		r.m.set(func() { clear(r.m.limited) })
		r.change()
		r.wantNotice(rollout.Replacing, rollout.ReplacementInProgress, "")
		pass(time.Minute)
		r.wantNotice(rollout.Replacing, "", "")
	})
}

// TestRestart checks that a requested restart replaces all instances, also without
// restart_on_change, and continues after a restart of hpad.
func TestRestart(t *testing.T) {
	run(t, []int{1, 2, 3}, func(r *fixture) {
		r.open()
		r.wantSpec(3)
		pass(rollout.SettleTime)
		if err := r.fleet.Restart(r.Context(), workerRef); err != nil {
			r.Fatal(err)
		}
		pass(time.Second)
		r.wantSpec(3)
		r.wantReplacing(1, 2, 3, 4)
		r.open()
		r.wantReplacing(1, 2, 3, 4)
		pass(time.Minute)
		if got := r.wantSpec(3); len(got.Notices) > 0 {
			r.Errorf("notices %v after the restart", got.Notices)
		}
		r.wantActive(2, 3, 4)
	})
}

// TestNoReplacement checks that instances are not replaced without the key, before a daemon-reload
// and if the time of the change is unknown, and that a disabled replacement removes the additional
// instance.
func TestNoReplacement(t *testing.T) {
	unchanged := func(r *fixture, reason, words string) {
		r.Helper()
		r.wantNotice(rollout.ReplacementFailing, reason, words)
		pass(time.Minute)
		r.wantSpec(3)
		r.wantActive(1, 2, 3)
	}
	runReplacement(t, func(r *fixture) {
		r.m.set(func() { r.m.reload = true })
		unchanged(r, "", "")
		r.m.restarted("worker@1.service") // with the old definition
		unchanged(r, "", "")
		r.m.set(func() { r.m.reload, r.m.fileChanged = false, time.Now().Add(-90*time.Second) })
		r.wantReplacing(1, 2, 3, 4)
		r.config.Templates = nil
		r.open()
		r.read()
		unchanged(r, "", "")
	})
	runReplacement(t, func(r *fixture) {
		r.m.set(func() { r.m.fileChanged = time.Now().Add(time.Hour) })
		unchanged(r, changeTimeUnknown, "the change time of /etc/systemd/system/worker@.service is in the future")
	})
}

// TestChanged checks the change time of a file, which does not depend on its modification time.
func TestChanged(t *testing.T) {
	path := t.TempDir() + "/worker@.service"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	c := newConnection(&Config{})
	if at, err := c.changed(path); err != nil || time.Since(at) > time.Hour {
		t.Errorf("changed() = %v, %v, want a recent time", at, err)
	}
	if _, err := c.changed(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("changed() of a missing file = %v", err)
	}
}
