package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that says who holds the directory. It stays when nobody
// does: what counts is the lock on it, which ends with its process.
const lockName = "lock"

// lockWait is how long Open waits for another daemon to let go of the directory,
// so that one that is just ending is no hindrance.
const lockWait = time.Second

// holder is the content of the lock file.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	// Opened reports whether the databases were there, then or earlier.
	Opened bool `json:"opened,omitempty"`
}

// HeldError is that another hpad uses the state directory.
type HeldError struct {
	Dir string
	// PID is the process that holds it, on Host; 0 when that is not known.
	PID  int
	Host string
}

// Error names the directory, who holds it, and what to do.
func (e *HeldError) Error() string {
	who := "another hpad"
	if e.PID != 0 {
		who = fmt.Sprintf("another hpad (process %d on %s)", e.PID, e.Host)
	}
	return fmt.Sprintf("state directory %q is held by %s: stop that one, or give this one another state_dir", e.Dir, who)
}

func heldBy(dir string) *HeldError {
	h := readHolder(filepath.Join(dir, lockName))
	return &HeldError{Dir: dir, PID: h.PID, Host: h.Host}
}

// readHolder reads a lock file; the zero value where that is impossible.
func readHolder(path string) holder {
	var h holder
	if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// claim keeps other daemons off a state directory, by locks that all end with the
// process: on the lock file, on the directory, in which the lock file can be
// replaced, and on its place, at which the directory can be replaced.
type claim struct {
	dir             string
	file, directory *os.File
	// place is nil where the kernel grants none.
	place *place
	// opened reports whether the databases are there, or were there once as far as the
	// lock file says.
	opened bool
}

// errHeld is that somebody else has a lock.
var errHeld = errors.New("held")

// take claims a directory, or returns a HeldError if it is not free by a deadline.
// Before is the claim that this process has, empty for none: its locks are kept where
// they are still those of the directory.
func take(dir string, before *claim, deadline time.Time) (_ *claim, err error) {
	c := &claim{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release(before))
		}
	}()
	if c.directory, err = os.Open(dir); err != nil {
		return nil, c.wrap(err)
	}
	if c.place, err = takePlace(c.directory, before.place, deadline); err != nil {
		return nil, c.wrap(err)
	}
	if c.directory, err = lockFile(c.directory, before.directory, deadline); errors.Is(err, errHeld) {
		return nil, c.wrap(err)
	} // where directories cannot be locked, as on NFS, the file is
	path := filepath.Join(dir, lockName)
	if c.file, err = createFile(path, os.O_RDWR, 0o600); errors.Is(err, fs.ErrExist) {
		c.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, c.wrap(err)
	}
	if c.file, err = lockFile(c.file, before.file, deadline); err != nil {
		return nil, c.wrap(err)
	}
	c.opened = before.opened || readHolder(path).Opened
	if err = c.sign(); err != nil {
		return nil, c.wrap(err)
	}
	return c, nil
}

// lockFile locks a file as soon as it is free, or returns errHeld at the deadline.
// Where the file is the one that before, if not nil, has locked, it returns that.
func lockFile(file, before *os.File, deadline time.Time) (*os.File, error) {
	if before != nil && isSameFile(file, before) {
		return before, file.Close()
	}
	return file, retry(deadline, func() error {
		if free, err := tryLock(file); err != nil || free {
			return err
		}
		return errHeld
	})
}

// retry calls try until it does not return an errHeld, or until the deadline.
func retry(deadline time.Time, try func() error) error {
	for {
		err := try()
		if !errors.Is(err, errHeld) || !time.Now().Before(deadline) {
			return err
		}
		<-time.After(lockWait / 20)
	}
}

// wrap names the directory in an error of its locks.
func (c *claim) wrap(err error) error {
	var held *HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		held.Dir = c.dir
		return held
	case errors.Is(err, errHeld):
		return heldBy(c.dir)
	}
	return fmt.Errorf("lock state directory %q: %w", c.dir, err)
}

func isSameFile(a, b *os.File) bool {
	info, err := a.Stat()
	other, otherErr := b.Stat()
	return err == nil && otherErr == nil && os.SameFile(info, other)
}

// sign writes who holds the directory. That it cannot be written for lack of
// room is no reason not to start.
func (c *claim) sign() error {
	host, _ := os.Hostname() // an unknown host is an empty one
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC(), Opened: c.opened})
	if err != nil {
		return err
	}
	if err := c.file.Truncate(0); err != nil {
		return err
	}
	if _, err := c.file.WriteAt(append(text, '\n'), 0); err != nil && !outOfRoom(err) {
		return err
	}
	return nil
}

// inPlace reports whether the directory and the lock file are those at their paths.
func (c *claim) inPlace() bool {
	return isAt(c.directory, c.dir) && isAt(c.file, filepath.Join(c.dir, lockName))
}

func isAt(file *os.File, path string) bool {
	own, err := file.Stat()
	found, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(own, found)
}

// release lets go of the locks that another claim does not have too.
func (c *claim) release(kept *claim) error {
	var errs []error
	if c.file != nil && c.file != kept.file {
		errs = append(errs, c.file.Close())
	}
	if c.directory != nil && c.directory != kept.directory {
		errs = append(errs, c.directory.Close())
	}
	if c.place != nil && c.place != kept.place {
		errs = append(errs, c.place.Close())
	}
	return errors.Join(errs...)
}

// tryLock locks a file for this process; false when another one has it.
func tryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlock lets go of a file's lock, which closing it does not do as long as it is
// mapped into memory.
func unlock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_UN) }

// outOfRoom reports whether a write failed for lack of room.
func outOfRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
