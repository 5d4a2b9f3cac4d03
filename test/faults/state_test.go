package faults

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

// page is bbolt's unit of storage, in bytes.
const page = 4096

// tear returns a function that overwrites part of a file with random bytes, as a power failure
// during a write could.
func tear(at func(size int64) int64, length int) func(path string) error {
	return func(path string) error {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			garbage := make([]byte, length)
			_, _ = rand.Read(garbage)
			_, err = file.WriteAt(garbage, max(0, at(info.Size())))
		}
		return errors.Join(err, file.Close())
	}
}

func truncate(share float64) func(path string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, int64(share*float64(info.Size())))
	}
}

// stateFaults lists ways to damage a state file while hpad is stopped.
var stateFaults = []struct {
	name, file string
	damage     func(path string) error
}{
	{"state with a torn last page", "state.db", tear(func(size int64) int64 { return size - page/2 }, page/2)},
	{"state with a torn page in use", "state.db", tear(func(int64) int64 { return 3*page + 16 }, page)},
	{"state with a torn head", "state.db", tear(func(int64) int64 { return page / 2 }, page)},
	{"state with both heads torn", "state.db", tear(func(int64) int64 { return 0 }, 2*page)},
	{"truncated state", "state.db", truncate(0.5)},
	{"empty state", "state.db", truncate(0)},
	{"removed state", "state.db", os.Remove},
	{"history with a torn last page", "history.db", tear(func(size int64) int64 { return size - page/2 }, page/2)},
	{"truncated history", "history.db", truncate(0.5)},
	{"removed history", "history.db", os.Remove},
}

// TestState damages the state of a killed hpad. The next process must either recover the complete
// state or report a loss, and must not change the count.
func TestState(t *testing.T) {
	t.Parallel()
	for _, fault := range stateFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 20, 1)
			v := &victim{world: w}
			v.name, v.number = w.autoscaler("steady", "steady")
			p := w.start()
			half := w.Truth(v.number).Count / 2
			w.Ask(v.number, half)
			v.recovers(t, p, half)
			p.Passes(v.name, 1)
			earlier, known := remember(p, t), scaledTo(t, p, v.name, half)
			if len(known) == 0 {
				t.Fatal("the history does not contain the change")
			}
			p.Kill()
			if err := fault.damage(filepath.Join(p.State(), fault.file)); err != nil {
				t.Fatal(err)
			}
			startDamaged(t, p)
			p.Passes(v.name, 2)
			if _, ready, err := p.Ask(http.MethodGet, "/-/ready"); err != nil || !strings.Contains(ready, `"subject":"state"`) {
				// No loss is reported, so the state must be complete.
				wantRemembered(t, p, earlier)
				if now := scaledTo(t, p, v.name, half); err != nil || !slices.ContainsFunc(now, known[0].Equal) {
					t.Errorf("the history contains %[2]s instead of the change at %[1]s, but no loss is reported: %[3]s, %[4]v", known[0], now, ready, err)
				}
			} else if p.Metric("hpad_state_lost", "") == 0 || !strings.Contains(p.Says("get"), "PROBLEM") || !strings.Contains(p.Says("describe", v.name), "state") {
				t.Errorf("only /-/ready reports the loss: %s", ready)
			}
			if writes := w.written(v.number); len(writes) != 1 {
				t.Errorf("got writes %+v, want one", writes)
			}
			w.Ask(v.number, half+1)
			wait.For(t, patience, "changed count", func() (string, bool) {
				return fmt.Sprint(w.Truth(v.number).Count), w.Truth(v.number).Count == half+1
			})
			p.Stop()
		})
	}
}

// scaledTo returns the times when a count was written, according to the history.
func scaledTo(t *testing.T, p *program.Program, name string, count int) (times []time.Time) {
	t.Helper()
	var entries []api.Recorded
	if err := json.Unmarshal([]byte(p.Says("history", name, "-o", "json")), &entries); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Written != nil && int(*entry.Written) == count {
			times = append(times, entry.Time)
		}
	}
	return times
}

// startDamaged starts hpad with damaged state. hpad may exit once with an error.
func startDamaged(t *testing.T, p *program.Program) {
	t.Helper()
	since := len(p.Said())
	p.Launch()
	ended := false
	wait.For(t, patience, "response or exit of hpad", func() (string, bool) {
		_, _, err := p.Ask(http.MethodGet, "/-/ready")
		ended = p.Ended() != ""
		return p.Said()[since:], err == nil || ended
	})
	if ended {
		if output := p.Said()[since:]; p.Ended() != "exit status 1" || !strings.Contains(output, "damaged") {
			t.Fatalf("exit of hpad = %s, log: %s", p.Ended(), output)
		}
		p.Launch()
	}
	p.AwaitPasses()
}

// TestReadOnlyState starts hpad with a read-only state directory. hpad must exit with an error.
// When the directory is writable again, it must recover the complete state.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	installed.Mount(t, disk, "size=64m,mode=0700")
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w := newWorld(t, 20, 1)
	v := &victim{world: w}
	v.name, v.number = w.autoscaler("steady", "steady")
	p := program.Prepare(t, program.Options{Config: w.config.String(), Daemon: daemonTable, State: filepath.Join(disk, "state")})
	p.Start()
	half := w.Truth(v.number).Count / 2
	w.Ask(v.number, half)
	v.recovers(t, p, half)
	p.Passes(v.name, 1)
	earlier := remember(p, t)
	p.Kill()
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("hpad-faults", disk, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	p.Launch()
	wait.For(t, patience, "exit of hpad", func() (string, bool) { return p.Said(), p.Ended() != "" })
	if output := p.Said(); p.Ended() != "exit status 1" || !strings.Contains(output, "read-only file system") {
		t.Errorf("exit of hpad = %s, log: %s", p.Ended(), output)
	}
	remount(0)
	p.Start()
	wantRemembered(t, p, earlier)
	if writes := w.written(v.number); len(writes) != 1 {
		t.Errorf("got writes %+v, want one", writes)
	}
	p.Stop()
}
