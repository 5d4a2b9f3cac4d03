package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/internal/installed"
)

// TestFullDisk fills the file system of the state.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	disk := w.path("disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("hpad-e2e", disk, "tmpfs", 0, "size=1m,mode=0700")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		installed.Absent(t, "mounting a small file system needs privilege: "+err.Error())
	}
	if err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w.configure(setup{StateDir: filepath.Join(disk, "state")})
	h := w.start()
	w.awaitWorkers(1)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)

	w.load("queue_length", 40)
	h.awaitCount(4, 20*time.Second)
	w.awaitWorkers(4)
	w.load("queue_length", 10)
	h.awaitCount(1, 20*time.Second)
	w.awaitWorkers(1)
	h.awaitSaid("state cannot be written; scaling goes on", "no space left on device", filepath.Join(disk, "state"))
	if _, body, err := h.request(http.MethodGet, "/-/ready"); err != nil || !strings.Contains(body, `"subject":"state"`) || !strings.Contains(body, "no space left on device") {
		t.Errorf("/-/ready does not tell of the full disk: %s (%v)", body, err)
	}
	if text := h.metrics(); !regexp.MustCompile(`(?m)^hpad_state_write_failures_total [1-9]`).MatchString(text) {
		t.Errorf("/metrics does not tell of failed writes:\n%s", text)
	}
	h.signal(syscall.SIGTERM)
	h.ended(1)
	h.awaitSaid("what could not be written is lost")
	w.noneLeft()

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h = w.start()
	w.load("queue_length", 20)
	h.awaitCount(2, 20*time.Second)
	h.end()
	w.noneLeft()
}

// fill writes a file until there is no room left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) || errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("fill the file system: %v", err)
	}
}
