package dockertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/wait"
)

const project = `
services:
  web:
    image: worker:1
    init: true
    scale: 2
    environment: { WORKER_BURN: "0.2" }
    healthcheck: { test: [CMD, /worker, check], interval: 1s }
    ports: ["18080-18089:8080"]
`

// TestEngine: an engine runs a Compose project, counts what it uses, publishes its
// ports, survives being stopped and killed, and leaves nothing.
func TestEngine(t *testing.T) {
	for _, version := range []Version{Packaged, Newest} {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			live(t, version)
		})
	}
}

func live(t *testing.T, version Version) {
	var e *Engine
	t.Run("life", func(t *testing.T) {
		e = Start(t, Options{Version: version})
		e.ImportWorker(t, Worker, "1")
		p := e.Project(t, "shop", project)
		p.Compose("up", "--detach", "--wait")
		if names := strings.Fields(e.CLI(t, "ps", "--format", "{{.Names}}")); len(names) != 2 {
			t.Errorf("containers %q, want 2", names)
		}
		answer, err := e.HTTP().Get("http://127.0.0.1:18080/state")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		var state struct{ Hostname, Init string }
		if err := json.NewDecoder(answer.Body).Decode(&state); err != nil || answer.StatusCode != http.StatusOK || state.Init != "docker-init" {
			t.Errorf("the worker answers %s, %+v, %v", answer.Status, state, err)
		}
		used := func() uint64 {
			stats, err := e.Client.ContainerStatsOneShot(t.Context(), "shop-web-1")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stats.Body.Close() }()
			var document container.StatsResponse
			if err := json.NewDecoder(stats.Body).Decode(&document); err != nil {
				t.Fatal(err)
			}
			return document.CPUStats.CPUUsage.TotalUsage
		}
		first := used()
		wait.For(t, 20*time.Second, "use of processors", func() (string, bool) {
			now := used()
			return fmt.Sprintf("%d ns after %d", now, first), now > first+uint64(100*time.Millisecond)
		})
		e.Stop()
		e.StartAgain()
		e.Kill()
		e.StartAgain()
		if version == Newest && e.Client.ClientVersion() != api.DefaultVersion {
			t.Errorf("the newest engine talks %s, the client %s", e.Client.ClientVersion(), api.DefaultVersion)
		}
		if lines := strings.Fields(e.CLI(t, "ps", "--all", "--quiet")); len(lines) != 2 {
			t.Errorf("%d containers are left after restarts, want 2", len(lines))
		}
		p.Compose("up", "--detach", "--wait")
	})
	if e == nil || t.Failed() {
		return // it was skipped, or said why
	}
	if _, err := os.Stat(e.dir); !os.IsNotExist(err) {
		t.Errorf("%s is left", e.dir)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/" + e.cgroup()); err != nil || len(left) > 0 {
		t.Errorf("cgroups %q are left, %v", left, err)
	}
	if err := syscall.Kill(e.process.Command.Process.Pid, 0); err == nil {
		t.Error("dockerd is left")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), e.dir) {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
}

// TestSweep: what a killed test left goes when the next one starts, and what one
// that lives has stays.
func TestSweep(t *testing.T) {
	if os.Geteuid() != 0 {
		installed.Absent(t, "cgroups are root's")
	}
	killed, lock, err := claim()
	if err != nil {
		t.Fatal(err)
	}
	lives, held, err := claim()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	(&Engine{dir: killed}).prefer()
	_ = lock.Close()
	if err := sweep(); err != nil {
		t.Errorf("sweep() = %v", err)
	}
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s of a killed test is left", killed)
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(killed)); err != nil || len(left) > 0 {
		t.Errorf("cgroups %q of a killed test are left, %v", left, err)
	}
	if _, err := os.Stat(lives); err != nil {
		t.Errorf("what a living test has is gone: %v", err)
	}
	if err := os.RemoveAll(lives); err != nil {
		t.Error(err)
	}
}

// TestDisk: a full disk is said to be full, and is not once there is room.
func TestDisk(t *testing.T) {
	e := Start(t, Options{Disk: "64m"})
	e.ImportWorker(t, Worker, "1")
	empty := e.FillDisk(t)
	if out, err := e.Run(t, "", "create", Worker); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a container on a full disk: %+v, %v", out, err)
	}
	empty()
	e.CLI(t, "create", Worker)
}
