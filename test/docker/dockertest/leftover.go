package dockertest

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// prefix is the name prefix of the engines' directories.
const prefix = "hpad-docker-"

// lockName is the name of a file in an engine's directory. The test process holds a lock on it; a
// directory without a lock is a leftover.
const lockName = "lock"

// claim returns a new, locked directory.
func claim() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	unnamed := filepath.Join(dir, "locking")
	lock, err = os.Create(unnamed)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(unnamed, filepath.Join(dir, lockName))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// removeLeftovers removes the files, cgroups and mounts of killed tests.
func removeLeftovers() error {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", lockName))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, openErr := os.Open(path)
		if openErr != nil {
			continue // removed by another process
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			dir := filepath.Dir(path)
			_ = unix.Unmount(filepath.Join(dir, "data"), unix.MNT_DETACH)
			err = errors.Join(err, removeCgroups(filepath.Base(dir)), os.RemoveAll(dir))
		}
		_ = lock.Close()
	}
	return err
}
