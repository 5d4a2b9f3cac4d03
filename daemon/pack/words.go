package pack

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
)

// dictionary has the strings that stand as numbers. The first ones that are packed get
// one, as many as it holds: constants, and names that everything has.
type dictionary struct {
	known atomic.Pointer[known]
	mu    sync.Mutex
}

// known is what a dictionary has. It is never changed, but that texts grows.
type known struct {
	numbers map[string]uint64
	texts   []string
}

// Bounds of a dictionary: how many strings, and how long.
const (
	maxWords = 512
	maxWord  = 128
)

var words dictionary

// append adds a string: twice its number, or, without one, twice its length and 1, and
// its bytes.
func (d *dictionary) append(packed []byte, text string) []byte {
	number, ok := d.number(text)
	if ok {
		return binary.AppendUvarint(packed, number*2)
	}
	packed = binary.AppendUvarint(packed, uint64(len(text))*2+1)
	return append(packed, text...)
}

func (d *dictionary) read(r *reader) string {
	n := r.uint()
	if n%2 != 0 {
		return string(r.bytes(n / 2))
	}
	known := d.known.Load()
	if known == nil || n/2 >= uint64(len(known.texts)) {
		r.damaged = true
		return ""
	}
	return known.texts[n/2]
}

func (d *dictionary) number(text string) (uint64, bool) {
	if len(text) > maxWord {
		return 0, false
	}
	before := d.known.Load()
	if before != nil {
		if number, ok := before.numbers[text]; ok || len(before.texts) >= maxWords {
			return number, ok
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	after := &known{numbers: map[string]uint64{}}
	if before = d.known.Load(); before != nil {
		after.numbers, after.texts = maps.Clone(before.numbers), before.texts
	}
	number, ok := after.numbers[text]
	if !ok {
		if len(after.texts) >= maxWords {
			return 0, false
		}
		number = uint64(len(after.texts))
		after.numbers[text], after.texts = number, append(after.texts, text)
		d.known.Store(after)
	}
	return number, true
}
