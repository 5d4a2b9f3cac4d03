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
)

// Append adds a value, given by a pointer to a struct, to packed. Fields that are not
// exported, or not shown (json:"-"), are left out. It panics for types that have maps,
// interfaces or the like.
func Append(packed []byte, value any) []byte {
	v := reflect.ValueOf(value).Elem()
	return shapeOf(v.Type()).append(packed, v)
}

// Into fills in the value of which packed was made, given by a pointer to a zero one.
func Into(value any, packed []byte) {
	v := reflect.ValueOf(value).Elem()
	shapeOf(v.Type()).read(&reader{packed}, v)
}

// shape is how the values of one type are packed.
type shape struct {
	append func(packed []byte, v reflect.Value) []byte
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
			append: func(packed []byte, v reflect.Value) []byte {
				if v.Bool() {
					return append(packed, 1)
				}
				return append(packed, 0)
			},
			read: func(r *reader, v reflect.Value) { v.SetBool(r.bytes(1)[0] == 1) },
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &shape{
			append: func(packed []byte, v reflect.Value) []byte { return binary.AppendVarint(packed, v.Int()) },
			read:   func(r *reader, v reflect.Value) { v.SetInt(r.int()) },
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &shape{
			append: func(packed []byte, v reflect.Value) []byte { return binary.AppendUvarint(packed, v.Uint()) },
			read:   func(r *reader, v reflect.Value) { v.SetUint(r.uint()) },
		}
	case reflect.Float32, reflect.Float64:
		return &shape{
			append: func(packed []byte, v reflect.Value) []byte {
				return binary.LittleEndian.AppendUint64(packed, math.Float64bits(v.Float()))
			},
			read: func(r *reader, v reflect.Value) {
				v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(8))))
			},
		}
	case reflect.String:
		return &shape{
			append: func(packed []byte, v reflect.Value) []byte { return words.append(packed, v.String()) },
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

func timeShape() *shape {
	return &shape{
		append: func(packed []byte, v reflect.Value) []byte {
			at := len(packed)
			packed, err := v.Addr().Interface().(*time.Time).AppendBinary(append(packed, 0))
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
		append: func(packed []byte, v reflect.Value) []byte {
			if v.IsNil() {
				return append(packed, 0)
			}
			return elem.append(append(packed, 1), v.Elem())
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
	elem := shapeOf(t.Elem())
	return &shape{
		append: func(packed []byte, v reflect.Value) []byte {
			if v.IsNil() {
				return append(packed, 0)
			}
			packed = binary.AppendUvarint(packed, uint64(v.Len())+1)
			for i := range v.Len() {
				packed = elem.append(packed, v.Index(i))
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
		index int
		*shape
	}
	var fields []field
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			fields = append(fields, field{i, shapeOf(f.Type)})
		}
	}
	bits := (len(fields) + 7) / 8
	return &shape{
		append: func(packed []byte, v reflect.Value) []byte {
			at := len(packed)
			for range bits {
				packed = append(packed, 0)
			}
			for i := range fields {
				f := v.Field(fields[i].index)
				if !f.IsZero() {
					packed[at+i/8] |= 1 << (i % 8)
					packed = fields[i].append(packed, f)
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
