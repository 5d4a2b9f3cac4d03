package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is the time that Open waits for another process to unlock the state
// directory, so that hpad can be started while its predecessor still stops. The lock is
// the one that bbolt takes on state.db. The kernel releases it with the process.
const lockWait = time.Second

// HeldError is that another process uses the state directory.
type HeldError struct{ Dir string }

// Error names the directory and the remedy.
func (e *HeldError) Error() string {
	return fmt.Sprintf("state directory %q is held by another hpad: stop that one, or give this one another state_dir", e.Dir)
}

// checkUnlocked returns a HeldError if another process still has the file at path, in
// dir, locked after a time. A missing file is not locked.
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

// unlock releases a file's lock, which closing the file does not do while it is mapped
// into memory.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }

// outOfRoom reports whether a write failed because the file system is full.
func outOfRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
