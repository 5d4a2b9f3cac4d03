package embedded

import (
	"fmt"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// TestFullDisk lets every write to a file fail for a while, as a full disk does.
func TestFullDisk(t *testing.T) {
	e := newExporter(t, "load 1\n")
	dir := t.TempDir()
	source := started(t, config(e.address()), Options{Dir: dir})
	eventually(t, source, "sum(load)", "{} 1")

	restore := limitFiles(t)
	poll(t, func() bool { return len(source.Problems()) == 1 }, func() string { return "no problem about the disk" })
	problem := source.Problems()[0]
	if !strings.Contains(problem, "samples cannot be stored in "+fmt.Sprintf("%q", dir)) || !strings.Contains(problem, "file too large") {
		t.Errorf("Problems() = %q, want one that names %s and what the system said", problem, dir)
	}
	if vector, err := source.Query(t.Context(), sources.Query{Text: "sum(last_over_time(load[1m]))"}, time.Now()); err != nil || text(vector) != "{} 1" {
		t.Errorf("query while nothing can be stored = %v, %v, want what was stored before", vector, err)
	}
	restore()

	e.set(http.StatusOK, textFormat, "load 2\n")
	eventually(t, source, "sum(load)", "{} 2")
	if problems := source.Problems(); len(problems) > 0 {
		t.Errorf("Problems() with room again = %q, want none", problems)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	again := started(t, config(), Options{Dir: dir})
	eventually(t, again, "sum(max_over_time(load[1m]))", "{} 2")
}

// limitFiles forbids this process to write to files until restore is called.
func limitFiles(t *testing.T) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore = func() {
		if restored {
			return
		}
		restored = true
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
	t.Cleanup(restore)
	return restore
}
