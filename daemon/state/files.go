package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/pages"
)

// createFile creates a file. If the process runs as root, the file gets the owner and group of
// its directory, because the daemon runs as that user.
func createFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	// O_EXCL does not follow symbolic links. Otherwise root could change the owner of a file
	// elsewhere.
	file, err := os.OpenFile(path, flag|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if err := giveToOwner(file); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return file, nil
}

// makeDir creates a state directory. If the process runs as root, the directory gets the owner
// and group of its parent.
func makeDir(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o750)
	if err == nil {
		err = os.Mkdir(dir, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(dir, 0o750) // fails if dir is a file
	}
	if err != nil {
		return err
	}
	made, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(giveToOwner(made), made.Close())
}

// giveToOwner gives a file that root created the owner and group of its directory, if the file
// system permits this.
func giveToOwner(file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(filepath.Clean(file.Name())))
	if err != nil {
		return err
	}
	owner, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := file.Chown(int(owner.Uid), int(owner.Gid)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// heldError is returned if another process uses the state directory.
type heldError struct{ Dir string }

func (e *heldError) Error() string {
	return fmt.Sprintf("state directory %q is in use by another hpad: stop it, or set another state_dir", e.Dir)
}

// checkUnlocked returns a heldError if another process still locks the file at path after wait.
func checkUnlocked(path, dir string, wait time.Duration) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // also unlocks it
	if err = pages.Lock(file, unix.LOCK_EX, wait); errors.Is(err, unix.EWOULDBLOCK) {
		return &heldError{Dir: dir}
	}
	return err
}

// unlock releases the lock of a file. Closing the file is not enough while it is mapped.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }

func isDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
