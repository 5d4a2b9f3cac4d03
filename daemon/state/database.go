package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/pages"
	"github.com/hpad/hpad/guard"
)

// metaBucket contains the values that describe a database, such as its format.
var (
	metaBucket = []byte("meta")
	formatKey  = []byte("format")
)

// damagedError is returned for a file whose content is invalid. Open has renamed the file, so the
// next start creates an empty file.
type damagedError struct {
	// Path is the original path of the file. Aside is its new path, or "" if the rename failed.
	Path, Aside string
	Err         error
}

func (e *damagedError) Error() string {
	if e.Aside == "" {
		return fmt.Sprintf("%q is damaged: %v: move it away or restore a copy, then start again", e.Path, e.Err)
	}
	return fmt.Sprintf("%q is damaged: %v: it was renamed to %q; restore a copy, or start again with an empty one",
		e.Path, e.Err, e.Aside)
}

func (e *damagedError) Unwrap() error { return e.Err }

// database is a verified bbolt file.
type database struct {
	path    string
	buckets [][]byte

	// replacing protects handle, because renew replaces it.
	replacing sync.RWMutex
	handle    *handle
}

// handle is an open bbolt file.
type handle struct {
	db   *bolt.DB
	file *os.File
	// broken is set after a panic in a write. After that, bbolt's locks and memory are unreliable,
	// but the file is intact.
	broken atomic.Pointer[guard.Panic]
}

// openDatabase opens and verifies the bbolt file at path. It creates a missing file with its
// buckets and the content that fill writes. It renames a damaged file and returns a damagedError.
// It returns a formatError for a file with a newer format.
func openDatabase(path string, fill func(*bolt.Tx) error) (*database, error) {
	buckets := buckets[filepath.Base(path)]
	if !exists(path) {
		if err := createDatabase(path, buckets, fill); err != nil {
			return nil, fmt.Errorf("create %q: %w", path, err)
		}
	}
	d := &database{path: path, buckets: buckets}
	err := d.open(path)
	var format *formatError
	switch {
	case err == nil:
		return d, nil
	case errors.As(err, &format):
		format.Path = path
		return nil, format
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &heldError{Dir: filepath.Dir(path)}
	case isSystemError(err):
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	return nil, damaged(path, err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// isSystemError reports whether an error comes from the operating system and thus does not prove
// that the file is damaged.
func isSystemError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

var errEmpty = errors.New("the file is empty")

// open opens and verifies the file at path. It closes all files after an error.
func (d *database) open(path string) error {
	var err error
	if d.handle, err = openHandle(path, false); err != nil {
		return err
	}
	if err := d.verify(); err != nil {
		return errors.Join(err, d.handle.abandon())
	}
	return nil
}

// openHandle opens a bbolt file. It closes all files after an error.
func openHandle(path string, readOnly bool) (*handle, error) {
	h := &handle{}
	options := bolt.Options{
		Timeout: pages.LockWait, FreelistType: bolt.FreelistMapType, NoStatistics: true,
		ReadOnly: readOnly, PreLoadFreelist: readOnly,
	}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		if h.file, err = pages.OpenFile(name, flag&^os.O_CREATE, mode); err != nil {
			return nil, err
		}
		// bbolt would initialize an empty file as a new database.
		if info, err := h.file.Stat(); err != nil || info.Size() == 0 {
			return nil, errors.Join(err, errEmpty, h.file.Close())
		}
		return h.file, nil
	}
	err := pages.Catch(func() (err error) {
		h.db, err = bolt.Open(path, 0o600, &options)
		return err
	})
	if err != nil {
		h.db = nil
		return nil, errors.Join(err, h.abandon())
	}
	return h, nil
}

// draftSuffix is the file name suffix of an incomplete database.
const draftSuffix = ".new"

// createDatabase creates a database under a temporary name and renames it when it is complete.
func createDatabase(path string, buckets [][]byte, fill func(*bolt.Tx) error) error {
	draft := path + draftSuffix
	if err := createDraft(draft, buckets, fill); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// createDraft creates a database and replaces an incomplete one from an earlier attempt. fill may
// be nil.
func createDraft(draft string, buckets [][]byte, fill func(*bolt.Tx) error) error {
	if err := remove(draft); err != nil {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{Timeout: pages.LockWait, NoStatistics: true, OpenFile: createFile})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range append([][]byte{metaBucket}, buckets...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		if err := tx.Bucket(metaBucket).Put(formatKey, []byte(strconv.Itoa(plainFormat))); err != nil || fill == nil {
			return err
		}
		return fill(tx)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, remove(draft))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// damaged sets a file aside and returns the error for it.
func damaged(path string, damage error) *damagedError {
	aside, err := setAside(path)
	if err != nil {
		damage = fmt.Errorf("%w; rename it: %w", damage, err)
	}
	return &damagedError{Path: path, Aside: aside, Err: damage}
}

// damagedMark is added to the path of a damaged file, followed by the time.
const damagedMark = ".damaged-"

// setAside renames a damaged file. It does not replace an existing file. It returns the new path,
// or "" after an error.
func setAside(path string) (string, error) {
	stamp := path + damagedMark + time.Now().UTC().Format("20060102T150405Z")
	aside := stamp
	for n := 2; exists(aside); n++ {
		aside = stamp + "-" + strconv.Itoa(n)
	}
	err := os.Rename(path, aside)
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", err
	}
	return aside, nil
}

// asideNames returns the paths of the files that setAside renamed, newest last.
func asideNames(path string) []string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries { // sorted by name, and so by time
		if strings.HasPrefix(entry.Name(), filepath.Base(path)+damagedMark) {
			names = append(names, filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
	return names
}

// verify checks the format and every value. Package pages has checked the structure of the file.
func (d *database) verify() error {
	return d.view(func(tx *bolt.Tx) error {
		if err := verifyFormat(tx); err != nil {
			return err
		}
		for _, name := range d.buckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("bucket %q is missing", name)
			}
		}
		return eachValue(tx, func(path []string, key, value []byte) error {
			if isFormat(path, key) {
				return nil
			}
			if _, err := unseal(sealKey(path, key), value); err != nil {
				return fmt.Errorf("bucket %q: %q: %w", path, key, err)
			}
			return nil
		})
	})
}

func verifyFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return errors.New("the database was not created by hpad")
	}
	version, err := strconv.Atoi(string(meta.Get(formatKey)))
	switch {
	case err != nil:
		return fmt.Errorf("format: %w", err)
	case version < 1:
		return fmt.Errorf("format %d is invalid", version)
	case version < plainFormat || version > formatVersion:
		return &formatError{Version: version}
	}
	return meta.ForEach(func(key, value []byte) error {
		if bytes.Equal(key, formatKey) {
			return nil
		}
		if err := checkMeta(key, value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
}

// eachValue calls do for each value in all buckets, with the names of its nested buckets as path.
// It returns an error if a key cannot be found.
func eachValue(tx *bolt.Tx, do func(path []string, key, value []byte) error) error {
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error { return eachIn(bucket, []string{string(name)}, do) })
}

func eachIn(bucket *bolt.Bucket, path []string, do func(path []string, key, value []byte) error) error {
	cursor := bucket.Cursor()
	return bucket.ForEach(func(key, value []byte) error {
		switch found, _ := cursor.Seek(key); {
		case !bytes.Equal(found, key):
			return fmt.Errorf("bucket %q: %q: the key is out of order", path, key)
		case value != nil:
			return do(path, key, value)
		case len(path) > 1:
			return fmt.Errorf("bucket %q: %q: the bucket is too deep", path, key)
		}
		return eachIn(bucket.Bucket(key), []string{path[0], string(key)}, do)
	})
}

// isFormat reports whether a key is the format key. The value of this key is not sealed.
func isFormat(path []string, key []byte) bool {
	return path[0] == string(metaBucket) && bytes.Equal(key, formatKey)
}

// view runs a read transaction. Values that it returns are valid only during the transaction.
func (d *database) view(read func(*bolt.Tx) error) error {
	d.replacing.RLock()
	defer d.replacing.RUnlock()
	return pages.Catch(func() error { return d.handle.db.View(read) })
}

func (d *database) update(write func(*bolt.Tx) error) error {
	if broken := d.handle.broken.Load(); broken != nil {
		return fmt.Errorf("rejected after an earlier failure, restart hpad: %w", broken)
	}
	err := pages.Catch(func() error {
		return d.handle.db.Update(func(tx *bolt.Tx) error {
			releasePages(tx)
			return write(tx)
		})
	})
	if panicked, ok := errors.AsType[*guard.Panic](err); ok {
		d.handle.broken.Store(panicked)
	}
	return err
}

// releasePages lets the kernel drop the pages that earlier transactions read. After loading, most
// pages of a large file are never read again but would remain in memory.
func releasePages(tx *bolt.Tx) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED) // an optimization only
}

func (h *handle) close() error {
	if h.broken.Load() != nil {
		return h.abandon()
	}
	return pages.Catch(h.db.Close)
}

func (h *handle) abandon() error {
	if h.db != nil && h.broken.Load() == nil {
		return pages.Catch(h.db.Close)
	}
	if h.file == nil {
		return nil
	}
	err := errors.Join(unlock(h.file), h.file.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (d *database) close() error { return d.handle.close() }

// renew recreates files that are no longer at their paths. Writes to an open file succeed even
// after its directory was removed, but hpad would not find the file at its next start. Every write
// calls renew first.
func (s *store) renew() error {
	var written []string
	for _, d := range []*database{s.state, s.history} {
		if d.inPlace() {
			continue
		}
		if err := s.writeAgain(d); err != nil {
			err = fmt.Errorf("recreate state directory %q, which was removed or replaced: %w", s.dir, err)
			switch {
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w; create it, owned by the user that runs hpad (install -d -o)", err)
			case errors.Is(err, syscall.EROFS): // for example a systemd unit that may write only to this directory
				return fmt.Errorf("%w; save the files from /proc/%d/fd before hpad stops, see docs/operations.md", err, os.Getpid())
			}
			return err
		}
		written = append(written, filepath.Base(d.path))
	}
	if len(written) == 0 {
		return nil
	}
	return s.lose(DirectoryPart, fmt.Sprintf("files were removed while hpad ran, and recreated without loss: %s in %q",
		strings.Join(written, ", "), s.dir))
}

func (d *database) inPlace() bool {
	own, err := d.handle.file.Stat()
	found, statErr := os.Stat(d.path)
	return err == nil && statErr == nil && os.SameFile(own, found)
}

// writeAgain recreates a database file that was removed: it copies the open file to its former path
// and continues with the copy. It returns an error if another file exists at that path.
func (s *store) writeAgain(d *database) error {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	if err := checkUnlocked(d.path, s.dir, 0); err != nil {
		return err
	}
	if exists(d.path) {
		return fmt.Errorf("%q was replaced by a different file: move that file away, or stop hpad to use it", d.path)
	}
	draft := d.path + draftSuffix
	next, err := d.copyTo(draft)
	if err != nil {
		return errors.Join(err, remove(draft))
	}
	if err := os.Rename(draft, d.path); err != nil {
		return errors.Join(err, next.close(), remove(draft))
	}
	d.replacing.Lock()
	before := d.handle
	d.handle = next
	d.replacing.Unlock()
	_ = before.close() // its file is already unlinked
	return syncDir(s.dir)
}

// copyTo copies the database to a new file and opens the copy.
func (d *database) copyTo(path string) (*handle, error) {
	if err := remove(path); err != nil {
		return nil, err
	}
	to, err := createFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = d.view(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(to)
		return err
	})
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	return openHandle(path, false)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
