// Package program runs hpad as a separate process that can be killed.
package program

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/gobuild"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// Program is an hpad process and its files. Its methods must be called from the test's goroutine.
type Program struct {
	// Client is connected to the socket.
	Client *api.Client

	t           testing.TB
	dir         string
	binary      string
	process     *child.Process
	environment []string
	// daemon is the [daemon] table without paths. state is the state directory.
	daemon, state string
	directory     string
}

// build builds the hpad binary once per test process.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hpad-program-")
	if err != nil {
		return "", err
	}
	built = dir
	binary := filepath.Join(dir, "hpad")
	return binary, gobuild.Hpad(context.Background(), binary)
})

// Binary returns the path of the hpad binary. The binary is the only file in its directory.
func Binary(t testing.TB) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// built is the directory of the binary, or empty if build has not run.
var built string

// Clean removes the binary. Call it after all tests.
func Clean() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// Exit calls Clean and exits with the code that the tests returned.
func Exit(code int) {
	Clean()
	os.Exit(code)
}

// Options contains the settings that differ between programs.
type Options struct {
	// Config is the configuration without the [daemon] table. Daemon is the [daemon] table without
	// paths; empty means a sync period of 1 s.
	Config, Daemon string
	// Environment is added to the environment of the test process, for example "PATH=/bin".
	Environment []string
	// State is a directory. If it is empty, the program has its own directory.
	State string
	// Directory is the working directory. If it is empty, the test's directory is used.
	Directory string
}

// New starts hpad with a sync period of 1 s and waits until every autoscaler has been evaluated.
// text is the configuration without the [daemon] table. hpad is killed when the test ends, or by
// the kernel if the test process ends first.
func New(t testing.TB, text string, environment ...string) *Program {
	t.Helper()
	p := Prepare(t, Options{Config: text, Environment: environment})
	p.Start()
	return p
}

// Prepare is like New, but does not start hpad.
func Prepare(t testing.TB, o Options) *Program {
	t.Helper()
	p := &Program{t: t, dir: t.TempDir(), binary: Binary(t), environment: o.Environment, directory: o.Directory, daemon: cmp.Or(o.Daemon, "listen = \"\"\nsync_period = \"1s\"\n")}
	p.state = cmp.Or(o.State, p.path("state"))
	p.Configure(o.Config)
	p.Client = api.NewClient(p.path("sock"))
	t.Cleanup(func() {
		p.Kill()
		if said := p.Said(); t.Failed() {
			t.Logf("last log lines of hpad:\n%s", said[max(0, len(said)-8000):])
		}
	})
	return p
}

// Configure replaces the configuration that the next start or reload uses.
func (p *Program) Configure(text string) {
	p.t.Helper()
	text = fmt.Sprintf("[daemon]\nsocket = %q\nstate_dir = %q\ncpu_initialization_period = \"1s\"\ninitial_readiness_delay = \"1s\"\n%s%s",
		p.path("sock"), p.state, p.daemon, text)
	// The replacement must be atomic because hpad may be reloading.
	err := os.WriteFile(p.path("hpad.toml.new"), []byte(text), 0o600)
	if err == nil {
		err = os.Rename(p.path("hpad.toml.new"), p.path("hpad.toml"))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// Socket returns the path of hpad's socket.
func (p *Program) Socket() string { return p.path("sock") }

// File returns the path of the configuration.
func (p *Program) File() string { return p.path("hpad.toml") }

func (p *Program) path(name string) string { return filepath.Join(p.dir, name) }

// Start starts hpad with the state of earlier runs, and waits until every autoscaler has been
// evaluated.
func (p *Program) Start() {
	p.t.Helper()
	p.Launch()
	p.AwaitPasses()
}

// SetBinary sets the binary for the next start.
func (p *Program) SetBinary(binary string) { p.binary = binary }

// Launch starts hpad and does not wait for evaluations.
func (p *Program) Launch() {
	p.t.Helper()
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(p.binary, "run", "--config", p.path("hpad.toml"))
	command.Stdout, command.Stderr = log, log
	command.Env, command.Dir = append(os.Environ(), p.environment...), p.directory
	if p.process, err = child.Start(command); err != nil {
		p.t.Fatalf("start hpad: %v", err)
	}
}

// AwaitPasses waits until every autoscaler has been evaluated.
func (p *Program) AwaitPasses() {
	p.t.Helper()
	wait.For(p.t, world.Patience, "pass of hpad", func() (string, bool) {
		if p.process.Ended() {
			p.t.Fatalf("hpad exited: %s", p.process.Command.ProcessState)
		}
		views, err := p.Client.Autoscalers(p.t.Context())
		for _, listed := range views {
			view, err := api.Get[api.Autoscaler](p.t.Context(), p.Client, api.Path("autoscalers", listed.Name), nil)
			if err != nil || view.Decision == nil {
				return fmt.Sprintf("%s has %+v, %v", listed.Name, view.Status, err), false
			}
		}
		return fmt.Sprint(err), len(views) > 0
	})
}

// Kill sends SIGKILL and waits until hpad has exited.
func (p *Program) Kill() {
	if p.process != nil {
		p.process.Kill()
	}
}

// Stop sends SIGTERM and checks that hpad exits with status 0.
func (p *Program) Stop() {
	p.t.Helper()
	if err := p.process.Stop(syscall.SIGTERM, world.Patience); err != nil {
		p.t.Errorf("stop hpad: %v", err)
	}
	if state := p.process.Command.ProcessState; !state.Success() {
		p.t.Errorf("exit status of hpad = %s, want 0", state)
	}
}

// Check runs "hpad check --live" and returns its output and exit code.
func (p *Program) Check() (said string, code int) {
	p.t.Helper()
	return p.CLI("check", "--live", p.File())
}

// View returns the current state of an autoscaler.
func (p *Program) View(name string) api.Autoscaler {
	p.t.Helper()
	view, err := api.Get[api.Autoscaler](p.t.Context(), p.Client, api.Path("autoscalers", name), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return view
}

// Await waits until a condition has the given reason and its message contains the given words.
func (p *Program) Await(name string, kind policy.ConditionType, reason, words string) {
	p.t.Helper()
	wait.For(p.t, world.Patience, fmt.Sprintf("%s of %q with reason %s and %q", kind, name, reason, words), func() (string, bool) {
		view, err := api.Get[api.Autoscaler](p.t.Context(), p.Client, api.Path("autoscalers", name), nil)
		for _, c := range view.Status.Conditions {
			if c.Type == kind {
				return fmt.Sprintf("it is %+v", c), c.Reason == reason && strings.Contains(c.Message, words)
			}
		}
		return fmt.Sprintf("conditions are %+v, %v", view.Status.Conditions, err), false
	})
}

// Passes waits until an autoscaler has been evaluated n more times.
func (p *Program) Passes(name string, n int) {
	p.t.Helper()
	seen, last := 0, p.View(name).Evaluation.Last
	wait.For(p.t, world.Patience, fmt.Sprintf("%d passes of %q", n, name), func() (string, bool) {
		if now := p.View(name).Evaluation.Last; now.After(last) {
			last = now
			seen++
		}
		return fmt.Sprintf("%d are complete", seen), seen >= n
	})
}

// Says runs an hpad command and returns its output. The test fails if the command fails.
func (p *Program) Says(arguments ...string) string {
	p.t.Helper()
	output, code := p.CLI(arguments...)
	if code != 0 {
		p.t.Fatalf("hpad %s: exit code %d\n%s", strings.Join(arguments, " "), code, output)
	}
	return output
}

// CLI runs an hpad command and returns its output and exit code.
func (p *Program) CLI(arguments ...string) (output string, code int) {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), p.binary, arguments...)
	command.Env = append(append(os.Environ(), p.environment...), "HPAD_SOCKET="+p.Socket())
	text, err := command.CombinedOutput()
	if command.ProcessState == nil {
		p.t.Fatalf("hpad %s: %v", strings.Join(arguments, " "), err)
	}
	return string(text), command.ProcessState.ExitCode()
}
