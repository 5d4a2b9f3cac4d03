package systemd

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/systemd/systemdtest"
	"github.com/hpad/hpad/test/wait"
)

// container is a template unit of Podman's Quadlet. Its process is the worker of the Docker tests. The
// container stays in the control group of its unit, because the test's manager does not have all
// hierarchies of control groups version 1.
const container = `
[Container]
Image=localhost/worker:1
ContainerName=worker-%%i
Network=none
Environment=WORKER_BURN=0.01
PodmanArgs=--cgroups=disabled
[Service]
Restart=always
Environment=HPAD_PODMAN=%[1]s
StandardError=append:%[1]s/errors
[Install]
WantedBy=default.target
`

// podman runs podman commands, and stores all data in a directory.
type podman struct{ programs, data string }

func (p *podman) run(t testing.TB, input []byte, args ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(p.programs, "bin", "podman"), args...)
	command.Env = append(os.Environ(), "HPAD_PODMAN="+p.data)
	command.Stdin = bytes.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// worker imports the image of the worker.
func (p *podman) worker(t testing.TB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker")
	if err := gobuild.Build(context.Background(), path, "github.com/hpad/hpad/test/docker/worker"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "worker", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.run(t, archive.Bytes(), "import", "--change", `ENTRYPOINT ["/worker"]`, "-", "localhost/worker:1")
}

// generated returns the unit that Quadlet generates from a template.
func (p *podman) generated(t testing.TB, name, text string) string {
	t.Helper()
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, name+".container"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(p.programs, "libexec", "quadlet"), "--user", "--no-kmsg-log", to)
	command.Env = append(os.Environ(), "QUADLET_UNIT_DIRS="+from)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("quadlet: %v\n%s", err, output)
	}
	unit, err := os.ReadFile(filepath.Join(to, name+".service"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/usr/bin/podman", filepath.Join(p.programs, "bin", "podman"), " --runtime /usr/bin/crun", "").Replace(string(unit))
}

// TestQuadlet checks that hpad scales the containers of a Quadlet template, and measures them.
func TestQuadlet(t *testing.T) {
	t.Parallel()
	p := &podman{installed.Path(t, "podman", "test/install/podman.sh"), t.TempDir()}
	m := systemdtest.Start(t)
	p.worker(t)
	unit := p.generated(t, "worker@", fmt.Sprintf(container, p.data))
	t.Logf("generated unit:\n%s", unit)
	m.Unit(t, "worker@.service", unit)
	t.Cleanup(func() {
		if errors, err := os.ReadFile(filepath.Join(p.data, "errors")); err == nil && t.Failed() {
			t.Logf("errors of the units:\n%s", errors)
		}
		_, _ = m.Try("stop", "worker@*")
		p.run(t, nil, "rm", "--all", "--force", "--time", "0")
		_ = exec.Command("umount", "--lazy", filepath.Join(p.data, "data", "overlay")).Run()
	})
	l := world.NewLoad(t)
	l.Queue("worker", 30)
	w := world.New(t, fleet(m, "[fleets.vm.templates.\"worker@.service\"]\nreplicas = 1\nrequests = { cpu = \"500m\", memory = \"64Mi\" }")+l.Source()+queued("worker", 1, 3)+`
[[autoscalers.worker.metrics]]
type = "Resource"
resource = "memory"
average_utilization = 90
`)
	awaitActive(t, m, "worker", 1, 2, 3)
	names := func() string {
		return strings.Join(strings.Fields(p.run(t, nil, "ps", "--format", "{{.Names}}", "--sort", "names")), " ")
	}
	if got := names(); got != "worker-1 worker-2 worker-3" {
		t.Errorf("containers %q", got)
	}
	wait.For(t, patience, "memory of the containers", func() (string, bool) {
		metrics := w.View("worker").Status.Metrics
		return fmt.Sprintf("%+v", metrics), len(metrics) == 2 && metrics[1].AverageValueMilli != nil && *metrics[1].AverageValueMilli > 1<<20*1000
	})
	l.Queue("worker", 0)
	awaitActive(t, m, "worker", 1)
	wait.For(t, patience, "removal of two containers", func() (string, bool) {
		got := names()
		return got, got == "worker-1"
	})
}
