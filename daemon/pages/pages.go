// Package pages checks bbolt files before bbolt opens them.
//
// bbolt follows the page numbers, positions and lengths in a file without checks. In a damaged file
// they point to any address, which can end the process or allocate all memory, in goroutines of
// bbolt too. This package reads the file instead of mapping it, so that damage is an error.
package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
)

// ErrDamaged matches errors about the content of a file.
var ErrDamaged = errors.New("damaged file")

// damageError describes damage. It matches ErrDamaged.
type damageError struct{ text string }

func (e *damageError) Error() string { return e.text }

func (e *damageError) Is(target error) bool { return target == ErrDamaged }

// Catch calls f, which calls bbolt, and returns a panic as a [guard.Panic]. bbolt panics on content
// that became invalid after it opened the file. A memory fault is a panic, too: a mapped file causes
// it if it was truncated or is on a bad sector.
func Catch(f func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return guard.Call(f)
}

// LockWait is the maximum time that OpenFile waits until another process unlocks the file.
const LockWait = time.Second

// OpenFile opens, locks and verifies a file. It has the signature of bbolt's option OpenFile. It
// does not verify an empty file, which bbolt initializes. The error is bbolt's ErrTimeout if another
// process still locks the file after LockWait.
func OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	file, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		how = unix.LOCK_SH
	}
	if err = Lock(file, how, LockWait); errors.Is(err, unix.EWOULDBLOCK) {
		err = bolterrors.ErrTimeout
	}
	var info fs.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err == nil && info.Size() > 0 {
		err = verify(file, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Lock locks a file with flock until it is closed. It returns EWOULDBLOCK if another process still
// locks the file after wait.
func Lock(file *os.File, how int, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || !time.Now().Before(deadline) {
			return err
		}
	}
}

// Types of pages.
const (
	branch   = 1
	leaf     = 2
	freelist = 0x10
)

// Sizes in bytes. The elements of branches and leaves have the same size.
const (
	headerSize  = 16
	elementSize = 16
	bucketSize  = 16
	metaSize    = 64
	idSize      = 8
)

var order = binary.NativeEndian

// meta is the part of a meta page that describes the other pages. Sizes are in bytes.
type meta struct {
	pageSize, root, freelist, pages, transaction uint64
}

// checker reads the pages of a file.
type checker struct {
	file     io.ReaderAt
	pageSize uint64
	// used contains an element for each page.
	used []bool
}

// verify checks that all references in a bbolt file point into the file, that each page has exactly
// one use, and that the keys of each page are in order.
func verify(file io.ReaderAt, size int64) error {
	m, err := newestMeta(file, size)
	if err != nil {
		return err
	}
	if m.pages > uint64(size)/m.pageSize {
		return damage("the file has %d bytes, fewer than %d pages of %d bytes", size, m.pages, m.pageSize)
	}
	c := &checker{file: file, pageSize: m.pageSize, used: make([]bool, m.pages)}
	if err := errors.Join(c.use(0), c.use(1)); err != nil {
		return err
	}
	if err := c.free(m.freelist); err != nil {
		return err
	}
	for todo := []uint64{m.root}; len(todo) > 0; {
		id := todo[len(todo)-1]
		page, err := c.read(id)
		if err != nil {
			return err
		}
		more, err := references(page)
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		todo = append(todo[:len(todo)-1], more...)
	}
	for id, used := range c.used {
		if !used {
			return damage("page %d is neither used nor free", id)
		}
	}
	return nil
}

func damage(format string, values ...any) error {
	return &damageError{fmt.Sprintf(format, values...)}
}

// newestMeta returns the valid meta page with the highest transaction. The first is at the start of
// the file, the second on the next page. If the first is invalid, the page size is unknown.
func newestMeta(file io.ReaderAt, size int64) (newest meta, err error) {
	const smallest, largest = 1 << 10, 16 << 20
	found := false
	for at := int64(0); at < size && at <= largest; at = max(2*at, smallest) {
		m, err := readMeta(file, at)
		if err != nil {
			return meta{}, err
		}
		if m.pageSize >= smallest && (at == 0 || uint64(at) == m.pageSize) && (!found || m.transaction > newest.transaction) {
			newest, found = m, true
		}
	}
	if !found {
		return meta{}, damage("no valid meta page")
	}
	return newest, nil
}

// readMeta reads the meta page at an offset. The page size is 0 if there is no valid meta page.
func readMeta(file io.ReaderAt, at int64) (meta, error) {
	const magic, version = 0xED0CDAED, 2
	text := make([]byte, headerSize+metaSize)
	if _, err := file.ReadAt(text, at); errors.Is(err, io.EOF) {
		return meta{}, nil
	} else if err != nil {
		return meta{}, err
	}
	text = text[headerSize:]
	sum := fnv.New64a()
	_, _ = sum.Write(text[:metaSize-idSize])
	if order.Uint32(text) != magic || order.Uint32(text[4:]) != version || order.Uint64(text[metaSize-idSize:]) != sum.Sum64() {
		return meta{}, nil
	}
	return meta{
		pageSize: uint64(order.Uint32(text[8:])), root: order.Uint64(text[16:]), freelist: order.Uint64(text[32:]),
		pages: order.Uint64(text[40:]), transaction: order.Uint64(text[48:]),
	}, nil
}

// use marks a page as used.
func (c *checker) use(id uint64) error {
	if id >= uint64(len(c.used)) {
		return damage("page %d of %d does not exist", id, len(c.used))
	}
	if c.used[id] {
		return damage("page %d is used twice", id)
	}
	c.used[id] = true
	return nil
}

// read returns a page with its overflow, and marks it as used.
func (c *checker) read(id uint64) ([]byte, error) {
	if err := c.use(id); err != nil {
		return nil, err
	}
	page := make([]byte, c.pageSize)
	if err := c.readAt(page, id); err != nil {
		return nil, err
	}
	if found := order.Uint64(page); found != id {
		return nil, damage("page %d has the number %d", id, found)
	}
	overflow := uint64(order.Uint32(page[12:]))
	if overflow == 0 {
		return page, nil
	}
	for more := range overflow {
		if err := c.use(id + 1 + more); err != nil {
			return nil, err
		}
	}
	page = make([]byte, (1+overflow)*c.pageSize)
	return page, c.readAt(page, id)
}

func (c *checker) readAt(page []byte, id uint64) error {
	_, err := c.file.ReadAt(page, int64(id*c.pageSize)) //nolint:gosec // less than the size of the file
	return err
}

// free marks the free pages as used.
func (c *checker) free(id uint64) error {
	page, err := c.read(id)
	if err != nil {
		return err
	}
	if order.Uint16(page[8:]) != freelist {
		return damage("page %d is not the list of free pages", id)
	}
	const many = 0xFFFF // then the first element is the number of elements
	ids := page[headerSize:]
	count := uint64(order.Uint16(page[10:]))
	if count == many {
		count, ids = order.Uint64(ids), ids[idSize:]
	}
	if count > uint64(len(ids)/idSize) {
		return damage("page %d cannot contain %d free pages", id, count)
	}
	for n := range count {
		if err := c.use(order.Uint64(ids[n*idSize:])); err != nil {
			return fmt.Errorf("list of free pages: %w", err)
		}
	}
	return nil
}

// references returns the pages to which a branch or leaf refers.
func references(page []byte) (ids []uint64, err error) {
	kind, count := order.Uint16(page[8:]), int(order.Uint16(page[10:]))
	if kind != leaf && (kind != branch || count == 0) {
		return nil, damage("invalid type %#x with %d elements", kind, count)
	}
	if headerSize+count*elementSize > len(page) {
		return nil, damage("too small for %d elements", count)
	}
	var last []byte
	for n := range count {
		element := page[headerSize+n*elementSize:]
		key, value, err := content(element, kind)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", n, err)
		}
		if n > 0 && bytes.Compare(last, key) >= 0 {
			return nil, damage("key of element %d is out of order", n)
		}
		last = key
		switch {
		case kind == branch:
			ids = append(ids, order.Uint64(element[8:]))
		case order.Uint32(element)&1 != 0:
			root, err := bucket(value)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", n, err)
			}
			if root != 0 {
				ids = append(ids, root)
			}
		}
	}
	return ids, nil
}

// content returns the key and the value of an element. The slice starts at the element and ends with
// its page. A branch has no values.
func content(element []byte, kind uint16) (key, value []byte, err error) {
	sizes := element // position, length of the key and, in leaves after the flags, of the value
	if kind == leaf {
		sizes = element[4:]
	}
	start, end := uint64(order.Uint32(sizes)), uint64(order.Uint32(sizes[4:]))
	end += start
	last := end
	if kind == leaf {
		last += uint64(order.Uint32(sizes[8:]))
	}
	if last > uint64(len(element)) {
		return nil, nil, damage("the content extends beyond the page")
	}
	return element[start:end], element[end:last], nil
}

// bucket returns the root page of a bucket, or 0 if the value contains the page. Such a page is a
// leaf without buckets.
func bucket(value []byte) (root uint64, err error) {
	if len(value) < bucketSize {
		return 0, damage("bucket with %d bytes", len(value))
	}
	if root = order.Uint64(value); root != 0 {
		return root, nil
	}
	inline := value[bucketSize:]
	if len(inline) < headerSize || order.Uint16(inline[8:]) != leaf {
		return 0, damage("bucket without a leaf")
	}
	inner, err := references(inline)
	if err == nil && len(inner) > 0 {
		err = damage("inline bucket with buckets")
	}
	return 0, err
}
