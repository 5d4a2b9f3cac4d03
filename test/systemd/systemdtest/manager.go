// Package systemdtest runs real service managers for tests: "systemd --user" with its own mount
// namespace, control group, units, sockets and state.
package systemdtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/wait"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Manager is a service manager that runs until its test ends. Methods that have a testing.TB
// parameter may be called from any goroutine, other methods only from the test's goroutine.
type Manager struct {
	// Socket is the path of the manager's private socket.
	Socket string

	t       testing.TB
	name    string
	dir     string
	process *child.Process
	// systemd and systemctl are the paths of the programs.
	systemd, systemctl string
}

// script installs missing programs.
const script = "test/install/systemd.sh"

// find returns the paths of systemd and systemctl.
func find(t testing.TB) (systemd, systemctl string) {
	t.Helper()
	if os.Getuid() != 0 {
		installed.Absent(t, "starting a service manager needs root")
	}
	systemctl, err := exec.LookPath("systemctl")
	for _, systemd := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if err == nil && exists(systemd) {
			return systemd, systemctl
		}
	}
	installed.Absent(t, "there is no systemd: run "+script)
	return "", ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Start starts a manager that has no units.
func Start(t testing.TB) *Manager {
	t.Helper()
	systemd, systemctl := find(t)
	// Socket paths are limited to about 100 bytes.
	dir, err := os.MkdirTemp("", "hpad-sd")
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{t: t, name: filepath.Base(dir), dir: dir, Socket: filepath.Join(dir, "run/systemd/private"), systemd: systemd, systemctl: systemctl}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("manager log:\n%s", log)
		}
		m.removeGroups()
		_ = os.RemoveAll(dir)
	})
	for _, each := range []string{"run", "home/.config/systemd/user"} {
		if err := os.MkdirAll(filepath.Join(dir, each), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.run()
	t.Cleanup(m.Stop)
	t.Cleanup(m.logFailures)
	return m
}

// logFailures logs the failed units of a failed test.
func (m *Manager) logFailures() {
	if !m.t.Failed() {
		return
	}
	output, err := m.Try("show", "--all", "--state=failed", "--property=Id,Result,ExecMainCode,ExecMainStatus,NRestarts,StatusText", "*")
	m.t.Logf("failed units: %v\n%s", err, output)
}

// startScript starts the manager. systemd does not start unless /run/systemd/system exists. Each
// manager needs its own group in every control group hierarchy. Otherwise, two managers would stop
// each other's units of the same name.
const startScript = `
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
for hierarchy in "" /systemd /unified /memory /pids /cpu /cpuacct; do
	if [ -e "/sys/fs/cgroup$hierarchy/cgroup.procs" ]; then
		mkdir -p "/sys/fs/cgroup$hierarchy/$1"
		echo $$ >"/sys/fs/cgroup$hierarchy/$1/cgroup.procs"
	fi
done
shift
exec "$@"
`

// run starts the manager and waits until it responds.
func (m *Manager) run() {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", startScript, "sh", m.name, m.systemd, "--user")
	command.Env = m.Environment()
	command.Stdout, command.Stderr = log, log
	if m.process, err = child.Start(command); err != nil {
		m.t.Fatalf("start a manager: %v", err)
	}
	wait.For(m.t, startTimeout, "response of the manager", func() (string, bool) {
		if m.process.Ended() {
			return "the manager exited: " + m.process.Command.ProcessState.String(), false
		}
		state, err := m.Try("show", "--value", "--property=SystemState")
		return fmt.Sprintf("%s, %v", state, err), state == "running" || state == "degraded"
	})
}

// Environment returns the environment for programs that connect to the manager.
func (m *Manager) Environment() []string {
	return []string{
		"HOME=" + filepath.Join(m.dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(m.dir, "run"),
		"PATH=" + os.Getenv("PATH"), "SYSTEMD_LOG_TARGET=console",
	}
}

// Stop stops the manager and all its units, like a logout.
func (m *Manager) Stop() {
	m.t.Helper()
	if m.process.Ended() {
		return
	}
	if err := m.process.Stop(syscall.SIGTERM, stopTimeout); err != nil {
		m.t.Errorf("stop the manager: %v", err)
	}
}

// Kill kills the manager.
func (m *Manager) Kill() {
	m.t.Helper()
	m.process.Kill()
}

// Restart starts a stopped or killed manager with its existing state.
func (m *Manager) Restart() {
	m.t.Helper()
	m.removeGroups()
	m.run()
}

// Signal sends a signal to the manager.
func (m *Manager) Signal(signal syscall.Signal) {
	m.t.Helper()
	if err := m.process.Command.Process.Signal(signal); err != nil {
		m.t.Fatal(err)
	}
}

// Unit writes a unit file and reloads the manager.
func (m *Manager) Unit(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(m.unitFile(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Control(t, "daemon-reload")
}

// Alias links a name to a unit file and reloads the manager.
func (m *Manager) Alias(t testing.TB, name, unit string) {
	t.Helper()
	if err := os.Symlink(m.unitFile(unit), m.unitFile(name)); err != nil {
		t.Fatal(err)
	}
	m.Control(t, "daemon-reload")
}

// RemoveUnit removes a unit file and reloads the manager.
func (m *Manager) RemoveUnit(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(m.unitFile(name)); err != nil {
		t.Fatal(err)
	}
	m.Control(t, "daemon-reload")
}

func (m *Manager) unitFile(name string) string {
	return filepath.Join(m.dir, "home/.config/systemd/user", name)
}

// Control runs systemctl and returns its output. The test fails if systemctl fails.
func (m *Manager) Control(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := m.Try(arguments...)
	if err != nil {
		t.Fatalf("systemctl %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
	return output
}

// Try runs systemctl and returns its output.
func (m *Manager) Try(arguments ...string) (string, error) {
	command := exec.Command(m.systemctl, append([]string{"--user", "--no-pager"}, arguments...)...)
	command.Env = m.Environment()
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// Units returns the sorted names of the units that match a pattern and a state.
func (m *Manager) Units(t testing.TB, pattern, state string) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(m.Control(t, "list-units", "--plain", "--no-legend", "--all", "--state="+state, pattern)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	slices.Sort(names)
	return names
}

// Bus runs a D-Bus daemon to which the manager connects, and returns the daemon's address.
func (m *Manager) Bus(t testing.TB) string {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		installed.Absent(t, "there is no dbus-daemon: run "+script)
	}
	configuration := filepath.Join(m.dir, "bus.conf")
	if err := os.WriteFile(configuration, []byte(busConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Unit(t, "dbus.socket", "[Socket]\nListenStream=%t/bus\n")
	m.Unit(t, "dbus.service", "[Unit]\nRequires=dbus.socket\n[Service]\nType=notify\nExecStart="+daemon+
		" --config-file="+configuration+" --address=systemd: --nofork --nopidfile --systemd-activation --syslog-only\n")
	m.Control(t, "start", "dbus.service")
	return "unix:path=" + filepath.Join(m.dir, "run/bus")
}

// busConfiguration permits everything, like the configuration of a user's session bus.
const busConfiguration = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=/tmp</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// Property returns a property of a unit.
func (m *Manager) Property(t testing.TB, unit, name string) string {
	t.Helper()
	return m.Control(t, "show", "--value", "--property="+name, unit)
}

// removeGroups removes the control groups of the manager.
func (m *Manager) removeGroups() {
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + m.name)
	for _, group := range append(groups, "/sys/fs/cgroup/"+m.name) {
		wait.Until(stopTimeout, func() (string, bool) { return "", removeGroup(group) })
	}
}

// removeGroup removes a control group and its subgroups, and reports whether the group no longer
// exists.
func removeGroup(group string) bool {
	var all []string
	_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for _, each := range slices.Backward(all) {
		_ = os.Remove(each)
	}
	return !exists(group)
}
