package pages

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const size = 4096

// sound returns a file with branches, long values, nested and inline buckets, and free pages.
func sound(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: size, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		err = errors.Join(err, db.Update(func(tx *bolt.Tx) error {
			outer, err := tx.CreateBucketIfNotExists([]byte("outer"))
			if err != nil {
				return err
			}
			for n := range 500 {
				err = errors.Join(err, outer.Put(fmt.Appendf(nil, "key-%d", n), bytes.Repeat([]byte{byte(round)}, 10+n)))
			}
			err = errors.Join(err, outer.Put([]byte("long"), make([]byte, 5*size)))
			for _, name := range []string{"inline", "nested"} {
				inner, bucketErr := outer.CreateBucketIfNotExists([]byte(name))
				if bucketErr != nil {
					return bucketErr
				}
				err = errors.Join(err, inner.Put([]byte("short"), []byte("value")))
				for n := 0; name == "nested" && n < 300; n++ {
					err = errors.Join(err, inner.Put(fmt.Appendf(nil, "key-%d", n), make([]byte, 50)))
				}
			}
			return err
		}))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newestMeta(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	return text[:m.pages*size] // bbolt allocates more
}

// pageOf returns the first page of a type in use, with at least two elements.
func pageOf(t *testing.T, text []byte, kind uint16) []byte {
	t.Helper()
	m, err := newestMeta(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if kind == freelist {
		return text[m.freelist*size:]
	}
	c := &checker{file: bytes.NewReader(text), pageSize: size, used: make([]bool, m.pages)}
	for todo := []uint64{m.root}; len(todo) > 0; {
		page, err := c.read(todo[0])
		if err != nil {
			t.Fatal(err)
		}
		if order.Uint16(page[8:]) == kind && order.Uint16(page[10:]) > 1 {
			return text[todo[0]*size:]
		}
		more, err := references(page)
		if err != nil {
			t.Fatal(err)
		}
		todo = append(todo[1:], more...)
	}
	t.Fatalf("no page of type %d", kind)
	return nil
}

func TestVerify(t *testing.T) {
	original := sound(t)
	set32 := func(kind uint16, at int, value uint32) func([]byte) {
		return func(text []byte) { order.PutUint32(pageOf(t, text, kind)[at:], value) }
	}
	set64 := func(kind uint16, at int, value uint64) func([]byte) {
		return func(text []byte) { order.PutUint64(pageOf(t, text, kind)[at:], value) }
	}
	first := headerSize // offset of the first element
	for name, test := range map[string]struct {
		change func(text []byte)
		want   string
	}{
		"nothing":                        {func([]byte) {}, ""},
		"the first meta page":            {func(text []byte) { text[headerSize]++ }, ""},
		"the second meta page":           {func(text []byte) { text[size+headerSize]++ }, ""},
		"both meta pages":                {func(text []byte) { text[40]++; text[size+40]++ }, "no valid meta page"},
		"the number of a page":           {set64(leaf, 0, 1), "has the number 1"},
		"the type of a page":             {set32(leaf, 8, 7), "type 0x7"},
		"a branch without elements":      {set32(branch, 8, branch), "0 elements"},
		"more elements than fit":         {set32(leaf, 8, leaf|math.MaxUint16<<16), "too small for 65535 elements"},
		"the overflow of a page":         {set32(leaf, 12, math.MaxUint32), "page"},
		"the position of a key":          {set32(leaf, first+4, math.MaxUint32), "beyond the page"},
		"the length of a key":            {set32(leaf, first+8, math.MaxUint32), "beyond the page"},
		"the length of a value":          {set32(leaf, first+12, math.MaxUint32), "beyond the page"},
		"the position of a branch's key": {set32(branch, first, math.MaxUint32), "beyond the page"},
		"the length of a branch's key":   {set32(branch, first+4, math.MaxUint32), "beyond the page"},
		"a reference to itself": {func(text []byte) {
			page := pageOf(t, text, branch)
			copy(page[first+8:], page[:8])
		}, "used twice"},
		"a reference beyond the file": {set64(branch, first+8, math.MaxUint64), "does not exist"},
		"the order of keys":           {set32(leaf, first+elementSize+8, 0), "out of order"},
		"the type of the free pages":  {set32(freelist, 8, leaf), "not the list of free pages"},
		"the number of free pages":    {set32(freelist, 8, freelist|0xFFFE<<16), "cannot contain 65534"},
		"a huge number of free pages": {func(text []byte) {
			page := pageOf(t, text, freelist)
			order.PutUint16(page[10:], math.MaxUint16)
			order.PutUint64(page[headerSize:], math.MaxUint64)
		}, "cannot contain"},
		"a free page that does not exist": {set64(freelist, headerSize, math.MaxUint64), "does not exist"},
		"fewer free pages":                {func(text []byte) { pageOf(t, text, freelist)[10]-- }, "neither used nor free"},
		"an inline bucket": {func(text []byte) {
			for at := range len(text) - size { // also in free pages
				if kind := at + len("inline") + bucketSize + 8; bytes.HasPrefix(text[at:], []byte("inline")) && text[kind] == leaf {
					text[kind] = branch
				}
			}
		}, "without a leaf"},
	} {
		t.Run(name, func(t *testing.T) {
			text := bytes.Clone(original)
			test.change(text)
			err := verify(bytes.NewReader(text), int64(len(text)))
			if (test.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("verify = %v, want %q", err, test.want)
			}
		})
	}
	for length := 1; length < len(original); length += size / 2 {
		if err := verify(bytes.NewReader(original[:length]), int64(length)); !errors.Is(err, ErrDamaged) {
			t.Errorf("verify the first %d bytes = %v", length, err)
		}
	}
}

// TestRandomReferences replaces integers at random places. bbolt must be able to read each file that
// has no error.
func TestRandomReferences(t *testing.T) {
	original := sound(t)
	path := filepath.Join(t.TempDir(), "file.db")
	accepted := 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		text := bytes.Clone(original)
		order.PutUint32(text[random.IntN(len(text)/4)*4:], random.Uint32()>>random.IntN(32))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o600, &bolt.Options{OpenFile: OpenFile, NoSync: true})
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		accepted++
		if err := errors.Join(db.View(func(tx *bolt.Tx) error {
			for range tx.Check() { // finds an invalid order of pages
			}
			return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return walk(b) })
		}), db.Close()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if accepted < 100 || accepted > 990 {
		t.Errorf("%d of 1000 files were accepted", accepted)
	}
}

func walk(b *bolt.Bucket) error {
	return b.ForEach(func(key, value []byte) error {
		if value == nil {
			return walk(b.Bucket(key))
		}
		_ = bytes.Count(value, []byte{1})
		return nil
	})
}

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	if err := os.WriteFile(path, sound(t), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Errorf("second reader: %v", err)
	} else {
		_ = second.Close()
	}
	if _, err := OpenFile(path, os.O_RDWR, 0); !errors.Is(err, bolterrors.ErrTimeout) {
		t.Errorf("writer beside a reader: %v", err)
	}
	_ = first.Close()
	db, err := bolt.Open(path, 0o600, &bolt.Options{OpenFile: OpenFile})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Errorf("empty file: %v", err)
	} else {
		_ = file.Close()
	}
}
