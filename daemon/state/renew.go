package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// renewPause is for how many times as long as it took nothing is done after files could
// not be written anew, so that what may be much work leaves time for others.
const renewPause = 10

// renewal says how writing files anew failed last, and until when it is not tried again.
type renewal struct {
	err   error
	pause time.Time
}

// renew makes sure that what is written next can be found by the next start: where the
// directory or a file in it was removed or replaced, which writes to open files do not
// notice, it claims the directory again, and writes the files that are not in their
// places anew, whole, from those that are open. It begins every write.
func (s *store) renew() error {
	s.claim.place.notice()
	if s.claim.inPlace() && s.state.inPlace() && s.history.inPlace() {
		s.renewal = renewal{}
		return nil
	}
	started := time.Now()
	if s.renewal.err != nil && started.Before(s.renewal.pause) {
		return s.renewal.err
	}
	s.renewal = renewal{}
	if err := s.renewAll(); err != nil {
		s.renewal.pause = time.Now().Add(renewPause * time.Since(started))
		s.renewal.err = fmt.Errorf("state directory %q was removed or replaced while hpad runs, and cannot be written anew: %w", s.claim.dir, err)
		switch {
		case errors.Is(err, fs.ErrPermission):
			s.renewal.err = fmt.Errorf("%w; make it, and let the user that hpad runs as own it (install -d -o)", s.renewal.err)
		case errors.Is(err, syscall.EROFS): // as for a unit of systemd that may write to this directory alone
			s.renewal.err = fmt.Errorf("%w; save the files from /proc/%d/fd before hpad ends, as docs/operations.md shows", s.renewal.err, os.Getpid())
		}
	}
	return s.renewal.err
}

func (s *store) renewAll() error {
	dir := s.claim.dir
	if err := makeDir(dir); err != nil {
		return err
	}
	next, err := take(dir, s.claim, time.Time{})
	if err != nil {
		return err
	}
	before := s.claim
	s.claim = next
	if err := before.release(next); err != nil {
		s.options.Log.Warn("the lock of a state directory that was removed cannot be let go of", zap.NamedError("err", err))
	}
	var written []string
	for _, d := range []*database{s.state, s.history} {
		if d.inPlace() {
			continue
		}
		aside, err := d.writeAnew()
		if err != nil {
			return err
		}
		name := filepath.Base(d.path)
		if aside != "" {
			name += fmt.Sprintf(" (what was there in its place is %q now)", aside)
		}
		written = append(written, name)
	}
	if len(written) == 0 { // a lock file alone is nobody's loss
		return nil
	}
	return s.lose(DirectoryPart, fmt.Sprintf("removed or replaced while hpad ran, and written anew with all that hpad knows: %s in %q",
		strings.Join(written, ", "), dir))
}

// inPlace reports whether the open file is the one at the database's path.
func (d *database) inPlace() bool { return isAt(d.file, d.path) }

// writeAnew writes what the open file holds to the database's path, and goes on with
// that. What is there in its place is set aside, as aside.
func (d *database) writeAnew() (aside string, err error) {
	draft := d.path + draftSuffix
	if err := copyFile(d.file, draft); err != nil {
		return "", errors.Join(err, remove(draft))
	}
	next := &database{path: d.path, buckets: d.buckets}
	if err := next.open(draft); err != nil {
		return "", errors.Join(fmt.Errorf("what hpad wrote to %q is not what it holds: %w", draft, err), remove(draft))
	}
	if exists(d.path) {
		if aside, err = setAside(d.path, "replaced"); err != nil {
			return "", errors.Join(err, next.close(), remove(draft))
		}
	}
	if err := os.Rename(draft, d.path); err != nil {
		return "", errors.Join(err, next.close(), remove(draft))
	}
	d.replacing.Lock()
	before := &opened{db: d.db, file: d.file}
	before.broken.Store(d.broken.Load())
	d.db, d.file = next.db, next.file
	d.broken.Store(nil)
	d.replacing.Unlock()
	_ = before.close() // nobody can find it any more
	return aside, syncDir(filepath.Dir(d.path))
}

func copyFile(from *os.File, path string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := remove(path); err != nil {
		return err
	}
	to, err := createFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(from, 0, info.Size()))
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
