package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// renew makes sure that the next start finds what is written next: writes to an open file
// succeed even after its directory was removed or replaced. It writes each file that is
// not at its path again from the open one. Every write starts with it.
func (s *store) renew() error {
	var written []string
	for _, d := range []*database{s.state, s.history} {
		if d.inPlace() {
			continue
		}
		aside, err := s.writeAgain(d)
		if err != nil {
			err = fmt.Errorf("state directory %q was removed or replaced while hpad runs, and cannot be written anew: %w", s.dir, err)
			switch {
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w; create it, and let the user that hpad runs as own it (install -d -o)", err)
			case errors.Is(err, syscall.EROFS): // as for a unit of systemd that may write only to this directory
				return fmt.Errorf("%w; save the files from /proc/%d/fd before hpad ends, as docs/operations.md shows", err, os.Getpid())
			}
			return err
		}
		name := filepath.Base(d.path)
		if aside != "" {
			name += fmt.Sprintf(" (the file found in its place is %q now)", aside)
		}
		written = append(written, name)
	}
	if len(written) == 0 {
		return nil
	}
	return s.lose(DirectoryPart, fmt.Sprintf("removed or replaced while hpad ran, and written anew with all that hpad knows: %s in %q",
		strings.Join(written, ", "), s.dir))
}

// inPlace reports whether the open file is the one at the database's path.
func (d *database) inPlace() bool {
	own, err := d.file.Stat()
	found, statErr := os.Stat(d.path)
	return err == nil && statErr == nil && os.SameFile(own, found)
}

// writeAgain writes the content of the open file to the database's path and continues
// with the new file. It renames a file that it finds there to aside, unless another
// process uses it.
func (s *store) writeAgain(d *database) (aside string, err error) {
	if err := makeDir(s.dir); err != nil {
		return "", err
	}
	if err := checkUnlocked(d.path, s.dir, 0); err != nil {
		return "", err
	}
	draft := d.path + draftSuffix
	defer func() {
		if err != nil {
			err = errors.Join(err, remove(draft))
		}
	}()
	if err := d.copyTo(draft); err != nil {
		return "", err
	}
	next := &database{path: d.path}
	if err := next.openFile(draft); err != nil {
		return "", errors.Join(err, next.abandon())
	}
	if exists(d.path) {
		if aside, err = setAside(d.path, "replaced"); err != nil {
			return "", errors.Join(err, next.close())
		}
	}
	if err := os.Rename(draft, d.path); err != nil {
		return "", errors.Join(err, next.close())
	}
	d.replacing.Lock()
	before := &opened{db: d.db, file: d.file}
	before.broken.Store(d.broken.Load())
	d.db, d.file = next.db, next.file
	d.broken.Store(nil)
	d.replacing.Unlock()
	_ = before.close() // it has no name any more
	return aside, syncDir(s.dir)
}

// copyTo writes the content of the database to a new file.
func (d *database) copyTo(path string) error {
	if err := remove(path); err != nil {
		return err
	}
	to, err := createFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = d.view(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(to)
		return err
	})
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// remove removes a file; a missing one is no error.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
