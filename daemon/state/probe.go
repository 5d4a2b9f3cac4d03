package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	probeName = ".probe"
	// probeSize is the free space that a member needs to open the state of a fleet.
	probeSize = 1 << 20
)

// Probe returns an error if a file of probeSize cannot be written in dir: the disk is full or
// read-only, or a permission is missing. It creates dir if it is missing. It does not sync the file,
// so the kernel usually writes nothing to the disk.
func Probe(dir string) error {
	path := filepath.Join(dir, probeName)
	err := makeDir(dir)
	if err == nil {
		err = os.WriteFile(path, make([]byte, probeSize), 0o600)
		err = errors.Join(err, remove(path))
	}
	if err != nil {
		return fmt.Errorf("cannot store state in %w", unwritten(dir, err))
	}
	return nil
}
