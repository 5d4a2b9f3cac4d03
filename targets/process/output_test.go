package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/guard"
)

type writes func(line string)

func (w writes) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

func (o *output) relayForTest() { o.relayPart(2*maxOutput, make([]byte, maxLine)) }

func TestOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "a.log")
	var got []string
	ignore := func(*output) {}
	o := openOutput(path, writes(func(line string) { got = append(got, line) }), ignore)
	for _, piece := range []string{"one\ntw", "o\n\nthr", "ee"} {
		if _, err := o.file.WriteString(piece); err != nil {
			t.Fatal(err)
		}
		o.relayForTest()
	}
	o.printf("a %s", "message")
	o.relayForTest()
	if _, err := o.file.WriteString(strings.Repeat("x", maxLine+1)); err != nil {
		t.Fatal(err)
	}
	o.relayForTest()
	end := o.detach()
	again := openOutput(path, o.to, ignore)
	if _, err := again.file.WriteString("\nafter a restart\n"); err != nil {
		t.Fatal(err)
	}
	again.seek(end)
	again.relayForTest()
	want := []string{"one\n", "two\n", "\n", "three\n", "hpad: a message\n", strings.Repeat("x", maxLine) + "\n", "x\n", "after a restart\n"}
	if !slices.Equal(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
	again.remove()
	if again.relayForTest(); exists(path) || !again.hasEnded() {
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

// TestOutputIsBounded checks that a file stays small although nothing is relayed, and that the
// dropped lines are reported once.
func TestOutputIsBounded(t *testing.T) {
	for _, watched := range []bool{true, false} {
		t.Run(fmt.Sprint("watched: ", watched), func(t *testing.T) { testOutputIsBounded(t, watched) })
	}
}

func testOutputIsBounded(t *testing.T, watched bool) {
	r := newRelay()
	if !watched {
		r.fd = -1
	}
	writer := &flood{open: make(chan struct{})}
	o := openOutput(filepath.Join(t.TempDir(), "a.log"), writer, r.mark)
	r.add(o)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	size := func() int64 {
		info, err := o.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	written := 0
	for range 5 {
		for range maxOutput/len(line) + 1 {
			n, err := o.file.Write(line)
			if written += n; err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, func() string {
			if n := size(); n > maxOutput {
				return fmt.Sprintf("the file has %d bytes", n)
			}
			return ""
		})
	}
	close(writer.open)
	o.remove()
	eventually(t, func() string {
		if !o.hasEnded() {
			return "the output has not ended"
		}
		return ""
	})
	r.stop()
	got := writer.String()
	if strings.Count(got, "hpad: lines are dropped") != 1 || strings.Count(got, "bytes of output were dropped") != 1 {
		t.Errorf("messages = %q, want one of the first dropped line and one of the total", got)
	}
	if o.dropped < int64(written)/2 || o.dropped > int64(written) {
		t.Errorf("%d of %d bytes were dropped", o.dropped, written)
	}
}

// TestUnwatched checks that files are relayed and limited if the kernel cannot watch them.
func TestUnwatched(t *testing.T) {
	r := newRelay()
	r.fd = -1
	var got buffer
	o := openOutput(filepath.Join(t.TempDir(), "a.log"), &got, r.mark)
	r.add(o)
	for _, line := range []string{"first\n", "second\n"} {
		if _, err := o.file.WriteString(line); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			if text := got.String(); !strings.HasSuffix(text, line) {
				return fmt.Sprintf("the output is %q", text)
			}
			return ""
		})
	}
	if err := o.file.Truncate(maxOutput + 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if info, err := o.file.Stat(); err != nil || info.Size() != 0 {
			return fmt.Sprintf("the file is %v, %v", info, err)
		}
		return ""
	})
	o.remove()
	r.stop()
}

// TestPanickingOutput checks that a panic of a writer does not end the relay.
func TestPanickingOutput(t *testing.T) {
	guard.OnPanic(func(*guard.Panic) {})
	r := newRelay()
	defer r.stop()
	var got buffer
	panicked := false
	o := openOutput(filepath.Join(t.TempDir(), "a.log"), writes(func(line string) {
		if !panicked {
			panicked = true
			panic("broken writer")
		}
		_, _ = got.Write([]byte(line))
	}), r.mark)
	r.add(o)
	eventually(t, func() string {
		_, err := o.file.WriteString("line\n")
		if text := got.String(); err != nil || text == "" {
			return fmt.Sprintf("the output is %q, %v", text, err)
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
	wantNotice(t, f, "crash", ProcessRestarting, "times in a row")
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
	for _, end := range []string{"\n", "\nwithout an end"} {
		text := strings.Join(lines, "\n") + end
		if err := os.WriteFile(file.Name(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all := strings.SplitAfter(text, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		for _, n := range []int{0, 1, 2, 1000, 10_000, len(all) - 1, len(all), len(all) + 1, 1 << 30} {
			want := int64(len(text)) - int64(len(strings.Join(all[max(0, len(all)-n):], "")))
			if got, err := lastLines(file, size(t, file), n); err != nil || got != want {
				t.Errorf("lastLines(%d) = %d, %v, want %d", n, got, err, want)
			}
		}
	}
	for _, text := range []string{"", "\n", "a", "\n\n"} {
		if err := os.WriteFile(file.Name(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := lastLines(file, size(t, file), 1); err != nil || got != int64(max(0, len(text)-1)) {
			t.Errorf("lastLines of %q = %d, %v", text, got, err)
		}
	}
	if err := file.Truncate(10 * maxOutput); err != nil { // one line without an end
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := lastLines(file, size(t, file), 10_000)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || got != 9*maxOutput || allocated > 1<<20 {
		t.Errorf("lastLines of an endless line = %d, %v with %d bytes of memory", got, err, allocated)
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
