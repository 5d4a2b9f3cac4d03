package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lockName is the file that says who holds the directory. It stays when nobody
// does: what counts is the lock on it, which ends with its process.
const lockName = "lock"

// lockWait is how long Open waits for another daemon to let go of the directory,
// so that one that is just ending is no hindrance.
const lockWait = time.Second

// holder is what the lock file tells.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// HeldError says that another hpad uses the state directory.
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

// heldBy makes the error from what the lock file tells.
func heldBy(dir string) *HeldError {
	held := &HeldError{Dir: dir}
	var h holder
	if text, err := os.ReadFile(filepath.Join(dir, lockName)); err == nil && json.Unmarshal(text, &h) == nil {
		held.PID, held.Host = h.PID, h.Host
	}
	return held
}

// lock takes the directory, or answers a HeldError. Closing the file lets go.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state directory %q: %w", dir, err)
	}
	free, err := tryLock(file)
	for deadline := time.Now().Add(lockWait); err == nil && !free && time.Now().Before(deadline); {
		<-time.After(lockWait / 20)
		free, err = tryLock(file)
	}
	if err == nil && free {
		err = sign(file)
	}
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock state directory %q: %w", dir, err), file.Close())
	case !free:
		return nil, errors.Join(heldBy(dir), file.Close())
	}
	return file, nil
}

// sign writes who holds the directory. That it cannot be written for lack of
// room is no reason not to start.
func sign(file *os.File) error {
	host, _ := os.Hostname() // an unknown host is an empty one
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	if _, err := file.WriteAt(append(text, '\n'), 0); err != nil && !outOfRoom(err) {
		return err
	}
	return nil
}
