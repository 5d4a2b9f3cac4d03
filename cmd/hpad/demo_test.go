package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/cmd/hpad/demo"
)

// demoMark is a variable by which the processes of a test's demo are known.
const demoMark = "DEMO_OF_TEST"

// startDemo starts a demo that takes long, and answers it with what it writes.
func startDemo(t *testing.T, prepare func(*exec.Cmd)) (*exec.Cmd, *transcript) {
	t.Helper()
	cmd := exec.Command("hpad", "demo", "--for", "10m")
	cmd.Env = append(os.Environ(), demoMark+"="+t.Name(), "TMPDIR="+t.TempDir())
	said := new(transcript)
	cmd.Stdout, cmd.Stderr = said, said
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the demo said:\n%s", said)
		}
	})
	return cmd, said
}

// transcript is what somebody writes, and may be read meanwhile.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// demoProcesses answers the command lines of the processes that a test's demo
// has started.
func demoProcesses(t *testing.T) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		environ, err := os.ReadFile(entry)
		if err != nil {
			continue // gone, or somebody else's
		}
		if !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+demoMark+"="+t.Name()+"\x00")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(entry), "cmdline"))
		if err == nil && len(line) > 0 { // a process that has ended has no command line
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited a minute in vain until %s", what)
		}
	}
}

// hasWorker says whether a worker and the guard of it are there.
func hasWorker(processes []string) bool {
	all := strings.Join(processes, "\n")
	return strings.Contains(all, "demo worker --queue") && strings.Contains(all, "hpad-guard")
}

// TestDemoLeavesNothingBehind ends demos in all ways there are.
func TestDemoLeavesNothingBehind(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			t.Parallel()
			cmd, said := startDemo(t, nil)
			waitUntil(t, "a worker runs", func() bool { return hasWorker(demoProcesses(t)) })
			waitUntil(t, "something is decided", func() bool { return strings.Contains(said.String(), ": The count stays at 1") })
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if signal == syscall.SIGKILL {
				waitUntil(t, "no process is left", func() bool { return len(demoProcesses(t)) == 0 })
				return
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
				t.Errorf("the demo ended with %v, want exit code 1: the fleet did not grow", err)
			}
			if left := demoProcesses(t); len(left) > 0 {
				t.Errorf("still there: %q", left)
			}
			if text := said.String(); !strings.Contains(text, "The demo ran for ") || !strings.Contains(text, "hpad: error: the fleet did not grow") {
				t.Error("the demo does not say what happened")
			}
			dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
				t.Errorf("files are left: %q, %v", left, err)
			}
		})
	}
}

// TestDemoOnTerminal looks at the demo on a real terminal, and ends it with
// Ctrl-C.
func TestDemoOnTerminal(t *testing.T) {
	t.Parallel()
	keyboard, tty := openTerminal(t)
	cmd, _ := startDemo(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "TERM=xterm")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	if err := tty.Close(); err != nil { // the demo's copy stays
		t.Fatal(err)
	}
	shown := new(transcript)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(shown, keyboard) // until the last one closes the terminal
	}()
	waitUntil(t, "the panel is drawn", func() bool {
		text := shown.String()
		return strings.Contains(text, "  workers  ▁") && strings.Contains(text, "A\x1b[J") && hasWorker(demoProcesses(t))
	})
	if strings.Contains(shown.String(), demoHeader) {
		t.Error("the plain table is shown on a terminal")
	}
	if _, err := keyboard.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	<-read
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("the demo ended with %v, want exit code 1", err)
	}
	text := shown.String()
	if end := text[strings.LastIndex(text, "\x1b[J"):]; !strings.Contains(end, "The demo ran for ") || strings.Contains(end, "Ctrl-C ends it") {
		t.Errorf("the end shows %q, want what happened in place of the panel", end)
	}
	if left := demoProcesses(t); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// openTerminal opens a pseudo terminal: what a person types goes into keyboard,
// and what they see comes out of it.
func openTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	control := func(ask func(fd int) error) {
		t.Helper()
		raw, err := keyboard.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var asked error
		if err := errors.Join(raw.Control(func(fd uintptr) { asked = ask(int(fd)) }), asked); err != nil {
			t.Fatal(err)
		}
	}
	var number uint32
	control(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	control(func(fd int) (err error) {
		number, err = unix.IoctlGetUint32(fd, unix.TIOCGPTN)
		return err
	})
	control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
	})
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keyboard, tty
}

func TestDemoDirIsShortEnoughForASocket(t *testing.T) {
	for name, parent := range map[string]string{
		"usual": t.TempDir(), "too long": filepath.Join(t.TempDir(), strings.Repeat("long", 30)), "relative": "tmp",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", parent)
			dir, err := makeDemoDir()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			if path := filepath.Join(dir, demoSocket); len(path) > socketPathLimit || !filepath.IsAbs(path) {
				t.Errorf("the socket would be %s, with %d letters", path, len(path))
			}
			if within := strings.HasPrefix(dir, parent+"/"); within != (name == "usual") {
				t.Errorf("the directory is %s, with TMPDIR=%s", dir, parent)
			}
		})
	}
	t.Setenv("TMPDIR", "/nonexistent")
	if _, err := makeDemoDir(); err == nil || hintOf(err) == "" {
		t.Errorf("error = %v, want one with a hint", err)
	}
}

func TestReservePorts(t *testing.T) {
	queue, worker, err := reservePorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := queue.Addr().(*net.TCPAddr).Port
	if worker != first+1 {
		t.Errorf("the workers' ports begin at %d, want %d", worker, first+1)
	}
	if _, err := reserveBlock(t.Context(), first); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v, want that another demo has the block", err)
	}
	if err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := listenOn(t.Context(), first+demo.Ports)
	if err != nil {
		t.Fatalf("a port of the block is not free again: %v", err)
	}
	if _, err := reserveBlock(t.Context(), first); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v, want that a port of the block is in use", err)
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := reserveBlock(t.Context(), first)
	if err != nil {
		t.Fatalf("the block is not free again: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// testShow answers a show on plain lines.
func testShow(duration time.Duration) (*demoShow, *transcript) {
	said := new(transcript)
	return newDemoShow(said, demo.Example(duration), demo.NewQueue(prometheus.NewRegistry())), said
}

func TestShowTellsOfTrouble(t *testing.T) {
	show, said := testShow(time.Minute)
	log := demoLog(show)
	log.Info("started")
	log.Warn("evaluation failed", zap.String("err", "no sample"))
	log.With(zap.String("source", "own")).Warn("evaluation failed")
	log.With(zap.String("source", "own")).Warn("source does not answer", zap.Error(errors.New("disk\nfull \x1b[2J")))
	show.lastNotes()
	text := said.String()
	if !strings.HasPrefix(text, "! source does not answer") || !strings.Contains(text, `"source": "own"`) || strings.Count(text, "\n") != 1 {
		t.Errorf("printed %q, want one line about the source", text)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("printed %q, which steers the terminal", text)
	}
}

// TestShowIsSilentAboutItsEnd: that reads are broken off at the end is no
// trouble, unless the daemon failed.
func TestShowIsSilentAboutItsEnd(t *testing.T) {
	show, said := testShow(time.Minute)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	show.note("fleet cannot be read")
	if err := show.run(ended); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(said.String(), "! ") {
		t.Errorf("said at the end:\n%s", said)
	}
	show.lastNotes()
	if !strings.HasSuffix(said.String(), "! fleet cannot be read\n") {
		t.Errorf("not said after a failure:\n%s", said)
	}
}

func TestShowDoesNotBlockTheDaemon(t *testing.T) {
	show, _ := testShow(time.Minute)
	for range 1000 { // nobody reads
		show.decided(demoAt(0, 1, 1, 0, 0))
		show.note("trouble")
	}
}

func TestShowConcludes(t *testing.T) {
	show, said := testShow(time.Minute)
	show.begun = time.Now().Add(-time.Minute)
	show.ended = time.Now()
	for second, counts := range [][2]int32{{1, 1}, {1, 3}, {3, 2}} {
		if err := show.tell(demoAt(second, counts[0], counts[1], 0, 700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := show.conclude(); err != nil {
		t.Errorf("error = %v, want none", err)
	}
	for _, line := range []string{" 1 → 3: ", " 3 → 2: ", "1 at the start, 3 at most", "1 up, 1 down", "The fleet grew and shrank"} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("%q is not in what was said:\n%s", line, said)
		}
	}

	show, _ = testShow(time.Minute)
	show.begun = time.Now().Add(-time.Minute)
	show.ended = time.Now()
	if err := show.conclude(); err == nil || hintOf(err) != "" {
		t.Errorf("error = %v with hint %q, want one without a hint: the demo was not ended early", err, hintOf(err))
	}
}
