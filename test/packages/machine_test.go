package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/wait"
)

// machine is a container with a minimal Debian, in which systemd is the first process.
type machine struct {
	t      testing.TB
	engine *dockertest.Engine
}

const machineName = "machine"

// boot starts a machine in which the directory shared is mounted at /mnt. The machine uses the network
// of its Docker engine.
func boot(t testing.TB, shared string) *machine {
	t.Helper()
	root := installed.Path(t, "systemd-container-*/root.tar", "test/install/systemd-container.sh")
	m := &machine{t: t, engine: dockertest.Start(t, dockertest.Options{})}
	m.engine.CLI(t, "import", "--change", `CMD ["/sbin/init"]`, root, "machine:1")
	m.engine.CLI(t, "run", "--detach", "--name", machineName, "--hostname", machineName, "--network", "host", "--stop-signal", "SIGRTMIN+3", "--cgroupns", "host",
		// Services need these for namespaces and seccomp filters.
		"--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
		"--volume", shared+":/mnt:ro", "machine:1")
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := m.try("systemctl --failed --no-pager; journalctl --no-pager --lines 200")
			t.Logf("log of the machine:\n%s", said)
		}
	})
	m.await(2*time.Minute, "running", "systemctl is-system-running")
	// Outside of containers, systemd does this at boot. Credentials need the mount propagation.
	m.run("mount --make-rshared /")
	return m
}

// try runs a script and returns its output.
func (m *machine) try(script string) (string, error) {
	m.t.Helper()
	printed, err := m.engine.Run(m.t, "", "exec", machineName, "sh", "-euc", script)
	return strings.TrimSpace(printed.Out + printed.Err), err
}

// run runs a script and returns its output. The test fails if the script fails.
func (m *machine) run(script string) string {
	m.t.Helper()
	said, err := m.try(script)
	if err != nil {
		m.t.Fatal(err)
	}
	return said
}

// wantOutput runs a script and compares its output.
func (m *machine) wantOutput(want, script string) {
	m.t.Helper()
	if said, err := m.try(script); said != want {
		m.t.Errorf("%s\ngot %q, %v; want %q", script, said, err, want)
	}
}

// await waits until the output of a script equals want.
func (m *machine) await(limit time.Duration, want, script string) {
	m.t.Helper()
	wait.For(m.t, limit, fmt.Sprintf("%q of %s", want, script), func() (string, bool) {
		said, err := m.try(script)
		return fmt.Sprintf("%s, %v", said, err), said == want
	})
}

// write writes a file to the machine.
func (m *machine) write(path, text string) {
	m.t.Helper()
	m.run(fmt.Sprintf("mkdir -p %q; cat >%q <<'END'\n%s\nEND\n", filepath.Dir(path), path, strings.TrimSpace(text)))
}

// share returns a directory that contains packages and the exporter.
func share(t testing.TB, packages ...string) string {
	t.Helper()
	directory := t.TempDir()
	for i, file := range packages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, fmt.Sprintf("%d.deb", i)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := gobuild.Build(t.Context(), filepath.Join(directory, "load"), "./load"); err != nil {
		t.Fatal(err)
	}
	return directory
}
