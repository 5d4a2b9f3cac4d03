package process

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

type writes func(line string)

func (w writes) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

func (o *output) relayForTest() { o.relayPart(2*maxOutput, make([]byte, maxLine)) }

// openTestOutput returns an output whose lines the relay does not relay.
func openTestOutput(t *testing.T, path string, to io.Writer) *output {
	n := newLauncher(filepath.Dir(path))
	t.Cleanup(n.release)
	return openOutput(path, to, n)
}

// put writes as a process does.
func (o *output) put(t *testing.T, text string) {
	t.Helper()
	if _, err := o.fifo.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if _, err := o.collect(patience); err != nil {
		t.Fatal(err)
	}
}

func TestOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "a.log")
	var got []string
	o := openTestOutput(t, path, writes(func(line string) { got = append(got, line) }))
	for _, piece := range []string{"one\ntw", "o\n\nthr", "ee"} {
		o.put(t, piece)
		o.relayForTest()
	}
	o.printf("a %s", "message")
	o.relayForTest()
	o.put(t, strings.Repeat("x", maxLine/2))
	o.put(t, strings.Repeat("x", maxLine/2+1))
	o.relayForTest()
	end := o.detach()
	again := openTestOutput(t, path, o.to)
	again.put(t, "\nafter a restart\n")
	again.seek(end)
	again.relayForTest()
	want := []string{"one\n", "two\n", "\n", "three\n", "hpad: a message\n", strings.Repeat("x", maxLine) + "\n", "x\n", "after a restart\n"}
	if !slices.Equal(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
	again.remove()
	if again.relayForTest(); exists(path) || exists(fifoOf(path)) || !again.hasEnded() {
		t.Error("the output was not removed")
	}
}

// flood is a writer that a process fills faster than it accepts lines: it blocks until open is
// closed.
type flood struct {
	open chan struct{}
	buffer
}

func (f *flood) Write(line []byte) (int, error) {
	<-f.open
	if !bytes.HasPrefix(line, []byte("hpad: ")) {
		return len(line), nil
	}
	return f.buffer.Write(line)
}

// TestOutputIsBounded checks that a file is never too large although a process writes as fast as it
// can and nothing is relayed, and that the dropped lines are reported once.
func TestOutputIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	n := newLauncher(filepath.Dir(path))
	writer := &flood{open: make(chan struct{})}
	o := openOutput(path, writer, n)
	n.relay.add(o)
	o.put(t, "")
	cmd := exec.Command("yes", strings.Repeat("x", 1023))
	cmd.Stdout = o.fifo
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first int64
	eventually(t, func() string {
		for range 1000 {
			if got := size(t, o.file); got > maxOutput {
				t.Fatalf("the file has %d bytes", got)
			}
		}
		first, _, _, _ = logBounds(o.file)
		if first < 10*maxOutput {
			return fmt.Sprintf("the process wrote more than %d bytes", first)
		}
		return ""
	})
	_, _ = cmd.Process.Kill(), cmd.Wait()
	end, err := o.collect(patience)
	if err != nil {
		t.Fatal(err)
	}
	close(writer.open)
	o.remove()
	eventually(t, func() string {
		if !o.hasEnded() {
			return "the output has not ended"
		}
		return ""
	})
	n.release()
	got := writer.String()
	if strings.Count(got, "hpad: lines are dropped") != 1 || strings.Count(got, "bytes of output were dropped") != 1 {
		t.Errorf("messages = %q, want one of the first dropped line and one of the total", got)
	}
	if o.dropped < first-maxOutput || o.dropped > end {
		t.Errorf("%d of %d bytes were dropped", o.dropped, end)
	}
}

// TestStalledWriter checks that a process continues to write although nothing is relayed, that the
// collector survives the signals that end hpad, and that its successor continues after a crash.
func TestStalledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	n := newLauncher(filepath.Dir(path))
	o := openOutput(path, nil, n)
	n.relay.add(o)
	o.put(t, "first\n")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		n.collector.process.signal(signal)
	}
	before := n.collector.process
	o.put(t, "second\n")
	if n.collector.process != before {
		t.Error("a signal ended the collector")
	}
	before.signal(syscall.SIGKILL)
	<-before.exited
	line := strings.Repeat("x", 1023) + "\n"
	for range 1000 { // more than the FIFO contains
		if _, err := o.fifo.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	o.put(t, "last\n")
	text, err := os.ReadFile(path)
	want := fmt.Sprintf(logHeader, 0) + "first\nsecond\n" + strings.Repeat(line, 1000) + "last\n"
	if err != nil || string(text) != want {
		t.Errorf("the file has %d bytes, want %d: %v", len(text), len(want), err)
	}
	o.remove()
	n.release()
}

// TestLogIsChanged checks a file that another program has truncated, extended or filled.
func TestLogIsChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	w, err := openLogWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, change := range []func() error{
		func() error { return w.file.Truncate(0) },
		func() error { return w.file.Truncate(100 * maxOutput) },
		func() error { _, err := w.file.WriteString("other\n"); return err },
	} {
		end := w.end
		w.append([]byte("one\n"))
		if err := change(); err != nil {
			t.Fatal(err)
		}
		w.append([]byte("two\n"))
		buffer := make([]byte, maxLine)
		n, at := readLog(w.file, buffer, end)
		if string(buffer[:n]) != "two\n" || at != end+4 {
			t.Errorf("the output at %d is %q at %d", end, buffer[:n], at)
		}
		again, err := openLogWriter(path)
		if err != nil || again.end != w.end || again.size != w.size {
			t.Errorf("the file was opened as %+v, %v, want %+v", again, err, w)
		}
		again.close()
	}
}

// TestUnwatched checks that files are relayed if the kernel cannot watch them.
func TestUnwatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	n := newLauncher(filepath.Dir(path))
	n.relay.fd = -1
	var got buffer
	o := openOutput(path, &got, n)
	n.relay.add(o)
	for _, line := range []string{"first\n", "second\n"} {
		o.put(t, line)
		eventually(t, func() string {
			if text := got.String(); !strings.HasSuffix(text, line) {
				return fmt.Sprintf("the output is %q", text)
			}
			return ""
		})
	}
	o.remove()
	n.release()
}

// TestPanickingOutput checks that a panic of a writer does not end the relay.
func TestPanickingOutput(t *testing.T) {
	guard.OnPanic(func(*guard.Panic) {})
	path := filepath.Join(t.TempDir(), "a.log")
	n := newLauncher(filepath.Dir(path))
	defer n.release()
	var got buffer
	panicked := false
	o := openOutput(path, writes(func(line string) {
		if !panicked {
			panicked = true
			panic("broken writer")
		}
		_, _ = got.Write([]byte(line))
	}), n)
	n.relay.add(o)
	eventually(t, func() string {
		o.put(t, "line\n")
		if text := got.String(); text == "" {
			return "nothing is relayed"
		}
		return ""
	})
	o.remove()
}

// TestBlockedOutput checks that instances stop and the fleet closes although the writer of their
// output is blocked.
func TestBlockedOutput(t *testing.T) {
	w := newFixture(t)
	s := w.service("", "", 2)
	s.Command = []string{"sh", "-c", "yes $HPAD_INSTANCE"}
	w.config.Services["y"] = s
	w.config.Services["crash"] = Service{Command: []string{"sh", "-c", "echo; exit 1"}, RestartBackoffMin: 1}
	w.config.SetDefaults()
	writer := &flood{open: make(chan struct{})}
	defer close(writer.open)
	env := w.fleetEnv(t)
	env.Output = func(_, _ string) io.Writer { return writer }
	f := New("local", w.config, env)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, f, "y", 2)
	wantNotice(t, f, "crash", processRestarting, "times in a row")
	scale(t, f, "y", 1)
	settled(t, f, "y", 1)
	closeFleet(t, f)
}

func TestLastLines(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "a.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var lines []string
	for i := range 40_000 {
		lines = append(lines, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%90)))
	}
	const first = 1 << 40
	header := fmt.Sprintf(logHeader, first)
	write := func(text string) (end int64) {
		if err := os.WriteFile(file.Name(), []byte(header+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return first + int64(len(text))
	}
	for _, end := range []string{"\n", "\nwithout an end"} {
		text := strings.Join(lines, "\n") + end
		end := write(text)
		all := strings.SplitAfter(text, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		for _, n := range []int{0, 1, 2, 1000, 10_000, len(all) - 1, len(all), len(all) + 1, 1 << 30} {
			want := end - int64(len(strings.Join(all[max(0, len(all)-n):], "")))
			if got := lastLines(file, first, end, n); got != want {
				t.Errorf("lastLines(%d) = %d, want %d", n, got, want)
			}
		}
	}
	for _, text := range []string{"", "\n", "a", "\n\n"} {
		end := write(text)
		if got := lastLines(file, first, end, 1); got != first+int64(max(0, len(text)-1)) {
			t.Errorf("lastLines of %q = %d", text, got)
		}
	}
	end := write(strings.Repeat("x", maxOutput-len(header))) // one line without an end
	least := uint64(math.MaxUint64)
	for begun := time.Now(); least > 1<<20 && time.Since(begun) < time.Minute; { // other tests allocate at the same time
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := lastLines(file, first, end, 10_000)
		runtime.ReadMemStats(&after)
		if got != first {
			t.Errorf("lastLines of an endless line = %d, want %d", got, first)
		}
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 1<<20 {
		t.Errorf("lastLines of an endless line allocates %d bytes", least)
	}
}

func size(t *testing.T, file *os.File) int64 {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestOutputWithoutHpad checks that the file of a process that outlives hpad remains bounded, that the
// process continues to write, and that the next hpad finds its output.
func TestOutputWithoutHpad(t *testing.T) {
	w := newFixture(t)
	w.survive = true
	s := w.service("", "", 1)
	s.Command = []string{"sh", "-c", "yes $HPAD_INSTANCE"}
	w.config.Services["y"] = s
	w.config.SetDefaults()
	f := w.open(t)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := ids(settled(t, f, "y", 1))[0]
	closeFleet(t, f)
	file, err := os.Open(filepath.Join(w.dir, "output", "y", id+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	from, _, _, _ := logBounds(file)
	eventually(t, func() string {
		if got := size(t, file); got > maxOutput {
			t.Fatalf("the file has %d bytes", got)
		}
		if first, _, _, ok := logBounds(file); !ok || first < from+2*maxOutput {
			return "the process continues to write"
		}
		return ""
	})
	f = start(t, w.open(t))
	if got := ids(settled(t, f, "y", 1)); got[0] != id {
		t.Errorf("the next hpad has %v, want %s", got, id)
	}
	var text strings.Builder
	if err := f.WriteLogs(t.Context(), ref("y"), id, targets.LogQuery{Lines: 2}, &text); err != nil || !strings.Contains(text.String(), id) {
		t.Errorf("the output is %q, %v", text.String(), err)
	}
	scale(t, f, "y", 0)
	settled(t, f, "y", 0)
}
