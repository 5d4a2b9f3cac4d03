package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
)

// bbolt follows whatever a page says about where its keys, values and children
// are, and its own Check, which runs in a goroutine of its own, brings the whole
// process down where that leads out of the file. So the pages in use are looked
// at first, read from the file as bytes: every element inside its page, every
// page inside the file, of the right kind, and used once.

// The layout of pages: a header of id (8 bytes), flags (2), count (2) and
// overflow (4), then the elements of 16 bytes each. A branch element is position
// (4), key size (4) and child (8); a leaf element flags (4), position (4), key
// size (4) and value size (4). Positions count from the element. A value with the
// bucket flag is the bucket's root (8), a sequence (8), and where the root is 0 a
// page of its own.
const (
	pageHeader   = 16
	pageElement  = 16
	bucketHeader = 16

	branchPage = 1
	leafPage   = 2
	bucketFlag = 1
)

var (
	errOutOfPage = errors.New("an element reaches out of the page")
	errPageKind  = errors.New("the page is of the wrong kind")
)

// pageWalk looks at the pages of a tree.
type pageWalk struct {
	file     io.ReaderAt
	pageSize int64
	// end is the first page that is not in use.
	end  uint64
	seen map[uint64]bool
}

// verifyPages looks at all pages that a transaction can reach.
func verifyPages(tx *bolt.Tx, file io.ReaderAt) error {
	pageSize := int64(tx.DB().Info().PageSize)
	w := &pageWalk{file: file, pageSize: pageSize, end: uint64(tx.Size() / pageSize), seen: map[uint64]bool{0: true, 1: true}}
	return w.tree(uint64(tx.Cursor().Bucket().RootPage()))
}

// tree looks at a page and everything below it.
func (w *pageWalk) tree(id uint64) error {
	page, err := w.read(id)
	if err == nil {
		err = w.elements(page)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// read returns a page with those it overflows into.
func (w *pageWalk) read(id uint64) ([]byte, error) {
	if id >= w.end {
		return nil, fmt.Errorf("there are only %d", w.end)
	}
	page := make([]byte, w.pageSize)
	if _, err := w.file.ReadAt(page, int64(id)*w.pageSize); err != nil {
		return nil, err
	}
	if found := binary.NativeEndian.Uint64(page); found != id {
		return nil, fmt.Errorf("it says that it is page %d", found)
	}
	overflow := uint64(binary.NativeEndian.Uint32(page[12:]))
	if overflow >= w.end-id {
		return nil, fmt.Errorf("it overflows into %d pages", overflow)
	}
	for used := id; used <= id+overflow; used++ {
		if w.seen[used] {
			return nil, errors.New("it is used twice")
		}
		w.seen[used] = true
	}
	if overflow == 0 {
		return page, nil
	}
	page = make([]byte, int64(overflow+1)*w.pageSize)
	_, err := w.file.ReadAt(page, int64(id)*w.pageSize)
	return page, err
}

// elements looks at the elements of a page, and at the pages they lead to.
func (w *pageWalk) elements(page []byte) error {
	if len(page) < pageHeader {
		return errOutOfPage
	}
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if kind != branchPage && kind != leafPage {
		return errPageKind
	}
	if pageHeader+count*pageElement > len(page) {
		return errOutOfPage
	}
	for i := range count {
		element := page[pageHeader+i*pageElement:]
		var err error
		if kind == branchPage {
			err = w.branch(element)
		} else {
			err = w.leaf(element)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *pageWalk) branch(element []byte) error {
	position, key := binary.NativeEndian.Uint32(element), binary.NativeEndian.Uint32(element[4:])
	if uint64(position)+uint64(key) > uint64(len(element)) {
		return errOutOfPage
	}
	return w.tree(binary.NativeEndian.Uint64(element[8:]))
}

func (w *pageWalk) leaf(element []byte) error {
	flags, position := binary.NativeEndian.Uint32(element), uint64(binary.NativeEndian.Uint32(element[4:]))
	value := position + uint64(binary.NativeEndian.Uint32(element[8:]))
	end := value + uint64(binary.NativeEndian.Uint32(element[12:]))
	if end > uint64(len(element)) {
		return errOutOfPage
	}
	if flags&bucketFlag == 0 {
		return nil
	}
	bucket := element[value:end]
	if len(bucket) < bucketHeader {
		return errOutOfPage
	}
	if root := binary.NativeEndian.Uint64(bucket); root != 0 {
		return w.tree(root)
	}
	return w.elements(bucket[bucketHeader:])
}
