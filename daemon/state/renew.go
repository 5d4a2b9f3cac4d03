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

// renew recreates files that are no longer at their paths. Writes to an open file succeed even
// after its directory was removed, but the next start would not find them. Every write calls
// renew first.
func (s *store) renew() error {
	var written []string
	for _, d := range []*database{s.state, s.history} {
		if d.inPlace() {
			continue
		}
		aside, err := s.writeAgain(d)
		if err != nil {
			err = fmt.Errorf("recreate state directory %q, which was removed or replaced: %w", s.dir, err)
			switch {
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w; create it with the user of hpad as owner (install -d -o)", err)
			case errors.Is(err, syscall.EROFS): // for example a systemd unit that may write only to this directory
				return fmt.Errorf("%w; save the files from /proc/%d/fd before hpad stops, see docs/operations.md", err, os.Getpid())
			}
			return err
		}
		name := filepath.Base(d.path)
		if aside != "" {
			name += fmt.Sprintf(" (the file at its path was renamed to %q)", aside)
		}
		written = append(written, name)
	}
	if len(written) == 0 {
		return nil
	}
	return s.lose(DirectoryPart, fmt.Sprintf("files were removed or replaced while hpad ran, and recreated without loss: %s in %q",
		strings.Join(written, ", "), s.dir))
}

func (d *database) inPlace() bool {
	own, err := d.handle.file.Stat()
	found, statErr := os.Stat(d.path)
	return err == nil && statErr == nil && os.SameFile(own, found)
}

// writeAgain copies the open file to its path and continues with the copy. A file at that path
// is set aside, unless another process uses it.
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
	next, err := openHandle(draft, false)
	if err != nil {
		return "", err
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
	before := d.handle
	d.handle = next
	d.replacing.Unlock()
	_ = before.close() // its file is already unlinked
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

// remove removes a file if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
