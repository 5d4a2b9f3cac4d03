package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

var web = targets.Ref{Fleet: "f", Name: "web"}

// build returns a fleet with an adapter in a shell, and a function that returns its log.
func build(t *testing.T, config *Config, script string) (targets.Fleet, func() string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "adapter")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	config.Command = []string{file}
	config.SetDefaults()
	if errs := config.Validate(); errs != nil {
		t.Fatal(errs)
	}
	var log syncWriter
	fleet, err := config.Build("f", targets.Env{Output: func(string, string) io.Writer { return &log }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.(io.Closer).Close() })
	return fleet, log.String
}

type syncWriter struct {
	mu   sync.Mutex
	text []byte
}

func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	return len(p), nil
}

func (w *syncWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// loop is the beginning of an adapter. It sets id and call, and responds to "describe".
const loop = `
while read -r line; do
	id=${line#*\"id\":\"}; id=${id%%\"*}
	call=${line#*\"call\":\"}; call=${call%%\"*}
	case $call in
	describe) printf '{"id": "%s", "protocol": 1, "name": "shell", "calls": []}\n' "$id"; continue ;;
	esac
	`

const good = `
	case $call in
	snapshot) printf '{"id": "%s", "targets": {"web": {"count": 3, "version": "1"}}}\n' "$id" ;;
	scale) printf '{"id": "%s"}\n' "$id" ;;
	esac
done`

// TestFaults checks that each fault of a program is a failed reading that names the cause, that a write
// then has an unknown outcome, and that the program is started again.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct{ fault, want string }{
		"exits":             {"echo 'no such platform' >&2; exit 1;", "the program ended: exit status 1; its standard error ends with: no such platform"},
		"killed":            {"kill -9 $$;", "the program ended: signal: killed"},
		"hangs":             {"sleep 1000;", "no response within the fleet's timeout of 1s"},
		"garbage":           {"echo 'debug: hello';", `invalid response: invalid character 'd' at start of value; it begins with "debug: hello"`},
		"100 MB":            {"head -c 100000000 /dev/zero | tr '\\0' x; echo;", `the response has more than 16777216 bytes; it begins with "xxxx`},
		"another id":        {`echo '{"id": "1", "targets": {}}';`, `the id is "1" instead of`},
		"half a line":       {"printf '{\"id\":'; exit 0;", `the output ended in the middle of a line, which begins with "{\"id\":"`},
		"closed output":     {"exec >&-; sleep 1000;", "it closed its standard output"},
		"unknown field":     {`printf '{"id": "%s", "target": {}}\n' "$id";`, `unknown field "/target"`},
		"output of a child": {"sleep 1000 & exit 2;", "the program ended: exit status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "fixed")
			config := &Config{}
			config.Timeout = time.Second
			if name == "100 MB" {
				config.Timeout = time.Minute
			}
			fleet, log := build(t, config, loop+"if [ ! -e "+mark+" ]; then "+test.fault+" fi\n"+good)
			_, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
			if !errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrUnknownOutcome) || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), `read fleet "f": call "snapshot": `) || len(err.Error()) > 700 {
				t.Errorf("Snapshot() = %v, want %q", err, test.want)
			}
			if !strings.Contains(log(), test.want) {
				t.Errorf("the log lacks %q:\n%s", test.want, log())
			}
			err = fleet.SetReplicas(t.Context(), web, 4, "3/1", "test")
			if !errors.Is(err, targets.ErrTransient) || !errors.Is(err, targets.ErrUnknownOutcome) {
				t.Errorf("SetReplicas() = %v, want an ErrUnknownOutcome", err)
			}
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			awaitCount(t, fleet)
		})
	}
}

// awaitCount waits until the target can be read again.
func awaitCount(t *testing.T, fleet targets.Fleet) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		readings, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
		if err == nil && readings[web].SpecReplicas == 3 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Snapshot() after the end of the fault = %+v, %v", readings, err)
		}
		time.Sleep(10 * time.Millisecond) // between polls
	}
}

// TestPause checks that a program that fails again and again is not started at each call.
func TestPause(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	fleet, _ := build(t, &Config{}, "echo start >> "+starts+"; "+loop+"exit 1; done")
	paused := 0
	for range 20 {
		if _, err := fleet.Snapshot(t.Context(), []targets.Ref{web}); err == nil {
			t.Fatal("Snapshot() succeeded")
		} else if strings.Contains(err.Error(), "the program starts again in ") && strings.Contains(err.Error(), "after: the program ended: exit status 1") {
			paused++
		}
	}
	text, err := os.ReadFile(starts)
	if got := strings.Count(string(text), "start"); err != nil || got > 5 || paused < 15 {
		t.Errorf("starts = %d, errors about the pause = %d, %v; want few starts", got, paused, err)
	}
}

// TestKilledBetweenCalls checks that the next reading starts a program that ended between two calls.
func TestKilledBetweenCalls(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pid")
	fleet, log := build(t, &Config{}, "echo $$ > "+pids+"; "+loop+good)
	awaitCount(t, fleet)
	kill(t, pids)
	awaitCount(t, fleet)
	if !strings.Contains(log(), "the program ended: signal: killed") {
		t.Errorf("the log does not contain the end of the program:\n%s", log())
	}
}

func kill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCanceled checks that a canceled call does not end the program, and that the next call waits for
// the response.
func TestCanceled(t *testing.T) {
	fleet, log := build(t, &Config{}, loop+"sleep 0.3\n"+good)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := fleet.Snapshot(ctx, []targets.Ref{web}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Snapshot() = %v, want context.DeadlineExceeded", err)
	}
	awaitCount(t, fleet)
	if log() != "" {
		t.Errorf("the program ended:\n%s", log())
	}
}

// TestClose checks that Close ends a program and its child processes, even if it ignores SIGTERM.
func TestClose(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	fleet, _ := build(t, &Config{}, "trap '' TERM; sleep 1000 & echo $! > "+child+"; "+loop+good+"\nsleep 1000")
	awaitCount(t, fleet)
	if err := fleet.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		state, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
		if err != nil || strings.Contains(string(state), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child process still runs: %s", state)
		}
		time.Sleep(10 * time.Millisecond) // between polls
	}
	if _, err := fleet.Snapshot(t.Context(), []targets.Ref{web}); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Snapshot() after Close() = %v, want ErrTransient", err)
	}
}

// TestLog checks the limit for the standard error.
func TestLog(t *testing.T) {
	fleet, log := build(t, &Config{}, "seq 1 100000 >&2; head -c 1000000 /dev/zero | tr '\\0' y >&2; "+loop+good)
	awaitCount(t, fleet)
	if lines := strings.Split(strings.TrimSpace(log()), "\n"); len(lines) != maxLines || lines[0] != "1" || len(log()) > maxLines*maxLine {
		t.Errorf("the log has %d lines and %d bytes, and begins with %q", len(lines), len(log()), lines[0])
	}
}

// TestEnvironment checks that a program gets a minimal environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_HPAD", "x")
	file := filepath.Join(t.TempDir(), "env")
	config := &Config{Env: map[string]string{"REGION": "eu"}}
	fleet, _ := build(t, config, "env > "+file+"; "+loop+good)
	awaitCount(t, fleet)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	variables := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, want := range []string{"HPAD_FLEET=f", "HPAD_PROTOCOL=1", "REGION=eu", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(variables, want) {
			t.Errorf("the environment lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "SECRET_OF_HPAD") {
		t.Errorf("the environment contains a variable of hpad:\n%s", text)
	}
}

// TestMissingProgram checks that the error names the program.
func TestMissingProgram(t *testing.T) {
	for _, mode := range []string{"stream", modeOneshot} {
		config := &Config{Mode: mode, Command: []string{"/nonexistent/adapter"}}
		config.SetDefaults()
		fleet, err := config.Build("f", targets.Env{})
		if err != nil {
			t.Fatal(err)
		}
		readings, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
		if err == nil {
			err = readings[web].Err
		}
		if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "/nonexistent/adapter") {
			t.Errorf("mode %s: Snapshot() = %v", mode, err)
		}
		_ = fleet.(io.Closer).Close()
	}
}

func TestValidate(t *testing.T) {
	config := &Config{Command: []string{""}, Mode: "twice", Env: map[string]string{"A=B": ""}}
	config.Timeout = time.Hour
	config.SetDefaults()
	got := fmt.Sprint(config.Validate())
	for _, want := range []string{"mode", "timeout", "command[0]", "env"} {
		if !strings.Contains(got, want) {
			t.Errorf("Validate() = %s, want an error for %s", got, want)
		}
	}
}
