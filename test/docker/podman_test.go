package docker

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	adapter "github.com/hpad/hpad/targets/exec"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// startPodman starts Podman.
func startPodman(t *testing.T) *dockertest.Engine {
	return dockertest.Start(t, dockertest.Options{Version: dockertest.Podman})
}

// startCheckedPodman starts Podman, and runs the health checks of its containers. On a host with
// systemd, timers do that.
func startCheckedPodman(t *testing.T) *dockertest.Engine {
	e := startPodman(t)
	command := exec.Command("/bin/sh", "-c", `while sleep 0.5; do
		for id in $(podman ps --quiet); do podman healthcheck run "$id"; done
	done`)
	command.Env = e.PodmanEnvironment()
	checks, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(checks.Kill)
	return e
}

// TestPodmanContract runs the contract suite for Compose services on Podman, which takes minutes.
func TestPodmanContract(t *testing.T) {
	soak.Complete(t)
	if !separate(t) {
		return
	}
	composeContract(t, startCheckedPodman(t), "2s", "interval: 1h")
}

// TestPodman runs hpad with projects of docker compose and of podman-compose on Podman.
func TestPodman(t *testing.T) {
	t.Parallel()
	e := startPodman(t)
	e.ImportWorker(t, "localhost/"+dockertest.Worker, "1")
	const service = `services:
  web:
    image: localhost/worker:1
    cpus: 0.5
    mem_limit: 64m
    environment: { WORKER_BURN: "0.01" }
    labels: { "hpad.enable": "true", "hpad.mode": "recommend", "hpad.max": "5", "hpad.cpu": "50" }
`
	projects := map[string]func(args ...string){}
	docker := e.Project(t, "docked", service)
	projects["docked"] = func(args ...string) { docker.Compose(args...) }
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(service), 0o600); err != nil {
		t.Fatal(err)
	}
	projects["podded"] = func(args ...string) {
		printed, err := e.PodmanCompose(dir, append([]string{"--project-name", "podded"}, args...)...)
		if t.Logf("podman-compose: %s%s", printed.Out, printed.Err); err != nil { // it also exits with 0 after errors
			t.Fatal(err)
		}
	}
	for _, up := range projects {
		up("up", "--detach")
	}
	w := world.New(t, fmt.Sprintf("[fleets.shop]\nkind = \"compose\"\nhost = %q\nresource_interval = \"1s\"\ndiscover = true\n", e.Host()))
	for project := range projects {
		name := "shop/" + project + "/web"
		wait.For(t, patience, "samples of "+project, func() (string, bool) {
			if _, exists := w.Autoscaler(name); !exists {
				return "it is not discovered", false
			}
			metrics := w.View(name).Status.Metrics
			return fmt.Sprintf("%+v", metrics), len(metrics) == 1 && metrics[0].AverageUtilization != nil
		})
		scaleTo(t, w, name, 3)
		wait.For(t, patience, "ready replicas of "+project, func() (string, bool) {
			list, err := w.InstancesOf(t.Context(), name)
			ready := slices.DeleteFunc(list.Instances, func(i api.Instance) bool { return i.Readiness != "True" })
			return fmt.Sprintf("%+v, %v", list, err), err == nil && len(ready) == 3
		})
		sameSettings(t, e, project)
		scaleTo(t, w, name, 1)
		wait.For(t, patience, "removal of two replicas of "+project, func() (string, bool) {
			left, err := e.Podman("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+project)
			return fmt.Sprint(left.Out, err), err == nil && len(strings.Fields(left.Out)) == 1
		})
	}
}

// scaleTo sets a count like an operator, who repeats a request with an unknown outcome.
func scaleTo(t *testing.T, w *world.World, name string, n int32) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("count %d of %s", n, name), func() (string, bool) {
		err := w.ScaleTo(t.Context(), name, n, false, "alice")
		if err != nil && !errors.Is(err, api.ErrUnknownOutcome) && !errors.Is(err, api.ErrRefused) { // a host under load has no reading
			t.Fatal(err)
		}
		return fmt.Sprint(err), err == nil
	})
}

// sameSettings checks that the replicas that hpad created have the networks of the first one, and
// their own host names.
func sameSettings(t *testing.T, e *dockertest.Engine, project string) {
	t.Helper()
	first := ""
	listed, err := e.Podman("ps", "--quiet", "--filter", "label=com.docker.compose.project="+project)
	if err != nil {
		t.Fatal(err)
	}
	for id := range strings.FieldsSeq(listed.Out) {
		inspected, err := e.Client.ContainerInspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, variable := range inspected.Config.Env {
			if name, found := strings.CutPrefix(variable, "HOSTNAME="); found && name != inspected.Config.Hostname {
				t.Errorf("container %s has the variable %s and the host name %s", inspected.Name, variable, inspected.Config.Hostname)
			}
		}
		networks := strings.Join(slices.Sorted(maps.Keys(inspected.NetworkSettings.Networks)), ", ")
		if first == "" {
			first = networks
		}
		if networks != first || networks == "" {
			t.Errorf("container %s has the networks %q, want %q", inspected.Name, networks, first)
		}
	}
}

// TestPodmanScript runs the adapter configs/fleets/podman.sh: scaling, failed containers, conflicts, the
// removal of a container that stops slowly, and the start of a container that was only created.
func TestPodmanScript(t *testing.T) {
	t.Parallel()
	e := startCheckedPodman(t)
	e.ImportWorker(t, "localhost/"+dockertest.Worker, "1")
	pools := t.TempDir()
	const arguments = "# one argument per line\n--stop-timeout=30\n--env=WORKER_STOP_AFTER=2s\n--health-cmd=[\"/worker\", \"check\"]\nlocalhost/worker:1\n"
	if err := os.WriteFile(filepath.Join(pools, "mail-out"), []byte(arguments), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../configs/fleets/podman.sh")
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"CONTAINER_HOST": e.Host()}
	for _, variable := range e.PodmanEnvironment() {
		if path, found := strings.CutPrefix(variable, "PATH="); found {
			environment["PATH"] = path
		}
	}
	config := &adapter.Config{Command: []string{script, pools}, Mode: "oneshot", Env: environment}
	config.SetDefaults()
	config.Timeout = patience
	fleet, err := config.Build("containers", targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	// "podman run" of a killed adapter leaves such a container.
	if err := os.WriteFile(filepath.Join(pools, "late"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Podman("create", "--name", "late-1", "--label", "hpad.pool=late", "localhost/worker:1"); err != nil {
		t.Fatal(err)
	}
	pool, late := targets.Ref{Fleet: "containers", Name: "mail-out"}, targets.Ref{Fleet: "containers", Name: "late"}
	await := func(count, ready, all int) targets.Reading {
		t.Helper()
		var got targets.Reading
		wait.For(t, patience, fmt.Sprintf("%d containers, %d ready, %d in total", count, ready, all), func() (string, bool) {
			readings, err := fleet.Snapshot(t.Context(), []targets.Ref{pool})
			got = readings[pool]
			prepared := slices.DeleteFunc(slices.Clone(got.Instances), func(i policy.Instance) bool { return i.Readiness != policy.ReadinessTrue || i.Deleting })
			return fmt.Sprintf("%+v, %v", got, err), err == nil && got.Err == nil && int(got.SpecReplicas) == count && len(prepared) == ready && len(got.Instances) == all
		})
		return got
	}
	scale := func(n int32, version string, want error) {
		t.Helper()
		if err := fleet.SetReplicas(t.Context(), pool, n, version, "test"); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("SetReplicas(%d) = %v, want %v", n, err, want)
		}
	}
	none := await(0, 0, 0)
	scale(3, none.Version, nil)
	three := await(3, 3, 3)
	if at := three.Locations.At(0); !strings.HasPrefix(at.Name, "mail-out-") || len(at.Addresses) != 1 || three.Instances[0].StartedAt.IsZero() {
		t.Errorf("the first instance is %+v at %+v", three.Instances[0], at)
	}
	scale(4, none.Version, targets.ErrConflict)
	if _, err := e.Podman("kill", "mail-out-1"); err != nil {
		t.Fatal(err)
	}
	scale(2, await(3, 2, 3).Version, nil) // removes the failed container
	two := await(2, 2, 2)
	scale(1, two.Version, nil)
	if left := await(1, 1, 2); left.Version == two.Version { // the other one needs 2 seconds to stop
		t.Errorf("the version %s has not changed", left.Version)
	}
	scale(2, await(1, 1, 1).Version, nil)
	names, err := e.Podman("ps", "--format", "{{.Names}}", "--sort", "names")
	if got := strings.Fields(names.Out); err != nil || !slices.Equal(got, []string{"mail-out-1", "mail-out-2"}) {
		t.Errorf("containers %q, %v, want mail-out-1 and mail-out-2", got, err)
	}
	wait.For(t, patience, "start of the abandoned container", func() (string, bool) {
		readings, err := fleet.Snapshot(t.Context(), []targets.Ref{late})
		got := readings[late].Instances
		return fmt.Sprintf("%+v, %v", readings, err), len(got) == 1 && got[0].Readiness == policy.ReadinessTrue
	})
	readings, err := fleet.Snapshot(t.Context(), []targets.Ref{{Fleet: "containers", Name: "nobody"}})
	for _, reading := range readings {
		if !errors.Is(reading.Err, targets.ErrTargetNotFound) {
			t.Errorf("Snapshot(nobody) = %+v, %v", reading, err)
		}
	}
}
