package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/rollout"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for a condition.
const patience = 20 * time.Second

// eventually waits until a condition returns "".
func eventually(t *testing.T, condition func() string) {
	t.Helper()
	wait.For(t, patience, "expected state", func() (string, bool) {
		missing := condition()
		return missing, missing == ""
	})
}

func start(t *testing.T, f *Fleet) *Fleet {
	t.Helper()
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFleet(t, f) })
	return f
}

func closeFleet(t *testing.T, f *Fleet) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatal(err)
	}
	return readings[ref(name)]
}

func scale(t *testing.T, f *Fleet, name string, n int32) {
	t.Helper()
	if err := f.SetReplicas(t.Context(), ref(name), n, "", "test"); err != nil {
		t.Fatal(err)
	}
}

// settled waits until there are exactly n instances, all ready.
func settled(t *testing.T, f *Fleet, name string, n int) targets.Reading {
	t.Helper()
	var reading targets.Reading
	eventually(t, func() string {
		reading = read(t, f, name)
		ready := 0
		for _, i := range reading.Instances {
			if i.Readiness == policy.ReadinessTrue && !i.Deleting {
				ready++
			}
		}
		if ready != n || len(reading.Instances) != n {
			return fmt.Sprintf("%d of %d instances of %s are ready, want %d: %+v", ready, len(reading.Instances), name, n, reading)
		}
		return ""
	})
	return reading
}

func ids(reading targets.Reading) []string {
	var all []string
	for _, i := range reading.Instances {
		all = append(all, i.ID)
	}
	return all
}

func ports(reading targets.Reading) []int {
	var all []int
	for i := range reading.Instances {
		all = append(all, reading.Locations.At(i).Ports[0].Number)
	}
	slices.Sort(all)
	return all
}

// lines returns the lines of a file in the control directory.
func (w *fixture) lines(name string) []string {
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// TestStopsInOrder checks that the ready instance that became ready last stops first. Among
// instances that became ready at the same time, the highest index stops first.
func TestStopsInOrder(t *testing.T) {
	w := newFixture(t, 5)
	f := start(t, w.open(t))
	before := settled(t, f, "a", 5)
	slices.Reverse(before.Instances)
	slices.SortStableFunc(before.Instances, func(a, b policy.Instance) int { return targets.CompareForRemoval(&a, &b, 0) })
	want := ids(before)[3:]
	scale(t, f, "a", 2)
	after := ids(settled(t, f, "a", 2))
	slices.Sort(want)
	slices.Sort(after)
	if !slices.Equal(after, want) {
		t.Errorf("got remaining instances %v of %v, want %v", after, ids(before), want)
	}
	if got := w.lines("terminated"); len(got) != 3 {
		t.Errorf("got a SIGTERM for indexes %v, want one each for three instances", got)
	}
}

func TestKillsAfterGracePeriod(t *testing.T) {
	w := newFixture(t, 1)
	w.alter("a", func(s *Service) { s.StopGracePeriod = 300 * time.Millisecond })
	w.touch(t, "stubborn", true)
	f := start(t, w.open(t))
	settled(t, f, "a", 1)
	started := time.Now()
	scale(t, f, "a", 0)
	if got := read(t, f, "a"); got.StatusReplicas != 0 || len(got.Instances) != 1 || !got.Instances[0].Deleting {
		t.Errorf("reading after the write = %+v, want one deleting instance", got)
	}
	settled(t, f, "a", 0)
	if took := time.Since(started); took < 300*time.Millisecond {
		t.Errorf("process that ignores SIGTERM ended after %v, before the grace period", took)
	}
	if got := w.lines("terminated"); len(got) != 1 {
		t.Errorf("got %d SIGTERMs, want 1", len(got))
	}
}

// TestDrain checks the order of a graceful removal: the instance is terminating and still serves
// while its endpoint is withdrawn, and SIGTERM follows after the drain delay.
func TestDrain(t *testing.T) {
	w := newFixture(t, 2)
	w.alter("a", func(s *Service) { s.DrainDelay = 200 * time.Millisecond })
	f := w.open(t)
	withdrawn := make(chan targets.Reading, 1)
	f.services["a"].env.Withdraw = func(_ context.Context, r targets.Ref) {
		withdrawn <- read(t, f, r.Name)
	}
	start(t, f)
	settled(t, f, "a", 2)
	scale(t, f, "a", 1)
	during := <-withdrawn
	if got := during.Instances[1]; during.StatusReplicas != 1 || !got.Deleting || got.Phase != policy.PhaseRunning {
		t.Errorf("got %+v at the withdrawal, want one instance that is deleting and running", during)
	}
	if got := w.lines("terminated"); len(got) != 0 {
		t.Errorf("got SIGTERM for %v before the drain delay", got)
	}
	scale(t, f, "a", 2)
	settled(t, f, "a", 2)
	if got := w.lines("terminated"); len(got) != 1 {
		t.Errorf("got SIGTERM for %v, want the removed instance only", got)
	}
}

// TestDrainDelayOnClose checks that Close does not wait for the drain delay, and that an instance
// that crashes during the delay is not restarted.
func TestDrainDelayOnClose(t *testing.T) {
	w := newFixture(t, 2)
	w.alter("a", func(s *Service) { s.DrainDelay = time.Hour })
	f := start(t, w.open(t))
	settled(t, f, "a", 2)
	both := f.services["a"].instances()
	pids := []int{both[0].leader(), both[1].leader()}
	scale(t, f, "a", 1)
	staying := f.services["a"].instances()[0] // the one that became ready first
	if err := syscall.Kill(pids[1-slices.Index(both, staying)], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := settled(t, f, "a", 1); got.Instances[0].ID != staying.id {
		t.Errorf("instance %s was restarted during the drain delay", got.Instances[0].ID)
	}
	scale(t, f, "a", 0)
	closeFleet(t, f)
}

func TestPorts(t *testing.T) {
	w := newFixture(t, 3)
	w.alter("a", func(s *Service) { s.Ports = fmt.Sprintf("%d-%d", basePort, basePort+2) })
	w.touch(t, "slow", true)
	f := start(t, w.open(t))
	want := []int{basePort, basePort + 1, basePort + 2}
	if got := ports(settled(t, f, "a", 3)); !slices.Equal(got, want) {
		t.Errorf("ports = %v, want %v", got, want)
	}
	// The new instances wait for the ports of stopping instances.
	scale(t, f, "a", 0)
	scale(t, f, "a", 3)
	reading := read(t, f, "a")
	for _, i := range reading.Instances {
		if !i.Deleting && i.Phase != policy.PhasePending {
			t.Errorf("instance %s is %v while no port is free, want Pending", i.ID, i.Phase)
		}
	}
	if got := ports(settled(t, f, "a", 3)); !slices.Equal(got, want) {
		t.Errorf("got ports %v after a restart of all instances, want %v", got, want)
	}
	var bounds *targets.OutOfRangeError
	err := f.SetReplicas(t.Context(), ref("a"), 4, "", "test")
	if !errors.As(err, &bounds) || *bounds.Max != 3 {
		t.Errorf("SetReplicas(4) with 3 ports = %v, want an OutOfRangeError with Max 3", err)
	}
}

func TestReadyLate(t *testing.T) {
	for _, probe := range []Readiness{{HTTP: "/ready"}, {TCP: true}} {
		t.Run(fmt.Sprintf("%+v", probe), func(t *testing.T) {
			w := newFixture(t, 1)
			probe.Interval, probe.Timeout, probe.FailureThreshold = 20*time.Millisecond, time.Second, 2
			w.alter("a", func(s *Service) { s.Readiness = probe })
			if probe.HTTP != "" {
				w.touch(t, "unready", true)
			}
			f := start(t, w.open(t))
			if probe.HTTP != "" {
				eventually(t, func() string {
					if !strings.Contains(w.output.String(), "serving") {
						return "the worker is not listening"
					}
					return ""
				})
				i := read(t, f, "a").Instances[0]
				if i.Phase != policy.PhaseRunning || i.Readiness != policy.ReadinessFalse {
					t.Errorf("instance that returns 503 is %v/%v, want Running/False", i.Phase, i.Readiness)
				}
				w.touch(t, "unready", false)
			}
			i := settled(t, f, "a", 1).Instances[0]
			if !i.ReadinessChanged.After(i.StartedAt) {
				t.Errorf("ready since %v, started at %v, want later", i.ReadinessChanged, i.StartedAt)
			}
		})
	}
}

func TestCrashLoop(t *testing.T) {
	w := newFixture(t)
	w.config.Services["c"] = w.service("crash", "", 1)
	w.config.SetDefaults()
	w.alter("c", func(s *Service) {
		s.RestartBackoffMin, s.RestartBackoffMax = 80*time.Millisecond, 1280*time.Millisecond
	})
	f := start(t, w.open(t))
	first := read(t, f, "c").Instances[0]
	eventually(t, func() string {
		if got := w.lines("crashes"); len(got) < 6 {
			return fmt.Sprintf("%d crashes, want 6", len(got))
		}
		return ""
	})
	eventually(t, func() string {
		i := read(t, f, "c").Instances[0]
		if i.Phase != policy.PhasePending || i.Readiness != policy.ReadinessFalse {
			return fmt.Sprintf("a crashed instance is %v/%v, want Pending/False", i.Phase, i.Readiness)
		}
		if i.ID != first.ID || !i.StartedAt.Equal(first.StartedAt) {
			t.Errorf("a crash changed instance %s from %v to %s from %v", first.ID, first.StartedAt, i.ID, i.StartedAt)
		}
		return ""
	})
	output := w.output.String()
	for i, wait := range []string{"80ms", "160ms", "320ms", "640ms", "1.28s"} {
		line := "half a line\nhpad: c-0: process ended: exit status 3; restarting in " + wait + "\n"
		_, rest, found := strings.Cut(output, line)
		if !found {
			t.Fatalf("output lacks %q for crash %d: %s", line, i+1, w.output.String())
		}
		output = rest
	}
	// The notice remains for a while after a restart.
	wantNotice(t, f, "c", processRestarting, "times in a row: c-0: process ended: exit status 3")
	scale(t, f, "c", 3)
	wantNotice(t, f, "c", processRestarting, "3 of 3 processes fail, up to ")
	wantNotice(t, f, "c", processRestarting, ": c-0, c-1, c-2: process ended: exit status 3")
	scale(t, f, "c", 4)
	wantNotice(t, f, "c", processRestarting, ": c-0, c-1, c-2 and 1 more: process ended: exit status 3")
	scale(t, f, "c", 0)
	settled(t, f, "c", 0)
	wantNotice(t, f, "c", "", "")
}

// wantNotice waits for a notice with the given reason and text. If the reason is empty, it waits
// until there is no notice.
func wantNotice(t *testing.T, f *Fleet, service, reason, words string) {
	t.Helper()
	eventually(t, func() string {
		got := read(t, f, service).Notices
		switch {
		case reason == "" && len(got) == 0:
		case reason != "" && len(got) == 1 && got[0].Condition == ProcessesFailing && got[0].Reason == reason && strings.Contains(got[0].Message, words):
		default:
			return fmt.Sprintf("notices are %+v, want %q with %q", got, reason, words)
		}
		return ""
	})
}

// TestNoticeEnds checks that the notice disappears after a run that resets the
// back-off.
func TestNoticeEnds(t *testing.T) {
	w := newFixture(t)
	w.config.Services["c"] = w.service("", "", 1)
	w.config.SetDefaults()
	mended := filepath.Join(w.dir, "mended")
	w.alter("c", func(s *Service) {
		s.Command = []string{"sh", "-c", "test -e " + mended + " && exec sleep 600; exit 4"}
		s.RestartBackoffMin, s.RestartBackoffMax = 50*time.Millisecond, 2*time.Second
	})
	f := start(t, w.open(t))
	wantNotice(t, f, "c", processRestarting, "times in a row: c-0: process ended: exit status 4")
	w.touch(t, "mended", true)
	settled(t, f, "c", 1)
	wantNotice(t, f, "c", processRestarting, "exit status 4")
	wantNotice(t, f, "c", "", "")
}

func TestMissingProgram(t *testing.T) {
	w := newFixture(t, 1)
	missing := w.service("", "", 2)
	missing.Command = []string{"/nonexistent/worker"}
	w.config.Services["m"] = missing
	elsewhere := w.service("serve", "", 0)
	elsewhere.Dir = "/nonexistent"
	w.config.Services["n"] = elsewhere
	below := w.service("", "", 0)
	below.Dir, below.Command = w.dir, []string{"bin/worker"}
	w.config.Services["o"] = below
	w.config.SetDefaults()
	f := w.open(t)
	found, err := f.Check(t.Context())
	want := []string{
		`service "m": exec: "/nonexistent/worker": stat /nonexistent/worker: no such file or directory`,
		`service "n": dir: stat /nonexistent: no such file or directory`,
		`service "o": exec: "` + w.dir + `/bin/worker": stat ` + w.dir + `/bin/worker: no such file or directory`,
	}
	if err != nil || len(found) != 3 || !strings.Contains(found[0], "/nonexistent/worker") || found[1] != want[1] || found[2] != want[2] {
		t.Errorf("Check() = %q, %v, want %q", found, err, want)
	}
	// Before Start.
	wantNotice(t, f, "m", processNotStarted, `service "m" cannot be started: exec: "/nonexistent/worker"`)
	wantNotice(t, f, "n", processNotStarted, `service "n" cannot be started: dir: stat /nonexistent`)
	wantNotice(t, f, "a", "", "")
	start(t, f)
	settled(t, f, "a", 1) // the other service is running
	reading := read(t, f, "m")
	if reading.Err != nil || reading.StatusReplicas != 2 || reading.Instances[0].Phase != policy.PhasePending {
		t.Errorf("reading of a missing program = %+v, want 2 Pending instances", reading)
	}
	scale(t, f, "n", 1)
	wantNotice(t, f, "n", processNotStarted, "n-0: process did not start: dir: stat /nonexistent: no such file or directory")
	eventually(t, func() string {
		if output := w.output.String(); !strings.Contains(output, "hpad: m-0: process did not start: exec: \"/nonexistent/worker\": stat /nonexistent/worker: no such file or directory") {
			return "output does not name the missing program: " + output
		}
		return ""
	})
	wantNotice(t, f, "m", processNotStarted, ": m-0, m-1: process did not start: exec: \"/nonexistent/worker\": stat /nonexistent/worker: no such file or directory")
	wantNotice(t, f, "a", "", "")
}

func TestRestartFromSavedCount(t *testing.T) {
	w := newFixture(t, 1)
	f := start(t, w.open(t))
	settled(t, f, "a", 1)
	scale(t, f, "a", 3)
	version := read(t, f, "a").Version
	// The first fleet is not closed, as if hpad had been killed.
	again := w.open(t)
	if got := read(t, again, "a"); got.SpecReplicas != 3 || got.StatusReplicas != 0 || got.Version != version {
		t.Errorf("before Start: %+v, want the stored count 3 at version %s and no instance", got, version)
	}
	if err := again.SetReplicas(t.Context(), ref("a"), 4, "", "test"); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("SetReplicas() before Start = %v, want ErrTransient", err)
	}
	closeFleet(t, f)
	start(t, again)
	if got := settled(t, again, "a", 3); got.Version != version {
		t.Errorf("version %q after a restart, want %q", got.Version, version)
	}
}

func TestStoreErrors(t *testing.T) {
	w := newFixture(t, 2, 1)
	if err := w.store.Save(t.Context(), "replicas/a", []byte("garbled")); err != nil {
		t.Fatal(err)
	}
	f := start(t, w.open(t))
	settled(t, f, "b", 1) // the other service is running
	if got := read(t, f, "a").Err; !errors.Is(got, targets.ErrUnscalable) || !strings.Contains(got.Error(), `stored count "garbled" of service "a"`) {
		t.Errorf("reading of an invalid stored count has error %v, want ErrUnscalable with the text", got)
	}
	full := errors.New("no space left on device")
	w.store.Fail(full)
	err := f.SetReplicas(t.Context(), ref("b"), 2, "", "test")
	var partial *targets.PartialError
	if !errors.Is(err, full) || !errors.As(err, &partial) || partial.Reached != 2 {
		t.Errorf("SetReplicas() on a full disk = %v, want %v in a PartialError with 2 reached", err, full)
	}
	settled(t, f, "b", 2) // a full disk does not prevent a scale-up
	if err := f.SetReplicas(t.Context(), ref("b"), 2, "", "test"); !errors.Is(err, full) {
		t.Errorf("SetReplicas() with the count that is not stored = %v, want %v", err, full)
	}
	if err := f.SetReplicas(canceled(t), ref("b"), 1, "", "test"); !errors.Is(err, context.Canceled) || errors.As(err, &partial) {
		t.Errorf("SetReplicas() with a canceled context = %v, want only %v", err, context.Canceled)
	}

	// The next reading stores the count.
	w.store.Fail(nil)
	settled(t, f, "b", 2)
	if saved, err := w.store.Load(t.Context(), "replicas/b"); err != nil || !strings.Contains(string(saved), `"replicas":2`) {
		t.Errorf("stored count = %q, %v, want 2", saved, err)
	}
	// A later reading restores a count that could not be loaded.
	if err := w.store.Save(t.Context(), "replicas/a", []byte(`{"format":1,"replicas":3,"version":7}`)); err != nil {
		t.Fatal(err)
	}
	if got := settled(t, f, "a", 3); got.SpecReplicas != 3 || got.Version != "7" {
		t.Errorf("got %+v after the store recovered, want 3 replicas at version 7", got)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestReload(t *testing.T) {
	w := newFixture(t, 2, 1, 1)
	older := w.open(t)
	if err := older.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, older, "a", 2)
	changed := settled(t, older, "b", 1)
	scale(t, older, "a", 3)
	scale(t, older, "b", 2)
	same := settled(t, older, "a", 3)
	pid := older.services["c"].instances()[0].leader()

	next := newFixture(t, 2, 1)
	next.dir, next.config.ResourceInterval = w.dir, w.config.ResourceInterval
	for name := range next.config.Services {
		next.config.Services[name] = w.config.Services[name]
	}
	half, err := quantity.Parse("500m")
	if err != nil {
		t.Fatal(err)
	}
	next.alter("a", func(s *Service) { s.Requests = map[string]quantity.Quantity{"cpu": half} })
	next.alter("b", func(s *Service) { s.Args = []string{"-changed"} })
	newer := next.open(t)
	if !newer.Succeed(older) {
		t.Fatal("Succeed() = false")
	}
	settled(t, older, "a", 3) // the older fleet still works
	start(t, newer)
	if got := read(t, newer, "b"); got.SpecReplicas != 2 {
		t.Errorf("changed service has %d replicas, want the previous 2", got.SpecReplicas)
	}
	closeFleet(t, older)
	after := settled(t, newer, "a", 3)
	if !slices.Equal(ids(after), ids(same)) {
		t.Errorf("instances of an unchanged service changed from %v to %v", ids(same), ids(after))
	}
	if got := after.Instances[0].Tasks[0].Requests; len(got) != 1 || got[0].Milli != 500 {
		t.Errorf("requests after the reload = %+v, want 500 thousandths of cpu", got)
	}
	if got := settled(t, newer, "b", 2); slices.Contains(ids(got), changed.Instances[0].ID) {
		t.Errorf("instance %s of a changed service is still running", changed.Instances[0].ID)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process of a removed service still exists: %v", err)
	}
	if _, err := older.Snapshot(t.Context(), nil); err == nil {
		t.Error("Snapshot() of a closed fleet returned no error")
	}
	scale(t, newer, "a", 1)
	settled(t, newer, "a", 1)
	if value, err := next.store.Load(t.Context(), "replicas/a"); err != nil || !strings.Contains(string(value), `"replicas":1`) {
		t.Errorf("the newer fleet's stored count = %q, %v, want 1", value, err)
	}
}

// reload replaces a fleet after a change of service "a".
func (w *fixture) reload(t *testing.T, older *Fleet, change func(s *Service)) *Fleet {
	t.Helper()
	config := *w.config
	config.Services = maps.Clone(w.config.Services)
	w.config = &config
	w.alter("a", change)
	newer := w.open(t)
	if !newer.Succeed(older) {
		t.Fatal("Succeed() = false")
	}
	start(t, newer)
	closeFleet(t, older)
	return newer
}

// TestReplacement checks that a changed service always has enough ready instances, even after a
// restart of hpad, and that instances that do not become ready stop the replacement.
func TestReplacement(t *testing.T) {
	w := newFixture(t, 3)
	w.survive = true
	f := start(t, w.open(t))
	before := settled(t, f, "a", 3)
	serving := func(f *Fleet) targets.Reading {
		t.Helper()
		reading := read(t, f, "a")
		ready := 0
		for _, i := range reading.Instances {
			if i.Readiness == policy.ReadinessTrue && !i.Deleting {
				ready++
			}
		}
		if ready < 3 || reading.StatusReplicas > 4 {
			t.Fatalf("got %d ready of %d instances during a replacement, want 3 or 4", ready, reading.StatusReplicas)
		}
		return reading
	}
	replaced := func(f *Fleet, old targets.Reading) targets.Reading {
		t.Helper()
		var reading targets.Reading
		eventually(t, func() string {
			reading = serving(f)
			if len(reading.Instances) != 3 || len(reading.Notices) > 0 || slices.ContainsFunc(ids(reading), func(id string) bool { return slices.Contains(ids(old), id) }) {
				return fmt.Sprintf("instances %v, notices %v", ids(reading), reading.Notices)
			}
			return ""
		})
		return reading
	}
	f = w.reload(t, f, func(s *Service) { s.Args = []string{"second"} })
	second := replaced(f, before)
	closeFleet(t, f)
	w.alter("a", func(s *Service) { s.Args = []string{"third"} })
	f = start(t, w.open(t))
	third := replaced(f, second)

	f = w.reload(t, f, func(s *Service) {
		s.Env = maps.Clone(s.Env)
		s.Env["NEVER"] = "1"
	})
	eventually(t, func() string {
		reading := serving(f)
		if len(reading.Notices) != 1 || reading.Notices[0].Reason != rollout.ReplacementInProgress || reading.StatusReplicas != 4 {
			return fmt.Sprintf("notices %+v and %d instances", reading.Notices, reading.StatusReplicas)
		}
		return ""
	})
	f = w.reload(t, f, func(s *Service) { s.ProgressDeadline = time.Second })
	eventually(t, func() string {
		reading := serving(f)
		if len(reading.Notices) != 1 || reading.Notices[0].Reason != rollout.ProgressDeadlineExceeded {
			return fmt.Sprintf("notices %+v", reading.Notices)
		}
		for _, id := range ids(third) {
			if !slices.Contains(ids(reading), id) {
				t.Errorf("instance %s was stopped", id)
			}
		}
		return ""
	})
	f = w.reload(t, f, func(s *Service) {
		s.Env = maps.Clone(s.Env)
		delete(s.Env, "NEVER")
		s.ProgressDeadline, s.Ports = time.Hour, fmt.Sprintf("%d-%d", basePort+5, basePort+7)
	})
	replaced(f, third)
	f = w.reload(t, f, func(s *Service) { s.Args = []string{"fourth"} })
	eventually(t, func() string {
		if got := serving(f).Notices; len(got) != 1 || got[0].Reason != noFreePort {
			return fmt.Sprintf("notices %+v", got)
		}
		return ""
	})
	f = w.reload(t, f, func(s *Service) { s.MaxUnavailable = 1 })
	settled(t, f, "a", 3)
}

func TestAbandonedReload(t *testing.T) {
	w := newFixture(t, 1, 1)
	older := start(t, w.open(t))
	before := settled(t, older, "a", 1)
	newer := w.open(t)
	if !newer.Succeed(older) {
		t.Fatal("Succeed() = false")
	}
	closeFleet(t, newer) // without Start, as if another part of the reload had failed
	if got := settled(t, older, "a", 1); !slices.Equal(ids(got), ids(before)) {
		t.Errorf("an abandoned reload changed instances %v to %v", ids(before), ids(got))
	}
	scale(t, older, "a", 2)
	settled(t, older, "a", 2)
	if newer := New("other", w.config, targets.Env{}); newer.Succeed(older) || newer.Succeed("something else") {
		t.Error("Succeed() of another fleet = true")
	}
}

// runDaemon runs the worker "daemon", kills it with SIGKILL when its children run and are recorded,
// and returns their process IDs.
func (w *fixture) runDaemon(t *testing.T, env ...string) []string {
	t.Helper()
	hpad := exec.Command(os.Args[0])
	hpad.Env = append(os.Environ(), append(env, "WORKER=daemon", "CONTROL="+w.dir)...)
	if err := hpad.Start(); err != nil {
		t.Fatal(err)
	}
	store := dirStore(filepath.Join(w.dir, "store"))
	eventually(t, func() string {
		recorded := 0
		for _, text := range stored(t, store) {
			if strings.Contains(text, `"pid":`) {
				recorded++
			}
		}
		if len(w.lines("children")) != 2 || recorded != 2 {
			return fmt.Sprintf("children %v and %d records, want two of each", w.lines("children"), recorded)
		}
		return ""
	})
	if err := hpad.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = hpad.Wait()
	pids := w.lines("parents")
	t.Cleanup(func() {
		for _, text := range slices.Concat(pids, w.lines("children")) {
			if pid, err := strconv.Atoi(text); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return pids
}

// stored returns the records of instances by key.
func stored(t *testing.T, store targets.Store) map[string]string {
	t.Helper()
	found, err := store.List(t.Context(), recordPrefix)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for key, text := range found {
		texts[key] = string(text)
	}
	return texts
}

// TestKilled checks that when hpad is killed, the kernel kills the processes of instances that must
// not outlive hpad.
func TestKilled(t *testing.T) {
	w := newFixture(t)
	pids := w.runDaemon(t)
	for key, text := range stored(t, dirStore(filepath.Join(w.dir, "store"))) {
		if !strings.Contains(text, `"bound":true`) {
			t.Errorf("record %s is %s, want that its process is bound to hpad", key, text)
		}
	}
	awaitDead(t, pids)
}

// TestSurvival checks which processes a fleet adopts after the death of hpad.
func TestSurvival(t *testing.T) {
	stranger := exec.Command("sleep", "600")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Wait() }()
	defer func() { _ = stranger.Process.Kill() }()
	for _, test := range []struct {
		name string
		// alter changes the record of the first instance.
		alter func(r *record)
		// adopted is the number of adopted instances.
		adopted int
		removed bool
	}{
		{"killed", func(*record) {}, 2, false},
		{"number used again", func(r *record) {
			_ = syscall.Kill(-r.PID, syscall.SIGKILL)
			r.PID = stranger.Process.Pid
		}, 1, false},
		{"different start time", func(r *record) { r.Ticks++ }, 1, false},
		{"booted again", func(r *record) { r.Boot = "other" }, 1, false},
		{"not recorded", func(r *record) { r.PID = 0 }, 1, false},
		{"bound to the killed hpad", func(r *record) { r.Bound = true }, 1, false},
		{"leaving", func(r *record) { r.Leaving = true }, 1, false},
		{"removed service", func(*record) {}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t)
			pids := w.runDaemon(t, "SURVIVE=1")
			store := dirStore(filepath.Join(w.dir, "store"))
			records := map[string]record{}
			for key, text := range stored(t, store) {
				var r record
				if err := json.Unmarshal([]byte(text), &r); err != nil {
					t.Fatal(err)
				}
				records[key] = r
				if !alive(strconv.Itoa(r.PID)) {
					t.Errorf("process %d of %v did not survive", r.PID, pids)
				}
			}
			first := slices.Min(slices.Collect(maps.Keys(records)))
			changed := records[first]
			test.alter(&changed)
			text, err := json.Marshal(changed)
			if err == nil {
				err = store.Save(t.Context(), first, text)
			}
			if err != nil {
				t.Fatal(err)
			}
			config := families()
			if test.removed {
				config.Services = map[string]Service{}
			}
			t.Setenv("CONTROL", w.dir)
			f := start(t, New("local", config, targets.Env{Store: store, OutputDir: filepath.Join(w.dir, "output"), Exiting: func() bool { return false }}))
			if test.removed {
				awaitDead(t, pids)
				return
			}
			adopted := 0
			for _, i := range settled(t, f, "family", 2).Instances {
				if r, ok := records[recordPrefix+"family/"+i.ID]; ok && i.StartedAt.Equal(r.Created) && alive(strconv.Itoa(r.PID)) {
					adopted++
				}
			}
			if adopted != test.adopted {
				t.Errorf("%d instances were adopted, want %d", adopted, test.adopted)
			}
			if test.adopted < 2 {
				awaitDead(t, []string{strconv.Itoa(records[first].PID)})
			}
			if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("an unrelated process was killed: %v", err)
			}
			last := f.services["family"].instances()[0]
			if err := syscall.Kill(last.leader(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			wantNotice(t, f, "family", processRestarting, "process ended")
			scale(t, f, "family", 0)
			settled(t, f, "family", 0)
			awaitDead(t, slices.Concat(w.lines("parents"), w.lines("children")))
			if left := stored(t, store); len(left) != 0 {
				t.Errorf("the store has records %v of ended instances", left)
			}
			if left, _ := filepath.Glob(filepath.Join(w.dir, "output", "family", "*")); len(left) != 0 {
				t.Errorf("files %v of ended instances remain", left)
			}
		})
	}
}

// TestAdoptedLeavingEnds checks that an adopted process that is leaving can end during its drain
// delay, before hpad stops it.
func TestAdoptedLeavingEnds(t *testing.T) {
	w := newFixture(t)
	w.runDaemon(t, "SURVIVE=1")
	store := dirStore(filepath.Join(w.dir, "store"))
	var first record
	for key, text := range stored(t, store) {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		r.Leaving, first = true, r
		changed, err := json.Marshal(r)
		if err == nil {
			err = store.Save(t.Context(), key, changed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config := families()
	family := config.Services["family"]
	family.Replicas = new(int32)
	config.Services["family"] = family
	t.Setenv("CONTROL", w.dir)
	ended := make(chan struct{})
	f := start(t, New("local", config, targets.Env{
		Store: store, Exiting: func() bool { return false }, Withdraw: func(context.Context, targets.Ref) { <-ended },
	}))
	if got := read(t, f, "family"); len(got.Instances) != 2 {
		t.Fatalf("%d processes were adopted, want 2", len(got.Instances))
	}
	if err := syscall.Kill(-first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if left := len(read(t, f, "family").Instances); left != 1 {
			return fmt.Sprintf("%d instances are left, want 1", left)
		}
		return ""
	})
	close(ended)
	settled(t, f, "family", 0)
	awaitDead(t, slices.Concat(w.lines("parents"), w.lines("children")))
}

// TestLastOutput checks that the output of a process that ends while hpad is not running is relayed
// at the next start.
func TestLastOutput(t *testing.T) {
	w := newFixture(t)
	w.survive = true
	s := w.service("", "", 1)
	s.Command = []string{"sh", "-c", `until [ -e "$CONTROL/end" ]; do sleep 0.01; done; echo "last of $HPAD_INSTANCE"`}
	w.config.Services["e"] = s
	w.config.SetDefaults()
	f := start(t, w.open(t))
	id := settled(t, f, "e", 1).Instances[0].ID
	pid := f.services["e"].instances()[0].leader()
	closeFleet(t, f)
	w.touch(t, "end", true)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	start(t, w.open(t))
	eventually(t, func() string {
		if got := w.output.String(); !strings.Contains(got, "last of "+id+"\n") {
			return fmt.Sprintf("output %q lacks the last line of %s", got, id)
		}
		return ""
	})
}

// TestPortsOfAdopted checks that no service takes the port of a process that a later service
// adopts.
func TestPortsOfAdopted(t *testing.T) {
	w := newFixture(t)
	w.survive = true
	w.config.Services["later"] = w.service("serve", "21930-21930", 1)
	w.config.SetDefaults()
	f := start(t, w.open(t))
	settled(t, f, "later", 1)
	closeFleet(t, f)
	w.config.Services["earlier"], w.config.Services["later"] = w.service("serve", "21930-21931", 1), w.service("serve", "21932-21933", 1)
	w.config.SetDefaults()
	f = start(t, w.open(t))
	if got := ports(settled(t, f, "earlier", 1)); !slices.Equal(got, []int{21931}) {
		t.Errorf("ports = %v, want 21931", got)
	}
}

// TestKillsGroup checks that the children of a process end with it.
func TestKillsGroup(t *testing.T) {
	w := newFixture(t)
	w.config.Services["f"] = w.service("family", "", 1)
	w.config.SetDefaults()
	f := start(t, w.open(t))
	eventually(t, func() string {
		if len(w.lines("children")) != 1 {
			return "no child"
		}
		return ""
	})
	scale(t, f, "f", 0)
	settled(t, f, "f", 0)
	awaitDead(t, slices.Concat(w.lines("parents"), w.lines("children")))
}

func awaitDead(t *testing.T, pids []string) {
	t.Helper()
	eventually(t, func() string {
		left := slices.DeleteFunc(slices.Clone(pids), func(pid string) bool { return !alive(pid) })
		if len(left) > 0 {
			return fmt.Sprintf("processes %v are still running", left)
		}
		return ""
	})
}

// alive reports whether a process exists and is not a zombie.
func alive(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[0] != 'Z' && rest[0] != 'X'
}

// childrenOf returns the process IDs of a process's children, including zombies.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// TestNothingLeaks checks that scaling leaves no additional open files and no zombies.
func TestNothingLeaks(t *testing.T) {
	w := newFixture(t, 1)
	f := start(t, w.open(t))
	settled(t, f, "a", 1)
	count := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := count()
	for range 3 {
		scale(t, f, "a", 5)
		settled(t, f, "a", 5)
		scale(t, f, "a", 1)
		settled(t, f, "a", 1)
	}
	eventually(t, func() string {
		if after := count(); after > before {
			return fmt.Sprintf("%d open files, want at most %d", after, before)
		}
		if children := childrenOf(t, os.Getpid()); len(children) != 2 {
			return fmt.Sprintf("got children %v, want one instance and the collector", children)
		}
		return ""
	})
}

func TestEnvironment(t *testing.T) {
	w := newFixture(t)
	s := w.service("", fmt.Sprintf("%d-%d", basePort, basePort+1), 2)
	s.Command = []string{"sh", "-c", `echo "$HPAD_SERVICE $HPAD_INDEX $HPAD_INSTANCE $HPAD_PORT $GREETING ${NOTIFY_SOCKET-none} $(pwd) $0"; exec sleep 600`}
	s.Args = []string{"last"}
	s.Dir = w.dir
	s.Env["GREETING"] = "hello"
	s.Readiness = Readiness{}
	w.config.Services["e"] = s
	w.config.SetDefaults()
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	f := start(t, w.open(t))
	reading := settled(t, f, "e", 2)
	for i, instance := range reading.Instances {
		want := fmt.Sprintf("e %d %s %d hello none %s last\n", i, instance.ID, reading.Locations.At(i).Ports[0].Number, w.dir)
		eventually(t, func() string {
			if got := w.output.String(); !strings.Contains(got, want) {
				return fmt.Sprintf("output %q lacks %q", got, want)
			}
			return ""
		})
	}
}

// TestOutput checks the division of output into lines, and that a large file is emptied.
// TestPortWaitEnds checks that an instance that waits for a port can be stopped.
func TestPortWaitEnds(t *testing.T) {
	n := newLauncher(t.TempDir())
	ignore := func(string) {}
	defer n.release()
	ctx, cancel := context.WithCancel(t.Context())
	if port, _, err := n.takePort(ctx, portRange{7, 7}, ignore); port != 7 || err != nil {
		t.Fatalf("takePort() = %d, %v, want 7", port, err)
	}
	got := make(chan error)
	go func() {
		_, _, err := n.takePort(ctx, portRange{7, 7}, ignore)
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("takePort() = %v, want context.Canceled", err)
	}
}
