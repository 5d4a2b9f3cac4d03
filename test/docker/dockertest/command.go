package dockertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/wait"
)

// Printed is the output of a command.
type Printed struct {
	// Out is standard output. Err is standard error, to which Compose writes its progress.
	Out, Err string
}

// Run runs a docker command in a directory.
func (e *Engine) Run(t testing.TB, dir string, args ...string) (Printed, error) {
	t.Helper()
	// The test's context has already ended when cleanups run.
	command := exec.Command(filepath.Join(e.programs, "bin", "docker"), args...)
	command.Dir = dir
	command.Env = e.Environment()
	return run(command)
}

func run(command *exec.Cmd) (Printed, error) {
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	printed := Printed{Out: out.String(), Err: errs.String()}
	if err != nil {
		name := append([]string{filepath.Base(command.Path)}, command.Args[1:]...)
		return printed, fmt.Errorf("%s: %w\n%s%s", strings.Join(name, " "), err, printed.Out, printed.Err)
	}
	return printed, nil
}

// Environment returns the environment that makes docker commands use the engine.
func (e *Engine) Environment() []string {
	return e.environment("DOCKER_HOST="+e.Host(), "DOCKER_CONFIG="+e.path("config"), "COMPOSE_ANSI=never", "COMPOSE_PROGRESS=plain")
}

// CLI runs a docker command and returns its standard output. The test fails if the command fails.
func (e *Engine) CLI(t testing.TB, args ...string) string {
	t.Helper()
	printed, err := e.Run(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return printed.Out
}

// IsPodman reports whether the engine has the version Podman.
func (e *Engine) IsPodman() bool { return e.podman != "" }

// Podman runs a podman command on an engine of version Podman.
func (e *Engine) Podman(args ...string) (Printed, error) { return e.runPodman("", "podman", args) }

// PodmanCompose runs podman-compose in a directory, on an engine of version Podman.
func (e *Engine) PodmanCompose(dir string, args ...string) (Printed, error) {
	return e.runPodman(dir, "podman-compose", args)
}

// PodmanEnvironment returns the environment that makes podman commands use the engine.
func (e *Engine) PodmanEnvironment() []string {
	return e.environment("CONTAINER_HOST="+e.Host(), "PATH="+filepath.Join(e.podman, "bin")+":"+os.Getenv("PATH"))
}

func (e *Engine) runPodman(dir, program string, args []string) (Printed, error) {
	command := exec.Command(filepath.Join(e.podman, "bin", program), args...)
	command.Dir, command.Env = dir, e.PodmanEnvironment()
	return run(command)
}

// Project is a Compose project on an engine.
type Project struct {
	Name string
	// Dir contains compose.yaml and the files that it refers to.
	Dir string

	e *Engine
	t testing.TB
}

// plugin is the path of the Compose plugin in the directory of an engine.
const plugin = "config/cli-plugins/docker-compose"

// AddCompose installs the Compose plugin for docker commands. If the plugin is missing, the test
// is skipped, or fails if CI=true.
func (e *Engine) AddCompose(t testing.TB) {
	t.Helper()
	program := installed.Path(t, filepath.Join("compose-v*", "docker-compose"), "test/install/compose.sh")
	if err := os.Symlink(program, e.path(plugin)); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

// Project calls AddCompose and creates a Compose project with the given compose.yaml. The project
// and its volumes are removed when the test ends.
func (e *Engine) Project(t testing.TB, name, yaml string) *Project {
	t.Helper()
	e.AddCompose(t)
	p := &Project{Name: name, Dir: t.TempDir(), e: e, t: t}
	p.Write("compose.yaml", yaml)
	t.Cleanup(func() {
		if e.process.Ended() {
			return
		}
		// The network may still have endpoints of removed containers for a moment.
		if seen, down := wait.Until(time.Minute, func() (string, bool) {
			_, err := p.Try("down", "--volumes", "--timeout", "0", "--remove-orphans")
			return fmt.Sprint(err), err == nil
		}); !down {
			if left, err := p.Try("ps", "--all", "--quiet"); err == nil && strings.TrimSpace(left.Out) == "" && strings.Contains(seen, "has active endpoints") {
				t.Logf("the engine keeps an endpoint of a removed container: %s", seen) // Docker 20.10 does so rarely
				return
			}
			t.Errorf("remove project %s: %s", name, seen)
		}
	})
	return p
}

// Write writes a file of the project.
func (p *Project) Write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Try runs "docker compose" for the project. It runs the plugin itself, because the docker command
// takes as much CPU time as most commands of Compose.
func (p *Project) Try(args ...string) (Printed, error) {
	p.t.Helper()
	command := exec.Command(p.e.path(plugin), append([]string{"--project-name", p.Name}, args...)...)
	command.Dir, command.Env = p.Dir, p.e.Environment()
	return run(command)
}

// Compose runs "docker compose" for the project and fails the test if it fails. It retries if hpad
// removed a container that Compose was about to change.
func (p *Project) Compose(args ...string) Printed {
	p.t.Helper()
	var printed Printed
	var err error
	if _, done := wait.Until(time.Minute, func() (string, bool) {
		printed, err = p.Try(args...)
		return "", err == nil || !removed.MatchString(err.Error())
	}); !done || err != nil {
		p.t.Fatal(err)
	}
	return printed
}

// removed matches errors about a container that a different client is removing.
var removed = regexp.MustCompile("is already in progress|marked for removal|No such container")
