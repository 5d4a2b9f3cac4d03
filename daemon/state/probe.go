package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	probeName = ".probe"
	// probeSize is the free space that a member needs to open the state of a fleet.
	probeSize = 1 << 20
)

// Probe returns an error if a file of probeSize cannot be stored in dir: the disk is full or
// read-only, or a permission is missing. It creates dir if it is missing.
func Probe(dir string) error {
	path := filepath.Join(dir, probeName)
	err := makeDir(dir)
	if err == nil {
		err = errors.Join(reserve(path), remove(path))
	}
	if err != nil {
		return fmt.Errorf("cannot store state in %w", unwritten(dir, err))
	}
	return nil
}

// reserve creates a file of probeSize. It writes the content only if the file system cannot reserve
// space without it.
func reserve(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Fallocate(int(file.Fd()), 0, 0, probeSize)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, probeSize))
	} else if err != nil {
		err = &os.PathError{Op: "write", Path: path, Err: err}
	}
	return errors.Join(err, file.Close())
}
