package dockertest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/wait"
)

func (e *Engine) unmountDisk() {
	if seen, ok := wait.Until(endTimeout, func() (string, bool) {
		err := unix.Unmount(e.Data(), 0)
		return fmt.Sprint(err), err == nil || errors.Is(err, unix.EINVAL)
	}); !ok {
		e.t.Errorf("unmount the data of dockerd: %s", seen)
	}
}

// FillDisk fills the engine's disk until the returned function is called.
func (e *Engine) FillDisk(t testing.TB) (empty func()) {
	t.Helper()
	if e.options.Disk == "" {
		t.Fatal("Options.Disk is not set")
	}
	path := filepath.Join(e.Data(), "ballast")
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
		t.Fatalf("fill the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Errorf("empty the disk: %v", err)
		}
	}
}
