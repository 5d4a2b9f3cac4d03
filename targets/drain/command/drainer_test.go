package command_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/drain/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell returns a drainer that runs a script.
func shell(t *testing.T, script string, timeout time.Duration) *command.Drainer {
	t.Helper()
	config := command.Config{Command: []string{"/bin/sh", "-c", script}, Timeout: timeout}
	config.SetDefaults()
	if mistakes := config.Validate(); mistakes != nil {
		t.Fatal(mistakes)
	}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	return command.New(config)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/private")
	file := filepath.Join(t.TempDir(), "said")
	d := shell(t, `env | grep -E '^(HPAD_|NOTIFY_SOCKET)' | grep -v ^HPAD_TEST_ | sort >> "`+file+`"; echo >> "`+file+`"`, 0)
	instance := drain.Instance{
		Target: targets.Ref{Fleet: "cloud", Name: "web"}, ID: "i-1", Name: "web-1", Node: "host", Addresses: []string{"10.0.0.1", "fe80::1"},
		Labels: map[string]string{"team": "shop"}, Deadline: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
	}
	for _, call := range []func(context.Context, drain.Instance) error{d.Begin, d.Undo, d.Finish} {
		if err := call(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := d.Drained(t.Context(), drain.Instance{ID: "i-2"}); err != nil || !done {
		t.Errorf("Drained() = %v, %v, want false, nil", done, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const rest = `HPAD_ADDRESSES=10.0.0.1 fe80::1
HPAD_DEADLINE=2026-01-31T15:04:05Z
HPAD_INSTANCE=i-1
HPAD_LABELS={"team":"shop"}
HPAD_NAME=web-1
HPAD_NODE=host
HPAD_TARGET=cloud/web
`
	runs := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if len(runs) != 4 {
		t.Fatalf("runs = %d, want 4:\n%s", len(runs), text)
	}
	for i, action := range []string{"begin", "undo", "finish"} {
		if want := strings.Replace(rest, "HPAD_ADDRESSES", "HPAD_ACTION="+action+"\nHPAD_ADDRESSES", 1); !sameLines(runs[i], want) {
			t.Errorf("environment of %s =\n%s\nwant\n%s", action, runs[i], want)
		}
	}
	for _, line := range []string{"HPAD_ACTION=drained", "HPAD_NAME=i-2", "HPAD_LABELS={}", "HPAD_ADDRESSES="} {
		if !strings.Contains(runs[3]+"\n", line+"\n") {
			t.Errorf("environment of drained =\n%s\nwant %s", runs[3], line)
		}
	}
}

func sameLines(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

func TestExitCodes(t *testing.T) {
	instance := drain.Instance{ID: "i-1"}
	for _, c := range []struct {
		script string
		done   bool
		err    string
	}{
		{"exit 0", true, ""},
		{"exit 75", false, ""},
		{"echo 'no such   host' >&2; exit 1", false, "exit status 1: no such host"},
		{"head -c 100000 /dev/zero | tr '\\0' x; echo END; exit 3", false, "xxxEND"},
		{"kill -9 $$", false, "signal: killed"},
	} {
		done, err := shell(t, c.script, 0).Drained(t.Context(), instance)
		if done != c.done || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || len(err.Error()) > 500) {
			t.Errorf("%s: %v, %v, want %v, %q", c.script, done, err, c.done, c.err)
		}
	}
	if err := shell(t, "exit 75", 0).Begin(t.Context(), instance); err == nil {
		t.Error("Begin() with exit code 75 returned no error")
	}
	if err := command.New(command.Config{Command: []string{"/does/not/exist"}, Timeout: time.Second}).Begin(t.Context(), instance); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Begin() without a program = %v, want an error", err)
	}
}

// TestKilled checks that a command is killed at the timeout, with its child processes.
func TestKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	d := shell(t, `sleep 300 & echo $! > "`+file+`"; wait`, 3*time.Second)
	begun := time.Now()
	err := d.Begin(t.Context(), drain.Instance{ID: "i-1"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "killed after the drain timeout of 3s") {
		t.Errorf("Begin() = %v, want a timeout after which the command is killed", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("Begin() took %v", took)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-tick.C:
		case <-deadline.C:
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("a child process of a killed command is still running")
		}
	}
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config command.Config
		want   string
	}{
		{command.Config{Command: []string{"drain"}}, ""},
		{command.Config{}, "command"},
		{command.Config{Command: []string{""}}, "command"},
		{command.Config{Command: []string{"drain"}, Timeout: -time.Second}, "timeout"},
		{command.Config{Command: []string{"drain"}, Timeout: time.Hour}, "timeout"},
	} {
		c.config.SetDefaults()
		var fields []string
		for _, mistake := range c.config.Validate() {
			fields = append(fields, mistake.Field)
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%+v: invalid fields = %q, want %q", c.config, got, c.want)
		}
	}
	if err := (&command.Config{Command: []string{"/does/not/exist"}}).Check(); err == nil {
		t.Error("Check() without a program returned no error")
	}
}
