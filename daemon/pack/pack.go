// Package pack keeps values in few bytes while nobody looks at them: what is zero takes
// a bit, and a string that occurs everywhere a number.
package pack

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// Append adds a value to packed. Fields that are not exported, or not shown (json:"-"),
// are left out. It panics for types that have maps, interfaces or the like.
func Append[T any](packed []byte, value *T) []byte {
	return shapeOf(reflect.TypeFor[T]()).append(packed, unsafe.Pointer(value))
}

// Into fills in a zero value with the one of which packed was made.
func Into[T any](value *T, packed []byte) {
	v := reflect.ValueOf(value).Elem()
	shapeOf(v.Type()).read(&reader{packed}, v)
}

// shape is how the values of one type are packed. Every pass packs and few values are
// read again, so that packing takes the fields by where they are in memory.
type shape struct {
	zero   func(p unsafe.Pointer) bool
	append func(packed []byte, p unsafe.Pointer) []byte
	read   func(r *reader, v reflect.Value)
}

// reader is what is left to be read.
type reader struct{ packed []byte }

func (r *reader) bytes(n int) []byte {
	taken := r.packed[:n]
	r.packed = r.packed[n:]
	return taken
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.packed)
	r.packed = r.packed[size:]
	return n
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.packed)
	r.packed = r.packed[size:]
	return n
}

var shapes sync.Map // of *shape by reflect.Type

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	known, _ := shapes.LoadOrStore(t, newShape(t))
	return known.(*shape)
}

var timeType = reflect.TypeFor[time.Time]()

func newShape(t reflect.Type) *shape {
	switch t.Kind() {
	case reflect.Bool:
		return &shape{
			zero:   func(p unsafe.Pointer) bool { return !*(*bool)(p) },
			append: func(packed []byte, p unsafe.Pointer) []byte { return append(packed, *(*byte)(p)) },
			read:   func(r *reader, v reflect.Value) { v.SetBool(r.bytes(1)[0] == 1) },
		}
	case reflect.Int, reflect.Int64:
		return intShape[int64]()
	case reflect.Int32:
		return intShape[int32]()
	case reflect.Uint8:
		return &shape{
			zero:   func(p unsafe.Pointer) bool { return *(*byte)(p) == 0 },
			append: func(packed []byte, p unsafe.Pointer) []byte { return append(packed, *(*byte)(p)) },
			read:   func(r *reader, v reflect.Value) { v.SetUint(uint64(r.bytes(1)[0])) },
		}
	case reflect.Float64:
		return &shape{
			zero: func(p unsafe.Pointer) bool { return *(*uint64)(p) == 0 },
			append: func(packed []byte, p unsafe.Pointer) []byte {
				return binary.LittleEndian.AppendUint64(packed, *(*uint64)(p))
			},
			read: func(r *reader, v reflect.Value) {
				v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(8))))
			},
		}
	case reflect.String:
		return &shape{
			zero:   func(p unsafe.Pointer) bool { return *(*string)(p) == "" },
			append: func(packed []byte, p unsafe.Pointer) []byte { return words.append(packed, *(*string)(p)) },
			read:   func(r *reader, v reflect.Value) { v.SetString(words.read(r)) },
		}
	case reflect.Pointer:
		return pointerShape(t)
	case reflect.Slice:
		return sliceShape(t)
	case reflect.Struct:
		if t == timeType {
			return timeShape()
		}
		return structShape(t)
	}
	panic(fmt.Sprintf("pack: %s cannot be packed", t))
}

func intShape[I int32 | int64]() *shape {
	return &shape{
		zero:   func(p unsafe.Pointer) bool { return *(*I)(p) == 0 },
		append: func(packed []byte, p unsafe.Pointer) []byte { return binary.AppendVarint(packed, int64(*(*I)(p))) },
		read:   func(r *reader, v reflect.Value) { v.SetInt(r.int()) },
	}
}

func timeShape() *shape {
	return &shape{
		zero: func(p unsafe.Pointer) bool { return (*time.Time)(p).IsZero() },
		append: func(packed []byte, p unsafe.Pointer) []byte {
			at := len(packed)
			packed, err := (*time.Time)(p).AppendBinary(append(packed, 0))
			if err != nil { // a year or a zone that no platform has
				return append(packed[:at], 0)
			}
			packed[at] = byte(len(packed) - at - 1)
			return packed
		},
		read: func(r *reader, v reflect.Value) {
			size := int(r.bytes(1)[0])
			if size > 0 {
				_ = v.Addr().Interface().(*time.Time).UnmarshalBinary(r.bytes(size)) // which AppendBinary has made
			}
		},
	}
}

func pointerShape(t reflect.Type) *shape {
	elem := shapeOf(t.Elem())
	return &shape{
		zero: func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil },
		append: func(packed []byte, p unsafe.Pointer) []byte {
			to := *(*unsafe.Pointer)(p)
			if to == nil {
				return append(packed, 0)
			}
			return elem.append(append(packed, 1), to)
		},
		read: func(r *reader, v reflect.Value) {
			if r.bytes(1)[0] == 1 {
				v.Set(reflect.New(t.Elem()))
				elem.read(r, v.Elem())
			}
		},
	}
}

func sliceShape(t reflect.Type) *shape {
	elem, size := shapeOf(t.Elem()), t.Elem().Size()
	return &shape{
		zero: func(p unsafe.Pointer) bool { return unsafe.SliceData(*(*[]byte)(p)) == nil },
		append: func(packed []byte, p unsafe.Pointer) []byte {
			list := *(*[]byte)(p) // whose length is that of the elements
			first := unsafe.Pointer(unsafe.SliceData(list))
			if first == nil {
				return append(packed, 0)
			}
			packed = binary.AppendUvarint(packed, uint64(len(list))+1)
			for i := range len(list) {
				packed = elem.append(packed, unsafe.Add(first, uintptr(i)*size))
			}
			return packed
		},
		read: func(r *reader, v reflect.Value) {
			n := int(r.uint())
			if n == 0 {
				return
			}
			v.Set(reflect.MakeSlice(t, n-1, n-1))
			for i := range n - 1 {
				elem.read(r, v.Index(i))
			}
		},
	}
}

// structShape packs a struct as a bit for each field, set where that is not zero, and
// those fields.
func structShape(t reflect.Type) *shape {
	type field struct {
		index  int
		offset uintptr
		*shape
	}
	var fields []field
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			fields = append(fields, field{i, f.Offset, shapeOf(f.Type)})
		}
	}
	bits := (len(fields) + 7) / 8
	return &shape{
		zero: func(p unsafe.Pointer) bool {
			for i := range fields {
				if f := &fields[i]; !f.zero(unsafe.Add(p, f.offset)) {
					return false
				}
			}
			return true
		},
		append: func(packed []byte, p unsafe.Pointer) []byte {
			at := len(packed)
			for range bits {
				packed = append(packed, 0)
			}
			for i := range fields {
				f := &fields[i]
				if value := unsafe.Add(p, f.offset); !f.zero(value) {
					packed[at+i/8] |= 1 << (i % 8)
					packed = f.append(packed, value)
				}
			}
			return packed
		},
		read: func(r *reader, v reflect.Value) {
			set := r.bytes(bits)
			for i := range fields {
				if set[i/8]&(1<<(i%8)) != 0 {
					fields[i].read(r, v.Field(fields[i].index))
				}
			}
		},
	}
}
