package pack

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"
)

// shape is how the values of one type are packed: as what is different from another one,
// which in a list is the element before. Instances of a target are much alike.
type shape struct {
	same   func(p, before unsafe.Pointer) bool
	append func(packed []byte, p, before unsafe.Pointer) []byte
	// read changes the one at p, which is as the one before, into that packed.
	read func(r *reader, p unsafe.Pointer)
}

// reader is what is left to be read. It is damaged once it ends too early, and reads
// zeros then.
type reader struct {
	packed  []byte
	damaged bool
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.packed)) {
		r.damaged, r.packed = true, nil
		return nil
	}
	taken := r.packed[:n]
	r.packed = r.packed[n:]
	return taken
}

func (r *reader) byte() byte {
	if taken := r.bytes(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.packed)
	if size <= 0 {
		r.damaged, r.packed = true, nil
		return 0
	}
	r.packed = r.packed[size:]
	return n
}

func (r *reader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func appendInt(packed []byte, n int64) []byte {
	return binary.AppendUvarint(packed, uint64(n)<<1^uint64(n>>63))
}

var timeType = reflect.TypeFor[time.Time]()

// newShape returns the shape of a type, whose strings stand as words has them, or as they are
// where that is nil.
func newShape(t reflect.Type, words *dictionary) *shape {
	switch t.Kind() {
	case reflect.Bool, reflect.Uint8:
		return byteShape()
	case reflect.Int, reflect.Int64:
		return intShape[int64]()
	case reflect.Int32:
		return intShape[int32]()
	case reflect.Float64:
		return floatShape()
	case reflect.String:
		return stringShape(words)
	case reflect.Pointer:
		return pointerShape(t, words)
	case reflect.Slice:
		return sliceShape(t, words)
	case reflect.Struct:
		if t == timeType {
			return timeShape()
		}
		return structShape(t, words)
	}
	panic(fmt.Sprintf("pack: %s cannot be packed", t))
}

func byteShape() *shape {
	return &shape{
		same:   func(p, before unsafe.Pointer) bool { return *(*byte)(p) == *(*byte)(before) },
		append: func(packed []byte, p, _ unsafe.Pointer) []byte { return append(packed, *(*byte)(p)) },
		read:   func(r *reader, p unsafe.Pointer) { *(*byte)(p) = r.byte() },
	}
}

func intShape[I int32 | int64]() *shape {
	return &shape{
		same: func(p, before unsafe.Pointer) bool { return *(*I)(p) == *(*I)(before) },
		append: func(packed []byte, p, before unsafe.Pointer) []byte {
			return appendInt(packed, int64(*(*I)(p)-*(*I)(before)))
		},
		read: func(r *reader, p unsafe.Pointer) { *(*I)(p) += I(r.int()) },
	}
}

func floatShape() *shape {
	return &shape{
		same: func(p, before unsafe.Pointer) bool { return *(*uint64)(p) == *(*uint64)(before) },
		append: func(packed []byte, p, _ unsafe.Pointer) []byte {
			return binary.LittleEndian.AppendUint64(packed, *(*uint64)(p))
		},
		read: func(r *reader, p unsafe.Pointer) {
			if taken := r.bytes(8); taken != nil {
				*(*float64)(p) = math.Float64frombits(binary.LittleEndian.Uint64(taken))
			}
		},
	}
}

func stringShape(words *dictionary) *shape {
	s := &shape{
		same: func(p, before unsafe.Pointer) bool { return *(*string)(p) == *(*string)(before) },
		append: func(packed []byte, p, _ unsafe.Pointer) []byte {
			text := *(*string)(p)
			return append(binary.AppendUvarint(packed, uint64(len(text))), text...)
		},
		read: func(r *reader, p unsafe.Pointer) { *(*string)(p) = string(r.bytes(r.uint())) },
	}
	if words != nil {
		s.append = func(packed []byte, p, _ unsafe.Pointer) []byte { return words.append(packed, *(*string)(p)) }
		s.read = func(r *reader, p unsafe.Pointer) { *(*string)(p) = words.read(r) }
	}
	return s
}

// What of a time is packed besides its seconds.
const (
	nanosecondsDiffer = 1 << iota
	zoneDiffers
	timeFlags = iota
)

func timeShape() *shape {
	return &shape{
		same: func(p, before unsafe.Pointer) bool {
			t, u := (*time.Time)(p), (*time.Time)(before)
			return t.Equal(*u) && zoneOf(*t) == zoneOf(*u)
		},
		append: func(packed []byte, p, before unsafe.Pointer) []byte {
			t, u := *(*time.Time)(p), *(*time.Time)(before)
			seconds, nanoseconds, zone := t.Unix()-u.Unix(), t.Nanosecond()-u.Nanosecond(), zoneOf(t)
			flags := int64(0)
			if nanoseconds != 0 {
				flags |= nanosecondsDiffer
			}
			if zone != zoneOf(u) {
				flags |= zoneDiffers
			}
			packed = appendInt(packed, seconds<<timeFlags|flags)
			if flags&nanosecondsDiffer != 0 {
				packed = appendInt(packed, int64(nanoseconds))
			}
			if flags&zoneDiffers != 0 {
				packed = appendInt(packed, int64(zone))
			}
			return packed
		},
		read: func(r *reader, p unsafe.Pointer) {
			t := *(*time.Time)(p)
			head := r.int()
			seconds, nanoseconds, zone := t.Unix()+head>>timeFlags, int64(t.Nanosecond()), zoneOf(t)
			if head&nanosecondsDiffer != 0 {
				nanoseconds += r.int()
			}
			if head&zoneDiffers != 0 {
				zone = int(r.int())
			}
			t = time.Unix(seconds, nanoseconds).UTC()
			if zone != 0 {
				t = t.In(time.FixedZone("", zone))
			}
			*(*time.Time)(p) = t
		},
	}
}

// zoneOf returns how far the zone of a time is east of UTC, in seconds.
func zoneOf(t time.Time) int {
	if t.Location() == time.UTC {
		return 0
	}
	_, offset := t.Zone()
	return offset
}

func pointerShape(t reflect.Type, words *dictionary) *shape {
	elem := newShape(t.Elem(), words)
	none := reflect.New(t.Elem()).UnsafePointer()
	return &shape{
		same: func(p, before unsafe.Pointer) bool {
			to, other := *(*unsafe.Pointer)(p), *(*unsafe.Pointer)(before)
			return to == other || to != nil && other != nil && elem.same(to, other)
		},
		append: func(packed []byte, p, _ unsafe.Pointer) []byte {
			to := *(*unsafe.Pointer)(p)
			if to == nil {
				return append(packed, 0)
			}
			return elem.append(append(packed, 1), to, none)
		},
		read: func(r *reader, p unsafe.Pointer) {
			var to unsafe.Pointer
			if r.byte() == 1 {
				to = reflect.New(t.Elem()).UnsafePointer()
				elem.read(r, to)
			}
			*(*unsafe.Pointer)(p) = to
		},
	}
}

func sliceShape(t reflect.Type, words *dictionary) *shape {
	elem, size := newShape(t.Elem(), words), t.Elem().Size()
	none := reflect.New(t.Elem()).UnsafePointer()
	return &shape{
		same: func(p, before unsafe.Pointer) bool {
			list, other := *(*[]byte)(p), *(*[]byte)(before) // whose lengths are those of the elements
			first, second := unsafe.Pointer(unsafe.SliceData(list)), unsafe.Pointer(unsafe.SliceData(other))
			if len(list) != len(other) || (first == nil) != (second == nil) {
				return false
			}
			for i := range len(list) {
				if at := uintptr(i) * size; first != second && !elem.same(unsafe.Add(first, at), unsafe.Add(second, at)) {
					return false
				}
			}
			return true
		},
		append: func(packed []byte, p, _ unsafe.Pointer) []byte {
			list := *(*[]byte)(p)
			first, before := unsafe.Pointer(unsafe.SliceData(list)), none
			if first == nil {
				return append(packed, 0)
			}
			packed = binary.AppendUvarint(packed, uint64(len(list))+1)
			for i := range len(list) {
				at := unsafe.Add(first, uintptr(i)*size)
				packed = elem.append(packed, at, before)
				before = at
			}
			return packed
		},
		read: func(r *reader, p unsafe.Pointer) {
			v := reflect.NewAt(t, p).Elem()
			v.SetZero()
			n := r.uint()
			if n == 0 {
				return
			}
			if n--; n > uint64(len(r.packed)) { // an element takes a byte at least
				r.damaged = true
				return
			}
			v.Set(reflect.MakeSlice(t, int(n), int(n)))
			for i := range int(n) {
				at := v.Index(i)
				if i > 0 {
					at.Set(v.Index(i - 1))
				}
				elem.read(r, at.Addr().UnsafePointer())
			}
		},
	}
}

// structShape packs a struct as a bit for each field, set where that is another one than
// before, and those fields.
func structShape(t reflect.Type, words *dictionary) *shape {
	type field struct {
		offset uintptr
		*shape
	}
	var fields []field
	for f := range t.Fields() {
		if f.IsExported() && f.Tag.Get("json") != "-" {
			fields = append(fields, field{f.Offset, newShape(f.Type, words)})
		}
	}
	bits := (len(fields) + 7) / 8
	return &shape{
		same: func(p, before unsafe.Pointer) bool {
			for i := range fields {
				if at := fields[i].offset; !fields[i].same(unsafe.Add(p, at), unsafe.Add(before, at)) {
					return false
				}
			}
			return true
		},
		append: func(packed []byte, p, before unsafe.Pointer) []byte {
			start := len(packed)
			for range bits {
				packed = append(packed, 0)
			}
			for i := range fields {
				at := fields[i].offset
				if value, earlier := unsafe.Add(p, at), unsafe.Add(before, at); !fields[i].same(value, earlier) {
					packed[start+i/8] |= 1 << (i % 8)
					packed = fields[i].append(packed, value, earlier)
				}
			}
			return packed
		},
		read: func(r *reader, p unsafe.Pointer) {
			set := r.bytes(uint64(bits))
			for i := range fields {
				if set != nil && set[i/8]&(1<<(i%8)) != 0 {
					fields[i].read(r, unsafe.Add(p, fields[i].offset))
				}
			}
		},
	}
}
