package adapters

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// setup is an hpad with a source, whose value is a queue, and a fleet with an adapter.
type setup struct {
	*program.Program
	t     *testing.T
	queue atomic.Int64
	fleet string
}

// autoscaler returns the configuration of an autoscaler "web" for the fleet, with 10 jobs for each instance.
func (s *setup) config(source string) string {
	return s.fleet + fmt.Sprintf(`
[sources.prom]
kind = "prometheus"
url = %q
`, source) + world.Queued("web", `{ fleet = "pool", name = "web" }`, 1, 6)
}

// start starts hpad.
func start(t *testing.T, fleet string) *setup {
	t.Helper()
	s := &setup{t: t, fleet: fleet}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [%s, "%d"]}]}}`, r.FormValue("time"), s.queue.Load())
	}))
	t.Cleanup(server.Close)
	s.queue.Store(20)
	s.Program = program.Prepare(t, program.Options{Config: s.config(server.URL), Daemon: "listen = \"\"\nsync_period = \"2s\"\n"})
	s.Start()
	return s
}

// await waits until the target has a count.
func (s *setup) await(count int32) {
	s.t.Helper()
	wait.For(s.t, world.Patience, fmt.Sprintf("%d replicas", count), func() (string, bool) {
		view := s.View("web")
		return fmt.Sprintf("%+v", view.Status), view.Status.CurrentReplicas == count && view.Status.DesiredReplicas == count
	})
}

// TestDaemon scales real processes with workers.sh by load, with a reload and a restart.
func TestDaemon(t *testing.T) {
	root := t.TempDir()
	pool := filepath.Join(root, "web")
	if err := os.Mkdir(pool, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pool, "run"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range workers(t, pool) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	script, err := filepath.Abs(filepath.Join(fleets, "workers.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pool, "1.pid"), nil, 0o600); err != nil { // a first worker, which always runs
		t.Fatal(err)
	}
	s := start(t, fmt.Sprintf("[fleets.pool]\nkind = \"exec\"\nmode = \"oneshot\"\ncommand = [%q, %q]\n", script, root))
	s.await(2)
	s.queue.Store(50)
	s.await(5)
	if got := len(workers(t, pool)); got != 5 {
		t.Errorf("workers = %d, want 5", got)
	}
	text, err := os.ReadFile(s.File())
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "[fleets.pool]")
	s.Configure("[fleets.pool]\ntimeout = \"9s\"" + after)
	s.Says("reload")
	s.queue.Store(30)
	s.await(3)
	s.Stop()
	s.Start()
	s.await(3)
	s.queue.Store(40)
	s.await(4)
}

// faulty is a setup with faulty.py, whose files are in dir.
type faulty struct {
	*setup
	dir string
}

// startFaulty starts hpad with four instances.
func startFaulty(t *testing.T, timeout string) *faulty {
	t.Helper()
	f := &faulty{dir: t.TempDir()}
	f.write(t, "web", "2")
	script, err := filepath.Abs("testdata/faulty.py")
	if err != nil {
		t.Fatal(err)
	}
	f.setup = start(t, fmt.Sprintf("[fleets.pool]\nkind = \"exec\"\ntimeout = %q\ncommand = [\"python3\", \"-I\", \"-S\", %q, %q]\n", timeout, script, f.dir))
	f.await(2)
	f.queue.Store(40)
	f.await(4)
	return f
}

func (f *faulty) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// keeps checks that the count remains during a fault of the program, and that the commands name the
// cause within two periods.
func (f *faulty) keeps(fault, cause string) {
	f.t.Helper()
	f.queue.Store(60)
	f.write(f.t, "fault", fault)
	f.Passes("web", 2)
	f.names(fault, cause)
	f.queue.Store(10)
	f.Passes("web", 1) // the demand for fewer instances must not have an effect either
	if text, err := os.ReadFile(filepath.Join(f.dir, "web")); err != nil || string(text) != "4" {
		f.t.Errorf("%s: the count is %s, %v, want 4", fault, text, err)
	}
	f.queue.Store(40)
	if err := os.Remove(filepath.Join(f.dir, "fault")); err != nil {
		f.t.Fatal(err)
	}
	f.await(4)
	f.recover(fault)
}

func TestHangingAdapter(t *testing.T) {
	t.Parallel()
	startFaulty(t, "1300ms").keeps("hangs", "no response within the fleet's timeout of 1.3s")
}

func TestFaultyAdapter(t *testing.T) {
	t.Parallel()
	s := startFaulty(t, "20s")
	kill := func() {
		text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
		var pid int
		if _, scanErr := fmt.Sscan(string(text), &pid); err != nil || scanErr != nil {
			t.Fatal(err, scanErr)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, queue := range []int64{60, 40} { // a killed adapter does not delay the next change
		kill()
		s.queue.Store(queue)
		s.await(int32(queue / 10))
	}
	if !strings.Contains(s.Said(), "the program ended: signal: killed") {
		t.Error("the log does not contain the end of the program")
	}
	for _, fault := range []struct{ name, cause string }{
		{"exits", "the program ended: exit status 1; its standard error ends with: the platform is on fire, password=<redacted>"},
		{"garbage", `it begins with "Traceback of something"`},
		{"100 MB", "the response has more than 16777216 bytes"},
		{"loses targets", `the response to "snapshot" lacks this target`},
		{"returns null", "count is missing"},
	} {
		s.keeps(fault.name, fault.cause)
	}
}

// names checks that the commands of users contain the cause of a fault.
func (s *setup) names(fault, cause string) {
	s.t.Helper()
	check, code := s.Check()
	health, _ := s.CLI("health")
	list, _ := s.CLI("get")
	for command, output := range map[string]string{"check --live": check, "health": health, "get": list} {
		if !strings.Contains(output, cause) || code == 0 || strings.Contains(output, "hunter2") {
			s.t.Errorf("%s: hpad %s does not contain %q:\n%s", fault, command, cause, output)
		}
	}
}

// recover waits until the autoscaler is healthy.
func (s *setup) recover(fault string) {
	s.t.Helper()
	wait.For(s.t, world.Patience, "recovery after "+fault, func() (string, bool) {
		output, _ := s.CLI("health")
		return output, !strings.Contains(output, "every pass fails")
	})
}
