package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestReclaim holds that memory is given back soon after it was asked for, once for all
// that ask meanwhile, and not too often.
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reclaimer
		began := time.Now()
		done := func() time.Duration {
			time.Sleep(reclaimEvery)
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.last.Sub(began)
		}
		var told atomic.Int32
		r.reclaim(func() { told.Add(1) })
		r.reclaim(func() { told.Add(1) })
		if got := done(); got != reclaimDelay {
			t.Errorf("it was given back after %v, want %v", got, reclaimDelay)
		}
		if got := told.Load(); got != 2 {
			t.Errorf("%d of two who asked are told", got)
		}
		r.reclaim(func() {})
		if got := done(); got != reclaimDelay+reclaimEvery {
			t.Errorf("it was given back again after %v, want %v", got, reclaimDelay+reclaimEvery)
		}
		if got := done(); got != reclaimDelay+reclaimEvery {
			t.Errorf("it was given back after %v without being asked for", got)
		}
	})
}

// TestStarting holds that garbage is collected more often until everything has started,
// and as it was after that.
func TestStarting(t *testing.T) {
	t.Setenv("GOGC", "")
	const usual = 77
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	percent := func() int {
		now := debug.SetGCPercent(usual)
		debug.SetGCPercent(now)
		return now
	}
	first, second := Starting(), Starting()
	first()
	first()
	if got := percent(); got != startingPercent {
		t.Errorf("while one starts it is %d %%, want %d %%", got, startingPercent)
	}
	second()
	if got := percent(); got != usual {
		t.Errorf("after all have started it is %d %%, want %d %%", got, usual)
	}
	t.Setenv("GOGC", "60")
	over := Starting()
	if got := percent(); got != usual {
		t.Errorf("where a person has set it, it is %d %%, want %d %%", got, usual)
	}
	over()
}

// TestReadOnly holds which mappings are of a file, and as it is.
func TestReadOnly(t *testing.T) {
	var smaps strings.Builder
	for _, m := range []struct {
		at, mode, name string
		anonymous      int
		swapped        int
	}{
		{"00400000-00500000", "r-xp", "/usr/bin/hpad", 0, 0},
		{"00500000-00600000", "r--p", "/usr/bin/hpad", 0, 0},
		{"00600000-00700000", "rw-p", "/usr/bin/hpad", 0, 0},
		{"00700000-00800000", "r--p", "/usr/bin/hpad", 4, 0}, // filled in by the linker
		{"00800000-00900000", "r--p", "/usr/bin/hpad", 0, 4}, // and then swapped out
		{"c000000000-c004000000", "rw-p", "", 0, 0},
		{"7f0000002000-7f0000003000", "r--s", "/var/lib/hpad/state.db", 0, 0},
		{"7f0000004000-7f0000005000", "r-xp", "[vdso]", 0, 0},
	} {
		fmt.Fprintf(&smaps, "%s %s 00000000 fe:00 1 %s\nSize: 4 kB\nRss: 4 kB\nAnonymous: %d kB\nSwap: %d kB\nVmFlags: rd mr\n", m.at, m.mode, m.name, m.anonymous, m.swapped)
	}
	want := []mapping{{0x400000, 0x100000}, {0x500000, 0x100000}}
	if got := readOnly(smaps.String(), "/usr/bin/hpad"); !reflect.DeepEqual(got, want) {
		t.Errorf("found %x, want %x", got, want)
	}
}

// TestLetGo holds that pages of a file are let go of, and are there again as they
// are touched.
func TestLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	text, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(text) })
	first := uintptr(unsafe.Pointer(&text[0]))
	resident := func() string {
		t.Helper()
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		_, of, found := strings.Cut(string(smaps), fmt.Sprintf("%x-", first))
		_, rest, rss := strings.Cut(of, "\nRss:")
		if !found || !rss {
			t.Fatalf("the mapping at %x is not in smaps", first)
		}
		return strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0])
	}
	if strings.Count(string(text), "x") != 1<<20 || resident() != "1024 kB" {
		t.Fatalf("%s of the file are resident after reading it, want 1024 kB", resident())
	}
	letGoOf(mappingsOf(path))
	if got := resident(); got != "0 kB" {
		t.Errorf("%s of the file are resident, want none", got)
	}
	if strings.Count(string(text), "x") != 1<<20 {
		t.Error("the file is not as it was")
	}
}
