package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// fixture is a fleet on a fake manager with the template worker@.service.
type fixture struct {
	*testing.T
	m      *fakeManager
	store  targettest.Store
	config *Config
	fleet  *Fleet
}

var workerRef = ref("worker@.service")

// run runs test with a started fleet in a synctest bubble. Instances with the given indexes are
// already running.
func run(t *testing.T, indexes []int, test func(r *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &fixture{T: t, m: newFakeManager("worker@.service"), config: &Config{}}
		r.m.systemctl(t, "start", workers(indexes...)...)
		r.open()
		defer func() { _ = r.fleet.Close() }()
		test(r)
	})
}

// open starts a fleet and closes the previous one.
func (r *fixture) open() {
	r.Helper()
	if r.fleet != nil {
		_ = r.fleet.Close()
	}
	r.config.SetDefaults()
	if errs := r.config.Validate(); errs != nil {
		r.Fatalf("Validate() = %v", errs)
	}
	r.fleet = newFleet("vm", r.config, targets.Env{Store: &r.store}, r.m)
	if err := r.fleet.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// read reads the target and waits for background work.
func (r *fixture) read() targets.Reading {
	r.Helper()
	readings, err := r.fleet.Snapshot(r.Context(), []targets.Ref{workerRef})
	if err != nil {
		r.Fatalf("Snapshot() = %v", err)
	}
	synctest.Wait()
	return readings[workerRef]
}

func (r *fixture) scale(n int32) {
	r.Helper()
	if err := r.set(n); err != nil {
		r.Fatalf("SetReplicas(%d) = %v", n, err)
	}
}

func (r *fixture) set(n int32) error {
	return r.fleet.SetReplicas(r.Context(), workerRef, n, "", "test")
}

// wantActive checks that exactly these instances are active.
func (r *fixture) wantActive(indexes ...int) {
	r.Helper()
	if got, want := r.m.active(), workers(indexes...); !slices.Equal(got, want) {
		r.Errorf("active units %q, want %q", got, want)
	}
}

// wantSpec reads the target and checks its count.
func (r *fixture) wantSpec(n int32) targets.Reading {
	r.Helper()
	reading := r.read()
	if reading.Err != nil || reading.SpecReplicas != n {
		r.Errorf("spec %d replicas, %v, want %d", reading.SpecReplicas, reading.Err, n)
	}
	return reading
}

// wantNotice checks the reason and the message of the notice for a condition. An empty reason
// means that there must be no notice.
func (r *fixture) wantNotice(condition policy.ConditionType, reason, words string) {
	r.Helper()
	for _, notice := range r.read().Notices {
		if notice.Condition == condition {
			if reason == "" || notice.Reason != reason || !strings.Contains(notice.Message, words) {
				r.Errorf("notice %+v, want reason %q and %q", notice, reason, words)
			}
			return
		}
	}
	if reason != "" {
		r.Errorf("no notice of %s, want reason %q", condition, reason)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestUp checks that a scale-up uses the lowest free indexes.
func TestUp(t *testing.T) {
	run(t, []int{2, 4, 7}, func(r *fixture) {
		r.m.becomes("worker@5.service", "failed", "failed", "Result", "exit-code")
		r.m.systemctl(t, "start", "worker@spare.service", "worker@01.service")
		r.wantSpec(3)
		r.m.called("")
		r.scale(6)
		if got, want := r.m.called("start"), []string{"start worker@1.service", "start worker@3.service", "start worker@6.service"}; !slices.Equal(got, want) {
			r.Errorf("calls %q, want %q", got, want)
		}
		r.wantSpec(6)
	})
}

// TestDown checks that failed instances are stopped first, then those that are not running,
// then the highest indexes.
func TestDown(t *testing.T) {
	run(t, []int{1, 2, 3, 4, 5, 6}, func(r *fixture) {
		r.wantSpec(6)
		r.m.becomes("worker@2.service", "failed", "failed", "Result", "exit-code")
		r.m.becomes("worker@3.service", "deactivating", "stop-sigterm")
		r.m.set(func() { r.m.units["worker@3.service"].ends = time.Now().Add(time.Hour) })
		reading := r.wantSpec(6)
		if reading.StatusReplicas != 4 {
			r.Errorf("got %d status replicas, want 4, without the failed and the stopping instance", reading.StatusReplicas)
		}
		r.m.called("")
		r.scale(5)
		if stops, resets := r.m.count("stop"), r.m.called("reset"); stops != 1 || !slices.Equal(resets, []string{"reset worker@2.service"}) {
			r.Errorf("got %d stops and calls %q, want a stop and a reset of the failed instance", stops, resets)
		}
		r.scale(4)
		if got := r.m.called("stop"); !slices.Equal(got, []string{"stop worker@3.service"}) {
			r.Errorf("got calls %q, want a stop of worker@3, which is already stopping", got)
		}
		r.scale(2)
		r.wantActive(1, 4)
		r.wantSpec(2)
	})
}

// TestDrain checks that a removed instance is terminating and active during the drain delay, and
// that a restart of hpad continues the removal.
func TestDrain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		run(t, []int{1, 2}, func(r *fixture) {
			r.config.Templates = map[string]Template{"worker@.service": {DrainDelay: time.Minute}}
			r.open()
			r.wantSpec(2)
			withdrawn := 0
			r.fleet.options.Withdraw = func(context.Context, targets.Ref) {
				withdrawn++
				r.wantActive(1, 2)
			}
			r.scale(1)
			pass(59 * time.Second)
			if got := r.wantSpec(1); got.StatusReplicas != 1 || len(got.Instances) != 2 || !got.Instances[1].Deleting || withdrawn != 1 {
				r.Errorf("got %+v and %d withdrawals during the drain delay, want one instance that is deleting", got, withdrawn)
			}
			r.wantActive(1, 2)
			if restart {
				r.open()
				r.wantSpec(1)
				pass(59 * time.Second)
				r.wantActive(1, 2)
			}
			r.scale(2)
			r.wantActive(1, 2, 3)
			pass(2 * time.Second)
			r.wantActive(1, 3)
			r.wantSpec(2)
			r.m.set(func() {
				r.m.refuse = func(string, string) error { return godbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied"} }
			})
			if err := r.set(1); !errors.Is(err, targets.ErrForbidden) {
				r.Errorf("SetReplicas() without the permission to stop = %v, want ErrForbidden", err)
			}
		})
	}
}

// TestExternalStop checks that after an external stop, an instance that hpad started is restarted,
// at most every ten seconds, and that any other instance is removed from the count.
func TestExternalStop(t *testing.T) {
	run(t, []int{1, 2}, func(r *fixture) {
		r.wantSpec(2)
		r.scale(4)
		before := r.wantSpec(4)
		r.m.systemctl(t, "stop", workers(3)...)
		r.wantSpec(4)
		r.wantActive(1, 2, 3, 4)
		r.wantNotice(UnitsMissing, "", "")

		for range 3 {
			r.m.systemctl(t, "stop", workers(3)...)
			r.wantSpec(4)
			r.wantActive(1, 2, 4)
			pass(backoff.First)
			r.wantSpec(4)
			r.wantActive(1, 2, 3, 4)
		}
		r.wantNotice(UnitsMissing, unitStopped, "worker@3.service")
		pass(backoff.Reset + time.Second)
		r.read()
		r.wantNotice(UnitsMissing, "", "")

		r.m.systemctl(t, "stop", workers(2)...)
		if after := r.wantSpec(3); after.Version == before.Version {
			r.Error("an external stop did not change the version")
		}
		r.wantActive(1, 3, 4)
	})
}

// TestNotStarted checks that a fleet that was not started changes nothing.
func TestNotStarted(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		r.read()
		r.scale(3)
		_ = r.fleet.Close()
		r.m.systemctl(t, "stop", workers(3)...)
		r.fleet = newFleet("vm", r.config, targets.Env{Store: &r.store}, r.m)
		if reading := r.wantSpec(3); reading.StatusReplicas != 2 {
			r.Errorf("status %d replicas, want 2", reading.StatusReplicas)
		}
		r.wantActive(1, 2)
	})
}

// TestReboot checks that hpad starts all instances of the count when the manager starts again, as
// after a reboot.
func TestReboot(t *testing.T) {
	for _, restart := range []bool{false, true} {
		run(t, []int{1, 2}, func(r *fixture) {
			r.read()
			r.scale(3)
			before := r.read()
			r.m.reboots()
			if restart {
				r.open()
			}
			after := r.wantSpec(3)
			r.wantActive(1, 2, 3)
			if !restart && after.Version != before.Version {
				r.Errorf("a boot changed version %q to %q", before.Version, after.Version)
			}
			pass(backoff.First)
			r.m.systemctl(t, "stop", workers(1)...)
			r.wantSpec(3)
			r.wantActive(1, 2, 3) // hpad has started them
		})
	}
}

// TestShutdown checks that instances that stop during a shutdown remain in the count.
func TestShutdown(t *testing.T) {
	run(t, []int{1, 2, 3}, func(r *fixture) {
		r.wantSpec(3)
		r.m.becomes(shutdownTarget, "inactive", "dead")
		r.m.queued(shutdownTarget, "start")
		r.m.systemctl(t, "stop", workers(1, 2)...)
		_, err := r.fleet.Snapshot(t.Context(), []targets.Ref{workerRef})
		if !errors.Is(err, targets.ErrTransient) || targets.Reason(err) != ShuttingDown {
			r.Errorf("Snapshot() = %v, want reason ShuttingDown", err)
		}
		if err := r.set(5); targets.Reason(err) != ShuttingDown {
			r.Errorf("SetReplicas() = %v, want reason ShuttingDown", err)
		}
		r.m.reboots()
		r.wantSpec(3)
		r.wantActive(1, 2, 3)
	})
}

// TestRejectedUnit checks that an error of one instance does not prevent the start or stop of
// others.
func TestRejectedUnit(t *testing.T) {
	refused := func(_, unit string) error {
		if unit == "worker@1.service" {
			return godbus.Error{Name: "org.freedesktop.systemd1.BadUnitSetting", Body: []any{"Unit worker@1.service has a bad unit file setting."}}
		}
		return nil
	}
	run(t, nil, func(r *fixture) {
		r.read()
		r.scale(3)
		r.m.reboots()
		r.m.refuses(refused)
		r.wantSpec(3)
		r.wantActive(2, 3)
		r.wantNotice(UnitsMissing, StartRefused, "worker@1.service should be running but cannot be started: ")
		r.scale(4)
		r.wantActive(2, 3, 4)

		r.m.refuses(nil)
		pass(backoff.Longest)
		r.wantSpec(4)
		r.wantActive(1, 2, 3, 4)
		r.m.refuses(func(call, _ string) error { return map[string]error{"stop": godbus.ErrClosed}[call] })
		if err := r.set(0); !errors.Is(err, targets.ErrUnknownOutcome) {
			r.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
		}
		r.m.refuses(refused)
		r.wantSpec(0)
		r.wantActive(1)
	})
}

// TestReplicas checks that the configured count applies only if there is no stored count and no
// instance.
func TestReplicas(t *testing.T) {
	two, first := int32(2), int32(9101)
	for name, c := range map[string]struct {
		running []int
		want    []int
	}{
		"none":  {nil, []int{9101, 9102}},
		"some":  {[]int{9105}, []int{9105}},
		"below": {[]int{1}, []int{1, 9101, 9102}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.running, func(r *fixture) {
				r.config.Templates = map[string]Template{"worker@.service": {Replicas: &two, FirstIndex: &first, Port: "%i"}}
				r.open()
				r.read()
				r.wantActive(c.want...)
				reading := r.read()
				for i := range reading.Instances {
					location := reading.Locations.At(i)
					port, _ := location.Ports.Find("")
					if want := c.want[len(c.want)-len(reading.Instances)+i]; port != want {
						r.Errorf("port %d of %q, want %d", port, location.Name, want)
					}
				}
				r.scale(0)
				r.wantSpec(0)
				r.open()
				r.wantSpec(0)
			})
		})
	}
}

// TestAllRejected checks that if no instance is running and the manager rejects every start, the
// write fails and the count remains unchanged.
func TestAllRejected(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		r.read()
		r.scale(0)
		r.wantActive()
		before := r.read()
		r.m.refuses(func(call, unit string) error {
			if call == "start" {
				return godbus.Error{Name: "org.freedesktop.systemd1.NoSuchUnit", Body: []any{"Unit database.service not found."}}
			}
			return nil
		})
		err := r.set(5)
		if !errors.Is(err, targets.ErrUnscalable) || targets.Reason(err) != templateInvalid || !strings.Contains(err.Error(), "database.service") {
			r.Errorf("SetReplicas() = %v, want ErrUnscalable with the missing unit", err)
		}
		if after := r.wantSpec(0); after.Version != before.Version {
			r.Errorf("rejected starts changed version %q to %q", before.Version, after.Version)
		}
	})
}

// TestStartedTooOften checks that an instance that reached its start limit is started again as
// soon as the manager allows it.
func TestStartedTooOften(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		r.m.set(func() { r.m.limited["worker@2.service"], r.m.limited["worker@4.service"] = true, true })
		r.read()
		r.scale(4)
		r.read()
		r.wantSpec(4)
		r.wantActive(1, 3)
		r.wantNotice(UnitsFailing, StartLimitHit, "worker@2.service (result: start-limit-hit), worker@4.service")
		r.wantNotice(UnitsFailing, StartLimitHit, "systemctl reset-failed")

		r.m.set(func() { clear(r.m.limited) })
		r.m.systemctl(t, "reset-failed", workers(4)...)
		pass(backoff.First)
		r.read()
		r.wantActive(1, 2, 3, 4)
		r.read()
		r.wantNotice(UnitsFailing, "", "")
	})
}

// TestTemplates checks the reason for each state of a template's file.
func TestTemplates(t *testing.T) {
	for state, want := range map[string]struct {
		class  error
		reason string
	}{
		"masked":         {targets.ErrUnscalable, TemplateMasked},
		"masked-runtime": {targets.ErrUnscalable, TemplateMasked},
		"bad":            {targets.ErrUnscalable, templateInvalid},
		"":               {targets.ErrTargetNotFound, templateNotFound},
		"static":         {nil, ""},
		"enabled":        {nil, ""},
	} {
		run(t, nil, func(r *fixture) {
			r.m.set(func() {
				r.m.unitFiles["worker@.service"] = state
				if state == "" {
					clear(r.m.unitFiles)
				}
			})
			reading := r.read()
			if !errors.Is(reading.Err, want.class) || targets.Reason(reading.Err) != want.reason {
				r.Errorf("%q: %v with reason %q, want %v with %q", state, reading.Err, targets.Reason(reading.Err), want.class, want.reason)
			}
			if err := r.set(1); !errors.Is(err, want.class) || targets.Reason(err) != want.reason {
				r.Errorf("%q: SetReplicas() = %v, want %v", state, err, want.class)
			}
		})
	}
}

// TestFailing checks that failed instances are reported, the most severe failure first.
func TestFailing(t *testing.T) {
	run(t, []int{1, 2, 3, 4}, func(r *fixture) {
		r.wantNotice(UnitsFailing, "", "")
		r.m.becomes("worker@2.service", "activating", "auto-restart", "Result", "exit-code", "NRestarts", uint32(7), "ExecMainCode", int32(1), "ExecMainStatus", int32(3))
		r.wantNotice(UnitsFailing, UnitRestarting, "worker@2.service (result: exit-code, exit status 3, restarts: 7)")
		// A restarted unit may exit again.
		r.m.becomes("worker@2.service", "active", "running", "ExecMainCode", int32(0), "ExecMainStatus", int32(0))
		r.wantNotice(UnitsFailing, UnitRestarting, "worker@2.service (result: exit-code, exit status 3, restarts: 7)")
		pass(restartAge)
		r.wantNotice(UnitsFailing, "", "")
		r.m.becomes("worker@2.service", "activating", "auto-restart", "Result", "core-dump", "ExecMainCode", int32(3), "ExecMainStatus", int32(11))
		r.wantNotice(UnitsFailing, UnitRestarting, "worker@2.service (result: core-dump, signal SIGSEGV, restarts: 7)")
		r.m.becomes("worker@3.service", "failed", "failed", "Result", "signal")
		r.wantNotice(UnitsFailing, UnitFailed, "worker@3.service (result: signal)")
		r.m.becomes("worker@4.service", "failed", "failed", "Result", "exit-code", "NRestarts", uint32(5), "StartLimitBurst", uint32(5), "Restart", "always")
		r.wantNotice(UnitsFailing, StartLimitHit, "worker@4.service")
		reading := r.wantSpec(4)
		if reading.StatusReplicas != 2 {
			r.Errorf("got %d status replicas, want 2, one running and one pending", reading.StatusReplicas)
		}
		phases := map[policy.Phase]int{}
		for _, instance := range reading.Instances {
			phases[instance.Phase]++
		}
		if phases[policy.PhaseFailed] != 2 || phases[policy.PhasePending] != 1 || phases[policy.PhaseRunning] != 1 {
			r.Errorf("phases = %v", phases)
		}
	})
}

// TestVictimFails checks that a victim that fails during its stop is reset.
func TestVictimFails(t *testing.T) {
	run(t, []int{1, 2}, func(r *fixture) {
		r.read()
		r.m.set(func() { r.m.slow = true })
		r.scale(1)
		r.m.becomes("worker@2.service", "failed", "failed", "Result", "timeout")
		reading := r.wantSpec(1)
		if len(reading.Instances) != 1 || len(reading.Notices) != 0 {
			r.Errorf("reading %+v, want one instance and no notice", reading)
		}
		if got := r.m.called("reset"); len(got) != 1 {
			r.Errorf("got calls %q, want one reset", got)
		}
		r.scale(2)
		r.wantActive(1, 2)
	})
}

// TestRejected checks that if a start or stop is rejected, the instances that were started or
// stopped before it keep their new state.
func TestRejected(t *testing.T) {
	denied := func(call string) func(string, string) error {
		return func(called, unit string) error {
			if called == call && unit == "worker@3.service" {
				return godbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied", Body: []any{"Permission denied"}}
			}
			return nil
		}
	}
	run(t, []int{1}, func(r *fixture) {
		r.read()
		r.m.refuses(denied("start"))
		err := r.set(4)
		partial, ok := errors.AsType[*targets.PartialError](err)
		if !ok || partial.Reached != 2 || !errors.Is(err, targets.ErrForbidden) || targets.Reason(err) != notAllowed || !strings.Contains(err.Error(), "polkit") {
			r.Errorf("SetReplicas() = %v, want a PartialError with 2 reached and a hint about polkit", err)
		}
		r.open()
		version := r.wantSpec(2).Version
		if err := r.set(3); !errors.Is(err, targets.ErrForbidden) || errors.As(err, &partial) {
			r.Errorf("SetReplicas() = %v, want ErrForbidden without a PartialError", err)
		}
		if after := r.wantSpec(2); after.Version != version {
			r.Errorf("a rejected start changed version %q to %q", version, after.Version)
		}
	})
	run(t, []int{1, 2, 3, 4}, func(r *fixture) {
		r.read()
		r.m.refuses(denied("stop"))
		partial, ok := errors.AsType[*targets.PartialError](r.set(1))
		if !ok || partial.Reached != 3 {
			r.Errorf("SetReplicas() = %v, want 3 reached", partial)
		}
		r.wantSpec(3)
		r.wantActive(1, 2, 3)
	})
	run(t, []int{1}, func(r *fixture) {
		r.read()
		r.scale(3)
		r.m.refuses(denied("start"))
		r.m.systemctl(t, "stop", workers(3)...)
		r.read()
		r.wantNotice(UnitsMissing, StartRefused, "polkit")
		r.wantActive(1, 2)
	})
}

// TestLost checks that a change whose response was lost is completed once the manager responds
// again, by this fleet or the next.
func TestLost(t *testing.T) {
	lost := func(at string) func(string, string) error {
		return func(_, unit string) error {
			if unit == at {
				return godbus.ErrClosed
			}
			return nil
		}
	}
	for name, again := range map[string]func(r *fixture){"same": func(*fixture) {}, "next": (*fixture).open} {
		t.Run(name, func(t *testing.T) {
			run(t, []int{1}, func(r *fixture) {
				r.read()
				r.m.refuses(lost("worker@3.service"))
				if err := r.set(4); !errors.Is(err, targets.ErrUnknownOutcome) {
					r.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
				}
				r.m.refuses(nil)
				again(r)
				r.wantSpec(4)
				r.wantActive(1, 2, 3, 4)

				r.m.refuses(lost("worker@3.service"))
				if err := r.set(1); !errors.Is(err, targets.ErrUnknownOutcome) {
					r.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
				}
				r.wantActive(1, 2, 3)
				r.m.refuses(nil)
				again(r)
				if reading := r.wantSpec(1); reading.StatusReplicas != 1 {
					r.Errorf("got %d status replicas, want 1", reading.StatusReplicas)
				}
				r.wantActive(1)
			})
		})
	}
}

// TestFullDisk checks that a full disk does not prevent a scale-up, and that the count is stored
// later.
func TestFullDisk(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		r.read()
		r.store.Fail(errors.New("disk full"))
		for range 2 { // the second call changes nothing
			partial, ok := errors.AsType[*targets.PartialError](r.set(3))
			if !ok || partial.Reached != 3 || !strings.Contains(partial.Error(), "disk full") {
				r.Errorf("SetReplicas() = %v, want a PartialError with 3 reached", partial)
			}
		}
		r.wantSpec(3)
		r.store.Fail(nil)
		r.wantSpec(3)
		r.m.reboots()
		r.open()
		r.wantSpec(3)
		r.wantActive(1, 2, 3)
	})
}

// TestUnreadable checks that a stored count that cannot be decoded is an error.
func TestUnreadable(t *testing.T) {
	for _, saved := range []string{"{", `{"format":7}`} {
		run(t, []int{1}, func(r *fixture) {
			if err := r.store.Save(t.Context(), "members/worker@.service", []byte(saved)); err != nil {
				r.Fatal(err)
			}
			if reading := r.read(); !errors.Is(reading.Err, targets.ErrUnscalable) {
				r.Errorf("%s: %v, want ErrUnscalable", saved, reading.Err)
			}
			if err := r.set(2); !errors.Is(err, targets.ErrUnscalable) {
				r.Errorf("%s: SetReplicas() = %v, want ErrUnscalable", saved, err)
			}
			r.wantActive(1)
		})
	}
	run(t, []int{1}, func(r *fixture) {
		r.store.Fail(errors.New("disk unavailable"))
		if reading := r.read(); !errors.Is(reading.Err, targets.ErrTransient) {
			r.Errorf("%v, want ErrTransient", reading.Err)
		}
		r.store.Fail(nil)
		r.wantSpec(1)
	})
}

// TestStaleList checks that a list that was requested before a change ended is ignored.
func TestStaleList(t *testing.T) {
	run(t, []int{1, 2, 3}, func(r *fixture) {
		r.wantSpec(3)
		worker, err := r.fleet.base.Target(workerRef)
		if err != nil {
			r.Fatal(err)
		}
		before := time.Now()
		stale, err := r.fleet.list(t.Context(), map[targets.Ref]*target{workerRef: worker}, false)
		if err != nil {
			r.Fatal(err)
		}
		pass(time.Second)
		r.scale(1)
		r.read() // the victims have ended
		if err := worker.observe(t.Context(), stale.units["worker"], stale.run, before, false); err != nil {
			r.Fatal(err)
		}
		if count := worker.current().count(); count != 1 {
			r.Errorf("got count %d after an outdated list, want 1", count)
		}
		r.wantSpec(1)
		r.wantActive(1)
	})
}

// TestActivation checks that properties are read once for each activation. A restart changes
// the start time and the readiness time.
func TestActivation(t *testing.T) {
	run(t, []int{1, 2}, func(r *fixture) {
		first := r.read()
		r.m.called("")
		r.read()
		if got := r.m.called("properties"); len(got) != 2 {
			r.Errorf("got calls %q, want one per instance for the activation", got)
		}
		pass(time.Minute)
		r.m.restarted("worker@2.service")
		second := r.read()
		if !second.Instances[0].StartedAt.Equal(first.Instances[0].StartedAt) {
			r.Errorf("start of worker@1 changed from %v to %v", first.Instances[0].StartedAt, second.Instances[0].StartedAt)
		}
		for i, change := range []time.Duration{
			second.Instances[1].StartedAt.Sub(first.Instances[1].StartedAt),
			second.Instances[1].ReadinessChanged.Sub(first.Instances[1].ReadinessChanged),
		} {
			if change != time.Minute {
				r.Errorf("time %d of worker@2 changed by %v, want 1m", i, change)
			}
		}
	})
}

// TestRequests checks that a configured request overrides the unit's limit of the same
// resource.
func TestRequests(t *testing.T) {
	half := quantity.Quantity{}
	if err := half.UnmarshalText([]byte("500m")); err != nil {
		t.Fatal(err)
	}
	run(t, []int{1}, func(r *fixture) {
		r.config.Templates = map[string]Template{"worker@.service": {Requests: map[string]quantity.Quantity{"cpu": half}}}
		r.open()
		r.m.becomes("worker@1.service", "active", "running", "CPUQuotaPerSecUSec", uint64(250_000), "MemoryMax", uint64(64<<20))
		got := r.read().Instances[0].Tasks[0]
		want := []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}
		if !slices.Equal(got.Requests, want) || got.Name != "worker" {
			r.Errorf("task %+v, want worker with %+v", got, want)
		}
	})
}

// TestLimits checks that the limits ignore configured requests and MemoryHigh=.
func TestLimits(t *testing.T) {
	cpu, memory := policy.Amount{Resource: "cpu", Milli: 250}, policy.Amount{Resource: "memory", Milli: 64 << 20 * 1000}
	for _, test := range []struct {
		name       string
		properties []any
		want       []policy.Amount
	}{
		{"no limits", []any{"MemoryHigh", uint64(32 << 20)}, nil},
		{"all limits", []any{"CPUQuotaPerSecUSec", uint64(250_000), "MemoryHigh", uint64(32 << 20), "MemoryMax", uint64(64 << 20)}, []policy.Amount{cpu, memory}},
		{"memory", []any{"MemoryMax", uint64(64 << 20)}, []policy.Amount{memory}},
	} {
		run(t, []int{1}, func(r *fixture) {
			r.config.Templates = map[string]Template{"worker@.service": {Requests: map[string]quantity.Quantity{"cpu": {}}}}
			r.open()
			r.m.becomes("worker@1.service", "active", "running", test.properties...)
			if got := r.read().Locations.At(0).Limits; !slices.Equal(got, test.want) {
				r.Errorf("%s: limits %+v, want %+v", test.name, got, test.want)
			}
		})
	}
}

// TestCheck checks that missing permissions and templates are reported.
func TestCheck(t *testing.T) {
	run(t, []int{1}, func(r *fixture) {
		r.config.Templates = map[string]Template{"other@.service": {}}
		r.open()
		r.read()
		found, err := r.fleet.Check(t.Context())
		if err != nil || len(found) != 1 || !strings.Contains(found[0], "unit file other@.service not found") {
			r.Errorf("Check() = %q, %v, want the missing template", found, err)
		}
		r.m.called("")
		if _, err := r.fleet.Check(t.Context()); err != nil {
			r.Errorf("Check() = %v", err)
		}
		if got, want := r.m.called("checkPermission"), []string{"checkPermission worker@1.service"}; !slices.Equal(got, want) {
			r.Errorf("calls %q, want %q", got, want)
		}
		r.wantActive(1)
		r.m.refuses(func(call, unit string) error {
			if call == "checkPermission" && unit == "worker@1.service" {
				return godbus.Error{Name: "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", Body: []any{"Interactive authentication required."}}
			}
			return nil
		})
		found, err = r.fleet.Check(t.Context())
		if len(found) != 1 || !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "start or stop worker@1.service") || !strings.Contains(err.Error(), "49-hpad-systemd.rules") {
			r.Errorf("Check() = %q, %v, want ErrForbidden with the unit and the polkit rule", found, err)
		}
		r.m.refuses(refusal(true, godbus.ErrClosed))
		if _, err := r.fleet.Check(t.Context()); !errors.Is(err, targets.ErrTransient) {
			r.Errorf("Check() = %v, want ErrTransient", err)
		}
	})
}

// TestOneList checks that a round needs a constant number of calls, plus one for each active
// instance.
func TestOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeManager()
		var refs []targets.Ref
		for i := range 50 {
			name := template(fmt.Sprintf("t%d", i))
			m.unitFiles[name.file()] = "static"
			refs = append(refs, ref(name.file()))
			if i%2 == 0 {
				m.systemctl(t, "start", name.unit(1))
			}
		}
		config := &Config{}
		config.SetDefaults()
		f := newFleet("vm", config, targets.Env{}, m)
		defer func() { _ = f.Close() }()
		for range 2 {
			m.called("")
			readings, err := f.Snapshot(t.Context(), refs)
			if err != nil || len(readings) != len(refs) {
				t.Fatalf("%d readings, %v", len(readings), err)
			}
		}
		if lists, files, properties := m.count("list"), m.count("files"), m.count("properties"); lists != 1 || files != 1 || properties != 25 {
			t.Errorf("got %d calls of list, %d of files and %d of properties, want 1, 1 and 25", lists, files, properties)
		}
	})
}
