// Package dockertest runs real Docker engines for tests. Each engine has its own data, socket,
// network and processes, which are removed when the test ends.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/wait"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 2 * time.Minute // includes stopping the containers
	endTimeout   = time.Minute
)

// Version selects an engine.
type Version int

const (
	// Packaged is Debian's engine, installed by test/install/docker.sh: API 1.41 on Debian 12.
	Packaged Version = iota
	// Newest is the engine with the client library's version, installed by
	// test/install/dockerd.sh: API 1.51.
	Newest
	// Podman is the service of Debian's Podman, installed by test/install/podman.sh: API 1.41.
	Podman
)

// String returns the name of the version in test names.
func (v Version) String() string {
	return [...]string{Packaged: "packaged", Newest: "newest", Podman: "podman"}[v]
}

// Options configures an engine.
type Options struct {
	Version Version
	// Disk is the size of a file system for the engine's data, in the syntax of mount ("64m"). If
	// it is empty, the data is in the temporary directory.
	Disk string
	// Args are additional arguments of dockerd.
	Args []string
}

// Engine is a Docker engine that runs until its test ends. Its methods are safe for concurrent
// use, except Stop, Kill and StartAgain.
type Engine struct {
	// Client keeps no idle connections, which would look like leaks of the tested code.
	Client *client.Client

	t       testing.TB
	options Options
	// programs is the directory in which test/install/docker.sh installed the programs.
	programs string
	// podman is the directory in which test/install/podman.sh installed Podman, or empty.
	podman  string
	dir     string
	process *child.Process
}

// Start runs an engine and waits until it responds. If the programs are missing or the test does
// not run as root, the test is skipped, or fails if CI=true.
func Start(t testing.TB, options Options) *Engine {
	t.Helper()
	programs := installed.Path(t, "docker", "test/install/docker.sh")
	if os.Geteuid() != 0 {
		installed.Absent(t, "a Docker engine needs root")
	}
	if err := removeLeftovers(); err != nil {
		t.Logf("remove leftovers of earlier tests: %v", err)
	}
	podman := ""
	if options.Version == Podman {
		podman = installed.Path(t, "podman", "test/install/podman.sh")
	}
	// The path of t.TempDir may exceed the maximum length of a socket path.
	dir, lock, err := claim()
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, options: options, programs: programs, podman: podman, dir: dir}
	t.Cleanup(func() {
		e.end()
		_ = lock.Close()
	})
	for _, name := range []string{"data", "config/cli-plugins"} {
		if err := os.MkdirAll(e.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if options.Disk != "" {
		installed.Mount(t, e.Data(), "mode=0700,size="+options.Disk)
	}
	e.Client, err = client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}),
		client.WithHost(e.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	e.start()
	return e
}

// Host returns the value for DOCKER_HOST. StartAgain does not change it.
func (e *Engine) Host() string { return "unix://" + e.path("docker.sock") }

// Data returns the directory of the engine's data.
func (e *Engine) Data() string { return e.path("data") }

func (e *Engine) path(name string) string { return filepath.Join(e.dir, name) }

// cgroup returns the name of the parent cgroup of all containers.
func (e *Engine) cgroup() string { return filepath.Base(e.dir) }

// startScript runs in the engine's namespaces. It mounts /proc and the missing cgroup hierarchies,
// which the engine needs for statistics.
const startScript = `
mount --make-rslave /
mount -t proc proc /proc
for c in perf_event hugetlb net_cls,net_prio; do
	[ ! -d "/sys/fs/cgroup/$c" ] || mountpoint -q "/sys/fs/cgroup/$c" || mount -t cgroup -o "$c" cgroup "/sys/fs/cgroup/$c"
done
exec "$@"
`

// start runs the engine and waits until it responds.
func (e *Engine) start() {
	e.t.Helper()
	e.raisePriority()
	// A reboot would delete these files.
	for _, name := range []string{"exec", "pid", "docker.sock"} {
		if err := os.RemoveAll(e.path(name)); err != nil {
			e.t.Fatal(err)
		}
	}
	log, err := os.OpenFile(e.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	// docker-init reaps orphans, and kills all processes when it exits.
	args := append([]string{"-euc", startScript, "startScript", "docker-init", "--"}, e.daemon()...)
	command := exec.Command("/bin/sh", append(args, e.options.Args...)...)
	command.Stdout, command.Stderr = log, log
	command.Env = e.environment(
		"HPAD_PODMAN="+e.Data(),
		"LD_LIBRARY_PATH="+filepath.Join(e.programs, "lib"),
		"XTABLES_LIBDIR="+filepath.Join(e.programs, "xtables"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if e.process, err = child.StartIn(command, newNetwork); err != nil {
		e.t.Fatalf("start dockerd: %v", err)
	}
	wait.For(e.t, startTimeout, "response of dockerd", func() (string, bool) {
		if e.process.Ended() {
			e.t.Fatalf("dockerd exited: %s\n%s", e.process.Command.ProcessState, e.Log())
		}
		_, err := e.Client.Ping(context.Background())
		return fmt.Sprintf("%v\n%s", err, e.Log()), err == nil
	})
}

// raisePriority raises the CPU priority of the containers if it is permitted. Otherwise a busy
// container would seem idle on a busy host.
func (e *Engine) raisePriority() {
	set := func(hierarchy, knob, most string) {
		parent := filepath.Join(hierarchy, e.cgroup())
		if err := os.MkdirAll(parent, 0o755); err == nil {
			_ = os.WriteFile(filepath.Join(parent, knob), []byte(most), 0o600)
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		set("/sys/fs/cgroup", "cpu.weight", "10000")
	}
	hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*/cpu.shares")
	for _, path := range hierarchies {
		set(filepath.Dir(path), "cpu.shares", "262144")
	}
}

// daemon returns the command that runs the engine.
func (e *Engine) daemon() []string {
	if e.podman != "" {
		return []string{filepath.Join(e.podman, "bin", "podman"), "system", "service", "--time", "0", e.Host()}
	}
	dockerd := filepath.Join(e.programs, "bin", "dockerd")
	if e.options.Version == Newest {
		dockerd = installed.Path(e.t, filepath.Join("dockerd-v*", "dockerd"), "test/install/dockerd.sh")
	}
	command := []string{
		dockerd, "--data-root", e.Data(), "--exec-root", e.path("exec"), "--pidfile", e.path("pid"), "--host", e.Host(),
		"--log-level", "warn", "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/" + e.cgroup(),
	}
	if e.options.Version == Newest {
		command = append(command, "--userland-proxy-path", filepath.Join(filepath.Dir(dockerd), "docker-proxy"))
	}
	return command
}

// environment returns the process environment with the engine's programs first in PATH, and
// without variables that select a different engine.
func (e *Engine) environment(more ...string) []string {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "DOCKER_") || strings.HasPrefix(variable, "COMPOSE_") || strings.HasPrefix(variable, "PATH=")
	})
	return append(append(environment, "PATH="+filepath.Join(e.programs, "bin")+":/usr/sbin:/usr/bin:/sbin:/bin"), more...)
}

// Stop sends SIGTERM to the engine, as systemd does. The engine stops its containers and exits.
func (e *Engine) Stop() {
	e.t.Helper()
	if err := e.process.Stop(syscall.SIGTERM, stopTimeout); err != nil {
		e.t.Errorf("stop dockerd: %v", err)
	}
}

// Kill kills the engine and all containers, as in a power failure.
func (e *Engine) Kill() { e.process.Kill() }

// StartAgain starts a stopped or killed engine with the same data and waits until it responds.
func (e *Engine) StartAgain() {
	e.t.Helper()
	e.start()
}

// end stops the engine and removes its files, mounts and cgroups.
func (e *Engine) end() {
	if e.podman != "" && e.process != nil && !e.process.Ended() {
		_, _ = e.Podman("rm", "--all", "--force", "--time", "0") // also removes their cgroups
	}
	if e.Client != nil {
		_ = e.Client.Close()
	}
	if e.process != nil {
		e.process.Kill()
		// Cgroups are busy until the containers have exited.
		if seen, ok := wait.Until(endTimeout, func() (string, bool) {
			err := removeCgroups(e.cgroup())
			return fmt.Sprint(err), err == nil
		}); !ok {
			e.t.Errorf("remove the cgroups of dockerd: %s", seen)
		}
	}
	if e.t.Failed() {
		e.t.Logf("dockerd log:\n%s", e.Log())
	}
	if e.options.Disk != "" {
		e.unmountDisk()
	}
	if seen, ok := wait.Until(endTimeout, func() (string, bool) {
		err := os.RemoveAll(e.dir) // fails until the last process has exited
		return fmt.Sprint(err), err == nil
	}); !ok {
		e.t.Errorf("remove the files of dockerd: %s", seen)
	}
}

// removeCgroups removes the engine's cgroups in all hierarchies.
func removeCgroups(name string) error {
	var failed error
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		parents, err := filepath.Glob(filepath.Join(pattern, name))
		failed = errors.Join(failed, err)
		for _, parent := range parents {
			failed = errors.Join(failed, removeTree(parent))
		}
	}
	return failed
}

// removeTree removes a cgroup and its children. The files in a cgroup cannot be removed and
// disappear with it.
func removeTree(root string) error {
	var directories []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			directories = append(directories, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, path := range slices.Backward(directories) {
		if remove := syscall.Rmdir(path); remove != nil && !errors.Is(remove, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove %q: %w", path, remove))
		}
	}
	return err
}

// Log returns the end of the engine's log without the runtime's info messages, which the log level
// does not suppress.
func (e *Engine) Log() string {
	const most = 50
	text, err := os.ReadFile(e.path("log"))
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(bytes.Split(bytes.TrimSpace(text), []byte("\n")), func(line []byte) bool {
		return bytes.Contains(line, []byte(" level=info "))
	})
	return string(bytes.Join(lines[max(0, len(lines)-most):], []byte("\n")))
}

// Busy returns the CPU time of dockerd itself, without containers and other child processes.
func (e *Engine) Busy(t testing.TB) time.Duration {
	t.Helper()
	pid := e.process.Command.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for child := range strings.FieldsSeq(string(children)) {
		stat, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		if err != nil || !bytes.Contains(stat, []byte("(dockerd)")) {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		ticks := 0
		for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
		return time.Duration(ticks) * 10 * time.Millisecond
	}
	t.Fatalf("no dockerd among the processes %s", children)
	return 0
}
