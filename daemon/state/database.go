package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// metaBucket holds what a database says of itself.
var (
	metaBucket = []byte("meta")
	formatKey  = []byte("format")
)

// DamagedError says that a file of the store cannot be trusted. Open has set it
// aside, so that the next start begins with an empty one.
type DamagedError struct {
	// Path is the file, Aside what it was renamed to; empty when that failed.
	Path, Aside string
	// Err says what is wrong with the file, and why it could not be renamed.
	Err error
}

// Error names the file, what is wrong, where it is now, and what to do.
func (e *DamagedError) Error() string {
	if e.Aside == "" {
		return fmt.Sprintf("%q is damaged: %v: move it away, or put a copy of it back, and start again", e.Path, e.Err)
	}
	return fmt.Sprintf("%q is damaged: %v: it was set aside as %q; put a copy of it back, or start again to begin with an empty one",
		e.Path, e.Err, e.Aside)
}

// Unwrap answers what is wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Err }

// database is a bbolt file that was found sound when it was opened.
type database struct {
	path string
	db   *bolt.DB
	// file is the one that db holds, to let go of it when db cannot be closed.
	file *os.File
	// broken is set after a panic in a write: bbolt's own state cannot be trusted
	// then, the file's can.
	broken atomic.Pointer[panicError]
}

// openDatabase opens the bbolt file at path, and makes it with the buckets if
// there is none. Every page and value is looked at. A damaged file is set aside
// and answered as a DamagedError, a newer one as a FormatError.
func openDatabase(path string, buckets ...[]byte) (*database, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createDatabase(path, buckets); err != nil {
			return nil, fmt.Errorf("create %q: %w", path, err)
		}
	}
	d, err := openFile(path)
	if err == nil {
		if err = d.verify(buckets); err == nil {
			return d, nil
		}
	}
	closeErr := d.abandon()
	var format *FormatError
	switch {
	case errors.As(err, &format):
		format.Path = path
		return nil, format
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, heldBy(filepath.Dir(path))
	case isTrouble(err):
		return nil, fmt.Errorf("open %q: %w", path, errors.Join(err, closeErr))
	}
	return nil, setAside(path, err)
}

// isTrouble says whether an error comes from the operating system, and so tells
// nothing about the file's content.
func isTrouble(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

var errEmpty = errors.New("the file is empty")

// openFile opens a bbolt file. The database that it answers holds the file even
// if opening failed, so that it can be let go of.
func openFile(path string) (*database, error) {
	d := &database{path: path}
	err := guard(func() (err error) {
		d.db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:      lockWait,
			FreelistType: bolt.FreelistMapType,
			NoStatistics: true,
			OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
				if d.file, err = os.OpenFile(name, flag&^os.O_CREATE, mode); err != nil {
					return nil, err
				}
				// bbolt would make a new database of an empty file.
				if info, err := d.file.Stat(); err != nil || info.Size() == 0 {
					return nil, errors.Join(err, errEmpty, d.file.Close())
				}
				return d.file, nil
			},
		})
		return err
	})
	if err != nil {
		d.db = nil
	}
	return d, err
}

// createDatabase makes an empty database under another name and gives it its own
// when it is complete, so that a file found under that name is never a part of
// one.
func createDatabase(path string, buckets [][]byte) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{Timeout: lockWait, NoStatistics: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(formatKey, []byte(strconv.Itoa(formatVersion)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// setAside renames a damaged file, never onto another one, and answers the error
// that tells of it.
func setAside(path string, damage error) *DamagedError {
	stamp := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	aside := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = stamp + "-" + strconv.Itoa(n)
	}
	err := os.Rename(path, aside)
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return &DamagedError{Path: path, Err: fmt.Errorf("%w; setting it aside: %w", damage, err)}
	}
	return &DamagedError{Path: path, Aside: aside, Err: damage}
}

// verify looks at the format, at every value, and at the structure of the file.
func (d *database) verify(buckets [][]byte) error {
	return d.view(func(tx *bolt.Tx) error {
		if info, err := d.file.Stat(); err != nil {
			return err
		} else if info.Size() < tx.Size() {
			return fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
		}
		if err := verifyPages(tx, d.file); err != nil {
			return err
		}
		if err := verifyFormat(tx); err != nil {
			return err
		}
		for _, name := range buckets {
			bucket := tx.Bucket(name)
			if bucket == nil {
				return fmt.Errorf("bucket %q is missing", name)
			}
			if err := verifyValues(bucket, ""); err != nil {
				return fmt.Errorf("bucket %q: %w", name, err)
			}
		}
		// What is left is the order of keys and the list of free pages.
		var damage []error
		for err := range tx.Check() {
			if len(damage) < 3 {
				damage = append(damage, err)
			}
		}
		return errors.Join(damage...)
	})
}

func verifyFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return errors.New("it is a database, but not one of hpad's")
	}
	version, err := strconv.Atoi(string(meta.Get(formatKey)))
	switch {
	case err != nil:
		return fmt.Errorf("format: %w", err)
	case version > formatVersion:
		return &FormatError{Version: version}
	case version < 1:
		return fmt.Errorf("format %d has never been one", version)
	}
	return meta.ForEach(func(key, value []byte) error {
		if bytes.Equal(key, formatKey) {
			return nil
		}
		if _, err := unseal(string(key), value); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
}

// verifyValues looks at every value of a bucket and of those inside it, which
// prefix seals.
func verifyValues(bucket *bolt.Bucket, prefix string) error {
	return bucket.ForEach(func(key, value []byte) error {
		var err error
		if value == nil {
			err = verifyValues(bucket.Bucket(key), nestedKey(string(key), ""))
		} else {
			_, err = unseal(prefix+string(key), value)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
}

// view runs a read transaction. What is read is valid until it ends.
func (d *database) view(read func(*bolt.Tx) error) error {
	return guard(func() error { return d.db.View(read) })
}

// update runs a write transaction: all of it or nothing.
func (d *database) update(write func(*bolt.Tx) error) error {
	if broken := d.broken.Load(); broken != nil {
		return fmt.Errorf("not written since an earlier failure; start hpad again: %w", broken)
	}
	err := guard(func() error { return d.db.Update(write) })
	var panicked *panicError
	if errors.As(err, &panicked) {
		d.broken.Store(panicked)
	}
	return err
}

// close closes the file after the transactions under way.
func (d *database) close() error {
	if d.broken.Load() != nil {
		return d.abandon() // bbolt's locks may be held for good
	}
	return guard(d.db.Close)
}

// abandon lets go of a file that was found damaged, or that bbolt cannot close.
func (d *database) abandon() error {
	if d.db != nil && d.broken.Load() == nil {
		return guard(d.db.Close)
	}
	if d.file == nil {
		return nil
	}
	err := errors.Join(unlock(d.file), d.file.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil // bbolt closed it
	}
	return err
}

// panicError is a panic that was caught: bbolt panics on what a damaged file may
// hold.
type panicError struct{ value any }

func (e *panicError) Error() string {
	if fault, ok := e.value.(runtime.Error); ok {
		return fmt.Sprintf("a page cannot be read: %v", fault)
	}
	return fmt.Sprint(e.value)
}

// guard runs f and answers a panic as an error, that of a page which cannot be
// read included: the file is mapped into memory, and reading past its end or a
// bad sector is a fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value}
		}
	}()
	return f()
}
