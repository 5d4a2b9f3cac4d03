package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/rollout"
	"github.com/hpad/hpad/targets/systemd"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/systemd/systemdtest"
	"github.com/hpad/hpad/test/wait"
)

// fleet returns the configuration of a fleet named "vm".
func fleet(m *systemdtest.Manager, more string) string {
	return fmt.Sprintf("[fleets.vm]\nkind = \"systemd\"\nmanager = \"user\"\naddress = %q\nresource_interval = \"1s\"\ntimeout = \"5s\"\n%s\n", m.Socket, more)
}

// queued returns the configuration of an autoscaler that requires one instance per 10 queued
// items. Its scale-down window is 2 s.
func queued(name string, minimum, maximum int) string {
	return world.Queued(name, fmt.Sprintf(`{ fleet = "vm", template = "%s@.service" }`, name), minimum, maximum)
}

// worker creates a template of workers with additional lines in its [Service] section, and returns
// the workers' control directory.
func worker(t testing.TB, m *systemdtest.Manager, name, kind, more string) (control string) {
	t.Helper()
	control = t.TempDir()
	m.Unit(t, name+"@.service", workerUnit(kind, control, more))
	t.Cleanup(func() {
		_, _ = m.Try("stop", name+"@*") // fails if the manager has stopped
	})
	return control
}

func untouch(t testing.TB, control, what string) {
	t.Helper()
	if err := os.Remove(filepath.Join(control, what)); err != nil {
		t.Fatal(err)
	}
}

// units returns the unit names of the given instances.
func units(name string, indexes ...int) []string {
	names := make([]string, len(indexes))
	for i, index := range indexes {
		names[i] = fmt.Sprintf("%s@%d.service", name, index)
	}
	return names
}

// awaitActive waits until exactly the given instances of a template are active.
func awaitActive(t testing.TB, m *systemdtest.Manager, name string, indexes ...int) {
	t.Helper()
	want := units(name, indexes...)
	wait.For(t, patience, fmt.Sprintf("only %q active", want), func() (string, bool) {
		got := m.Units(t, name+"@*", "active,reloading,activating,deactivating,failed")
		active := m.Units(t, name+"@*", "active")
		return fmt.Sprintf("units %q, of which %q are active", got, active), slices.Equal(got, want) && slices.Equal(active, want)
	})
}

// TestManager runs the cases that can share a manager and a Prometheus server.
func TestManager(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	l := world.NewLoad(t)
	t.Run("cases", func(t *testing.T) { // must end before the cleanup stops the manager
		for name, run := range map[string]func(t *testing.T, m *systemdtest.Manager, l *world.Load){
			"queue":         byQueue,
			"cpu":           byCPU,
			"manual change": manualChange,
			"empty":         empty,
			"failed":        failing,
			"start limit":   startLimit,
			"masked":        masked,
			"alias":         alias,
			"restart":       restart,
			"replacement":   replacement,
			"crash loop":    crashLoop,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, m, l)
			})
		}
	})
}

// byQueue checks that hpad starts the lowest free indexes and keeps the instance that has been
// ready for the longest time. A starting instance must be pending.
func byQueue(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	control := worker(t, m, "queue", "notify", "")
	m.Control(t, "start", "queue@2")
	l.Queue("queue", 25)
	w := world.New(t, fleet(m, "")+l.Source()+queued("queue", 1, 5))
	awaitActive(t, m, "queue", 1, 2, 3)

	touch(t, control, "unready-4")
	l.Queue("queue", 50)
	wait.For(t, patience, "two new instances, one of which is not ready", func() (string, bool) {
		active, activating := m.Units(t, "queue@*", "active"), m.Units(t, "queue@*", "activating")
		return fmt.Sprintf("%q, %q", active, activating), slices.Equal(active, units("queue", 1, 2, 3, 5)) && slices.Equal(activating, units("queue", 4))
	})
	w.Passes("queue", 2)
	if a := w.View("queue"); a.Status.DesiredReplicas != 5 || a.Status.CurrentReplicas != 4 && a.Status.CurrentReplicas != 5 {
		t.Errorf("status with one pending instance = %+v", a.Status)
	}
	untouch(t, control, "unready-4")
	awaitActive(t, m, "queue", 1, 2, 3, 4, 5)

	l.Queue("queue", 5)
	awaitActive(t, m, "queue", 2)
}

// byCPU checks that hpad reads CPU and memory use from the manager or from the control groups.
func byCPU(t *testing.T, m *systemdtest.Manager, _ *world.Load) {
	control := worker(t, m, "burner", "notify", "CPUQuota=20%\nMemoryMax=256M")
	m.Control(t, "start", "burner@1")
	touch(t, control, "burn-1")
	w := world.New(t, fleet(m, "")+`
[autoscalers.burner]
target       = { fleet = "vm", template = "burner@.service" }
min_replicas = 1
max_replicas = 2
[[autoscalers.burner.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 40
[[autoscalers.burner.metrics]]
type                = "Resource"
resource            = "memory"
average_utilization = 400
average_utilization_of = "limit"
[autoscalers.burner.behavior.scale_down]
stabilization_window = "2s"
`)
	awaitActive(t, m, "burner", 1, 2)
	untouch(t, control, "burn-1")
	awaitActive(t, m, "burner", 1)
	w.Await("burner", policy.ScalingActive, "ValidMetricFound", "")
}

// manualChange checks that hpad restarts an instance that was stopped manually, and that it counts
// a manually started instance as a replica.
func manualChange(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "hand", "notify", "")
	m.Control(t, "start", "hand@1")
	l.Queue("hand", 30)
	w := world.New(t, fleet(m, "")+l.Source()+queued("hand", 1, 5))
	awaitActive(t, m, "hand", 1, 2, 3)
	began := m.Property(t, "hand@2", "InvocationID")
	m.Control(t, "stop", "hand@2")
	wait.For(t, patience, "new run of hand@2", func() (string, bool) {
		now := m.Property(t, "hand@2", "InvocationID")
		return now, now != began && m.Property(t, "hand@2", "ActiveState") == "active"
	})
	awaitActive(t, m, "hand", 1, 2, 3)

	m.Control(t, "start", "hand@9")
	w.Await("hand", policy.ForeignWriter, "Rescaled", "")
	awaitActive(t, m, "hand", 1, 2, 3) // hpad removes the most recently ready one
}

// empty checks that the autoscaler of a template without instances is off until an instance is
// started manually.
func empty(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "empty", "notify", "")
	l.Queue("empty", 30)
	w := world.New(t, fleet(m, "")+l.Source()+queued("empty", 1, 5))
	w.Await("empty", policy.ScalingActive, "ScalingDisabled", "")
	w.AwaitOff("empty", true)
	m.Control(t, "start", "empty@1")
	awaitActive(t, m, "empty", 1, 2, 3)
	w.AwaitOff("empty", false)
}

// failing checks that a failed instance is reported, is not counted and is removed first.
func failing(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	control := worker(t, m, "fails", "notify", "Restart=no")
	m.Control(t, "start", "fails@1")
	l.Queue("fails", 30)
	w := world.New(t, fleet(m, "")+l.Source()+queued("fails", 1, 5))
	awaitActive(t, m, "fails", 1, 2, 3)
	touch(t, control, "crash-2")
	w.Await("fails", systemd.UnitsFailing, systemd.UnitFailed, "fails@2.service (result: exit-code, exit status 1)")
	l.Queue("fails", 20)
	awaitActive(t, m, "fails", 1, 3)
	wait.For(t, patience, "cleared condition", func() (string, bool) {
		c := w.Condition("fails", systemd.UnitsFailing)
		return fmt.Sprintf("%+v", c), c.Status != policy.ConditionTrue
	})
}

// startLimit checks that an instance that has reached its start limit is reported, and that hpad
// starts it again after "systemctl reset-failed".
func startLimit(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	control := worker(t, m, "limited", "notify", "Restart=always\nRestartSec=50ms\n[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=1h")
	touch(t, control, "crash-2")
	m.Control(t, "start", "limited@1")
	l.Queue("limited", 20)
	w := world.New(t, fleet(m, "")+l.Source()+queued("limited", 1, 5))
	w.Await("limited", systemd.UnitsFailing, systemd.StartLimitHit, "limited@2.service")
	untouch(t, control, "crash-2")
	m.Control(t, "reset-failed", "limited@2")
	awaitActive(t, m, "limited", 1, 2)
}

// masked checks that hpad does not scale a masked template.
func masked(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "hidden", "notify", "")
	file := m.Property(t, "hidden@1", "FragmentPath")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	m.Control(t, "mask", "hidden@.service")
	l.Queue("hidden", 20)
	w := world.New(t, fleet(m, "[fleets.vm.templates.\"hidden@.service\"]\nreplicas = 1\n")+l.Source()+queued("hidden", 1, 5))
	w.Await("hidden", policy.ScalingActive, systemd.TemplateMasked, "hidden@.service is masked")
	m.Control(t, "unmask", "hidden@.service")
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	m.Control(t, "daemon-reload")
	awaitActive(t, m, "hidden", 1, 2)
}

// TestStartRefused checks that hpad reports instances that the manager cannot load or start, and
// starts them after their unit files have been fixed.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	l := world.NewLoad(t)
	worker(t, m, "spoiled", "notify", "")
	m.Unit(t, "spoiled@2.service", "[Service]\nType=notify\n")
	m.Unit(t, "spoiled@3.service", "[Unit]\nRequires=missing.service\n[Service]\nExecStart=/bin/sleep infinity\n")
	m.Control(t, "start", "spoiled@1")
	l.Queue("spoiled", 40)
	w := world.New(t, fleet(m, "")+l.Source()+queued("spoiled", 4, 4))
	awaitActive(t, m, "spoiled", 1, 4)
	w.Await("spoiled", systemd.UnitsMissing, systemd.StartRefused, "spoiled@2.service, spoiled@3.service should be running but cannot be started: ")
	m.RemoveUnit(t, "spoiled@2.service")
	m.RemoveUnit(t, "spoiled@3.service")
	awaitActive(t, m, "spoiled", 1, 2, 3, 4)
}

// alias checks that hpad rejects an alias of a template.
func alias(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "named", "notify", "")
	m.Alias(t, "alias@.service", "named@.service")
	l.Queue("alias", 50)
	w := world.New(t, fleet(m, "")+l.Source()+queued("alias", 1, 5))
	w.Await("alias", policy.AbleToScale, systemd.TemplateAlias, "alias@.service is an alias")
}

// restart checks that hpad restores the count if an instance was stopped while hpad was down.
func restart(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "lasting", "notify", "")
	m.Control(t, "start", "lasting@1")
	l.Queue("lasting", 30)
	text := fleet(m, "") + l.Source() + queued("lasting", 1, 5)
	w := world.New(t, text)
	awaitActive(t, m, "lasting", 1, 2, 3)
	w.Stop()
	awaitActive(t, m, "lasting", 1, 2, 3)
	m.Control(t, "stop", "lasting@3")
	w.Restart(text)
	awaitActive(t, m, "lasting", 1, 2, 3)
}

// replacement checks that hpad replaces the instances of a changed template after a daemon-reload,
// and that the old instances stay if the new instance does not become ready.
func replacement(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	control := worker(t, m, "changed", "notify", "")
	m.Control(t, "start", "changed@1")
	m.Control(t, "start", "changed@2")
	l.Queue("changed", 20)
	w := world.New(t, fleet(m, "[fleets.vm.templates.\"changed@.service\"]\nrestart_on_change = true\nprogress_deadline = \"10s\"\n")+l.Source()+queued("changed", 2, 5))
	awaitActive(t, m, "changed", 1, 2)
	m.Unit(t, "changed@.service", workerUnit("notify", control, "Nice=1"))
	awaitActive(t, m, "changed", 2, 3)
	w.Await("changed", policy.AbleToScale, "ReadyForNewScale", "")
	touch(t, control, "unready-1")
	m.Unit(t, "changed@.service", workerUnit("notify", control, "Nice=2"))
	w.Await("changed", rollout.ReplacementFailing, rollout.ProgressDeadlineExceeded, "1 of 3 instances of changed@.service use the new definition")
	if active := m.Units(t, "changed@*", "active"); !slices.Equal(active, units("changed", 2, 3)) {
		t.Errorf("active units %q, want the old instances", active)
	}
	untouch(t, control, "unready-1")
	awaitActive(t, m, "changed", 1, 2)
	if err := w.Daemon.Restart(t.Context(), "changed"); err != nil {
		t.Fatal(err)
	}
	awaitActive(t, m, "changed", 2, 3)
}

// crashLoop checks that hpad reports the exit status and the restarts of a new version that exits,
// and the shortage after a scale-up meanwhile.
func crashLoop(t *testing.T, m *systemdtest.Manager, l *world.Load) {
	worker(t, m, "looping", "notify", "")
	m.Control(t, "start", "looping@1")
	l.Queue("looping", 10)
	w := world.New(t, fleet(m, "[fleets.vm.templates.\"looping@.service\"]\nrestart_on_change = true\n")+l.Source()+queued("looping", 1, 5))
	awaitActive(t, m, "looping", 1)
	m.Unit(t, "looping@.service", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c 'exit 3'\nRestart=always\nRestartSec=200ms\n")
	w.Await("looping", systemd.UnitsFailing, systemd.UnitRestarting, "looping@2.service (result: exit-code, exit status 3, restarts: ")
	l.Queue("looping", 30)
	w.Await("looping", rollout.Replacing, rollout.ReplacementInProgress, "only 1 of 3 wanted instances are ready")
}

// TestManagerRestart checks that hpad does not scale while the manager is down. Afterwards, it must
// start all instances again, as after a reboot, including those that an external writer started.
func TestManagerRestart(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	l := world.NewLoad(t)
	worker(t, m, "boot", "notify", "")
	m.Control(t, "start", "boot@1")
	l.Queue("boot", 30)
	w := world.New(t, fleet(m, "")+l.Source()+queued("boot", 1, 5))
	awaitActive(t, m, "boot", 1, 2, 3)
	m.Kill()
	w.Await("boot", policy.AbleToScale, "FailedGetScale", "connect to the user manager")
	m.Restart()
	awaitActive(t, m, "boot", 1, 2, 3)
	w.Await("boot", policy.AbleToScale, "ReadyForNewScale", "")
}

// TestConnection runs "systemctl daemon-reexec", which closes all connections. The next reading
// must succeed, and no goroutine may leak.
func TestConnection(t *testing.T) {
	m := systemdtest.Start(t)
	worker(t, m, "linked", "notify", "")
	m.Control(t, "start", "linked@1", "linked@2")
	var store targettest.Store
	f := open(m, &store, func(c *systemd.Config) { c.Timeout = patience })
	defer func() { _ = f.Close() }()
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	linked := ref("linked@.service")
	read := func() targets.Reading {
		t.Helper()
		readings, err := f.Snapshot(t.Context(), []targets.Ref{linked})
		if err != nil || readings[linked].Err != nil {
			t.Fatalf("Snapshot() = %v, %v", readings[linked].Err, err)
		}
		return readings[linked]
	}
	first := read()
	goroutines := runtime.NumGoroutine()
	for range 5 {
		m.Control(t, "daemon-reexec")
		again := read()
		if again.SpecReplicas != 2 || again.StatusReplicas != 2 || again.Version != first.Version || len(again.Instances) != 2 ||
			!again.Instances[0].StartedAt.Equal(first.Instances[0].StartedAt) {
			t.Errorf("reading after daemon-reexec = %+v, want %+v", again, first)
		}
	}
	wait.For(t, patience, "closed connections", func() (string, bool) {
		now := runtime.NumGoroutine()
		return fmt.Sprintf("%d goroutines, %d before", now, goroutines), now <= goroutines
	})
}

// TestBus checks that a fleet can reach the manager through a D-Bus daemon, even after the D-Bus
// daemon has been restarted.
func TestBus(t *testing.T) {
	m := systemdtest.Start(t)
	address := m.Bus(t)
	worker(t, m, "bused", "notify", "")
	m.Control(t, "start", "bused@1")
	var store targettest.Store
	f := open(m, &store, func(c *systemd.Config) { c.Address, c.Timeout = address, patience })
	defer func() { _ = f.Close() }()
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	bused := ref("bused@.service")
	await := func(n int32) {
		t.Helper()
		wait.For(t, patience, fmt.Sprintf("%d ready instances over the bus", n), func() (string, bool) {
			readings, err := f.Snapshot(t.Context(), []targets.Ref{bused})
			ready := slices.DeleteFunc(slices.Clone(readings[bused].Instances), func(i policy.Instance) bool { return i.Readiness != policy.ReadinessTrue })
			return fmt.Sprintf("%+v, %v", readings[bused], err), err == nil && readings[bused].SpecReplicas == n && len(ready) == int(n)
		})
	}
	await(1)
	if err := f.SetReplicas(t.Context(), bused, 3, "", "more"); err != nil {
		t.Fatal(err)
	}
	await(3)
	m.Control(t, "restart", "dbus.service")
	await(3)
	if err := f.SetReplicas(t.Context(), bused, 1, "", "fewer"); err != nil {
		t.Fatal(err)
	}
	await(1)
	if found, err := f.Check(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("Check() = %q, %v", found, err)
	}
}
