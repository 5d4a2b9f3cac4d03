package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long Open waits until the previous process unlocks state.db. The lock is
// bbolt's file lock, which the kernel releases with the process.
const lockWait = time.Second

// HeldError is returned if another process uses the state directory.
type HeldError struct{ Dir string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("state directory %q is in use by another hpad: stop it, or set another state_dir", e.Dir)
}

// checkUnlocked returns a HeldError if another process still has the file at path locked after
// a time.
func checkUnlocked(path, dir string, wait time.Duration) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // unlocks it
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if !time.Now().Before(deadline) {
			return &HeldError{Dir: dir}
		}
	}
}

// unlock releases the lock of a file. Closing the file is not enough while it is mapped.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }

func outOfRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
