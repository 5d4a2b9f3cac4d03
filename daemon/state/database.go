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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// metaBucket holds what a database says of itself.
var (
	metaBucket = []byte("meta")
	formatKey  = []byte("format")
)

// DamagedError is that a file of the store cannot be trusted. Open has set it
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

// Unwrap returns what is wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Err }

// database is a bbolt file that was found sound when it was opened.
type database struct {
	path    string
	buckets [][]byte

	// replacing is held by reads, and for writing while another file takes the place
	// of the one that is open.
	replacing sync.RWMutex
	opened
}

type opened struct {
	db *bolt.DB
	// file is the one that db holds, to let go of it when db cannot be closed.
	file *os.File
	// broken is set after a panic in a write: bbolt's own state cannot be trusted
	// then, the file's can.
	broken atomic.Pointer[panicError]
}

// openDatabase opens the bbolt file at path, and makes it with its buckets, and what
// fill puts into it, if there is none. Every page and value is looked at. A damaged
// file is set aside and returned as a DamagedError, a newer one as a FormatError.
func openDatabase(path string, fill func(*bolt.Tx) error) (*database, error) {
	buckets := buckets[filepath.Base(path)]
	if !exists(path) {
		if err := createDatabase(path, buckets, fill); err != nil {
			return nil, fmt.Errorf("create %q: %w", path, err)
		}
	}
	d := &database{path: path, buckets: buckets}
	err := d.open(path)
	var format *FormatError
	switch {
	case err == nil:
		return d, nil
	case errors.As(err, &format):
		format.Path = path
		return nil, format
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &HeldError{Dir: filepath.Dir(path)}
	case isTrouble(err):
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	return nil, damaged(path, err)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// isTrouble reports whether an error comes from the operating system, and so says
// nothing about the file's content.
func isTrouble(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

var errEmpty = errors.New("the file is empty")

// open opens the file at path, which need not be the database's own, and verifies it.
// On an error nothing is open.
func (d *database) open(path string) error {
	err := d.openFile(path)
	if err == nil {
		err = d.verify()
	}
	if err != nil {
		err = errors.Join(err, d.abandon())
	}
	return err
}

// openFile opens a bbolt file. The file is held even if that failed, so that it can
// be let go of.
func (d *database) openFile(path string) error {
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
	return err
}

// draftSuffix is the end of the name that a database has until it is complete.
const draftSuffix = ".new"

// createDatabase creates an empty database under another name and renames it when it is
// complete, so that no file under its own name is incomplete.
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

// createDraft creates an empty database in place of an incomplete one. Fill may be nil.
func createDraft(draft string, buckets [][]byte, fill func(*bolt.Tx) error) error {
	if err := remove(draft); err != nil {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{Timeout: lockWait, NoStatistics: true, OpenFile: createFile})
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

// damaged sets a file aside, and returns the error about it.
func damaged(path string, damage error) *DamagedError {
	aside, err := setAside(path, "damaged")
	if err != nil {
		damage = fmt.Errorf("%w; setting it aside: %w", damage, err)
	}
	return &DamagedError{Path: path, Aside: aside, Err: damage}
}

// setAside renames a file to its name, a word and the time, never onto another one,
// and returns what it is named now; on an error that is empty.
func setAside(path, word string) (string, error) {
	stamp := path + "." + word + "-" + time.Now().UTC().Format("20060102T150405Z")
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

// asideNames returns what a file was renamed to by setAside, the latest last.
func asideNames(path, word string) []string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries { // in the order of names, and so of times
		if strings.HasPrefix(entry.Name(), filepath.Base(path)+"."+word+"-") {
			names = append(names, filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
	return names
}

// cutError is that a file is shorter than what was written to it.
type cutError struct{ has, of int64 }

func (e *cutError) Error() string { return fmt.Sprintf("the file has %d bytes of %d", e.has, e.of) }

// verify checks the format, every value, and the structure of the file. bbolt's own Check
// runs in a goroutine where a pointer out of the file ends the process, and is therefore
// called last: the checks before it follow the same pointers, and return an error.
func (d *database) verify() error {
	return d.view(func(tx *bolt.Tx) error {
		if info, err := d.file.Stat(); err != nil {
			return err
		} else if info.Size() < tx.Size() {
			return &cutError{info.Size(), tx.Size()}
		}
		if err := verifyPages(tx); err != nil {
			return err
		}
		if err := verifyFormat(tx); err != nil {
			return err
		}
		for _, name := range d.buckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("bucket %q is missing", name)
			}
		}
		err := tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			if err := verifyValues(bucket, name); err != nil {
				return fmt.Errorf("bucket %q: %w", name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		var damage []error
		for err := range tx.Check(bolt.WithKVStringer(unprinted{})) {
			if len(damage) < 3 {
				damage = append(damage, err)
			}
		}
		return errors.Join(damage...)
	})
}

// unprinted keeps bbolt's Check from reading a key or value whose size is damaged.
type unprinted struct{}

func (unprinted) KeyToString([]byte) string   { return "a key" }
func (unprinted) ValueToString([]byte) string { return "a value" }

func verifyFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return errors.New("it is a database, but not one of hpad's")
	}
	version, err := strconv.Atoi(string(meta.Get(formatKey)))
	switch {
	case err != nil:
		return fmt.Errorf("format: %w", err)
	case version < 1:
		return fmt.Errorf("format %d has never been one", version)
	case version < plainFormat || version > formatVersion:
		return &FormatError{Version: version}
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

// verifyPages checks that each page in use is inside of the file.
func verifyPages(tx *bolt.Tx) error {
	pages := int(tx.Size() / int64(tx.DB().Info().PageSize))
	for id := 0; id < pages; {
		page, err := tx.Page(id)
		if err != nil {
			return err
		}
		if page.Type == "free" { // with the content of an earlier use
			id++
			continue
		}
		if id += 1 + page.OverflowCount; id > pages {
			return fmt.Errorf("page %d extends over %d pages, and the file has %d", page.ID, page.OverflowCount, pages)
		}
	}
	return nil
}

// verifyValues checks the values of a bucket and of the buckets in it, and that each key
// can be found.
func verifyValues(bucket *bolt.Bucket, path ...[]byte) error {
	cursor := bucket.Cursor()
	return bucket.ForEach(func(key, value []byte) error {
		var err error
		switch found, _ := cursor.Seek(key); {
		case !bytes.Equal(found, key):
			err = errors.New("the key is out of order")
		case value == nil && len(path) > 1:
			err = errors.New("the bucket is too deep")
		case value == nil:
			err = verifyValues(bucket.Bucket(key), append(path, key)...)
		case len(path) > 1:
			_, err = unseal(nestedKey(string(path[len(path)-1]), string(key)), value)
		case !bytes.Equal(path[0], metaBucket) || !bytes.Equal(key, formatKey):
			_, err = unseal(string(key), value)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		return nil
	})
}

// view runs a read transaction. What is read is valid until it ends.
func (d *database) view(read func(*bolt.Tx) error) error {
	d.replacing.RLock()
	defer d.replacing.RUnlock()
	return guard(func() error { return d.db.View(read) })
}

// update runs a write transaction: all of it or nothing.
func (d *database) update(write func(*bolt.Tx) error) error {
	if broken := d.broken.Load(); broken != nil {
		return fmt.Errorf("not written since an earlier failure; start hpad again: %w", broken)
	}
	err := guard(func() error {
		return d.db.Update(func(tx *bolt.Tx) error {
			unmapped(tx)
			return write(tx)
		})
	})
	var panicked *panicError
	if errors.As(err, &panicked) {
		d.broken.Store(panicked)
	}
	return err
}

// unmapped lets go of the pages of the file that were read before this transaction, in
// which nobody else maps the file. The system may keep them in its cache, and reads them
// again where they are needed: of a large file few are, once it is loaded.
func unmapped(tx *bolt.Tx) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED) // if not, they stay
}

// close closes the file after the transactions under way.
func (d *opened) close() error {
	if d.broken.Load() != nil {
		return d.abandon() // bbolt's locks may be held for good
	}
	return guard(d.db.Close)
}

// abandon lets go of a file that was found damaged, or that bbolt cannot close.
func (d *opened) abandon() error {
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

// guard runs f and returns a panic as an error, that of a page which cannot be
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
