package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTail checks that the memory for endless output is bounded.
func TestTail(t *testing.T) {
	last := Tail{Limit: 10}
	for range 1000 {
		_, _ = last.Write([]byte(strings.Repeat("x", 1000)))
	}
	if cap(last.kept) > 100 {
		t.Errorf("a limit of 10 bytes uses %d bytes", cap(last.kept))
	}
	_, _ = last.Write([]byte("yé"))
	_, _ = last.Write([]byte("\n12345678"))
	if got := last.String(); got != "\n12345678" {
		t.Errorf("String() = %q", got)
	}
}

func shell(script string, more ...string) Command {
	return Command{Program: append([]string{"/bin/sh", "-c", script}, more...), Env: MinimalEnviron(), MaxOutput: 1000}
}

func TestOutput(t *testing.T) {
	t.Setenv("HPAD_TEST", "hidden")
	t.Setenv("LANG", "C.UTF-8")
	for _, test := range []struct {
		command   Command
		want, err string
	}{
		{shell("echo 5; echo noise >&2"), "5\n", ""},
		{shell(`echo "$HPAD_TEST$LANG"`), "C.UTF-8\n", ""},
		{Command{Program: []string{"/bin/cat"}, Stdin: strings.NewReader("in"), MaxOutput: 10}, "in", ""},
		{shell("echo $1", "sh", "a  b;c"), "a b;c\n", ""},
		{shell("echo part; echo first >&2; printf 'last\\033[1m\\n\\n' >&2; exit 3"), "part\n", "exit status 3: last?[1m"},
		{shell("exit 4"), "", "exit status 4"},
		{shell("kill -9 $$"), "", "signal: killed"},
		{shell("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"), "", "exit status 1: " + strings.Repeat("x", 299) + "…"},
		{shell("yes & yes; wait"), "", "killed: the output has more than 1000 bytes"},
		{Command{Program: []string{"/nonexistent"}}, "", `exec: "/nonexistent": stat /nonexistent: no such file or directory`},
	} {
		got, err := test.command.Output(t.Context())
		if text := errorText(err); text != test.err || test.want != "" && string(got) != test.want || len(got) > 1000 {
			t.Errorf("%q: %q, %q, want %q, %q", test.command.Program, got, text, test.want, test.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestOutputKills checks that no process of a command is left after its context ends, or after the
// program ends while a child process still keeps the output open.
func TestOutputKills(t *testing.T) {
	for script, ends := range map[string]bool{`sleep 300 & echo $! >> "$1"; echo $$ >> "$1"; wait`: false, `sleep 300 & echo $! >> "$1"; echo 1`: true} {
		file := filepath.Join(t.TempDir(), "pids")
		limit := errors.New("too slow")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := shell(script, "sh", file).Output(ctx)
			done <- err
		}()
		var pids []string
		await(t, "the processes", func() bool {
			text, _ := os.ReadFile(file)
			pids = strings.Fields(string(text))
			return len(pids) == 2 || ends && len(pids) == 1
		})
		if !ends {
			cancel(limit)
		}
		if err := <-done; ends != (err == nil) || !ends && !errors.Is(err, limit) {
			t.Errorf("%s: error = %v, want the cause of the context", script, err)
		}
		await(t, "the end of the processes", func() bool { return !slices.ContainsFunc(pids, alive) })
		cancel(nil)
	}
}

// alive reports whether a process exists and is no zombie.
func alive(pid string) bool {
	number, err := strconv.Atoi(pid)
	if err != nil || syscall.Kill(number, 0) != nil {
		return false
	}
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ready() {
		select {
		case <-deadline:
			t.Fatalf("%s did not come", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
