// Package pack keeps values in few bytes: of each what is different from the zero value, and
// of an element of a list what is different from the one before.
package pack

import (
	"errors"
	"reflect"
	"unsafe"
)

// ErrDamaged is that bytes are none that a form has packed.
var ErrDamaged = errors.New("packed values are damaged")

// Form is how values of a type are packed. Fields that are not exported, or not shown
// (json:"-"), are left out.
type Form[T any] struct {
	shape *shape
	none  T
}

// Stored returns the form of a type for values that are kept in files. It panics for types
// that have maps, interfaces or the like.
func Stored[T any]() *Form[T] { return &Form[T]{shape: newShape(reflect.TypeFor[T](), nil)} }

// InMemory is Stored for values that this process alone keeps: a string that occurs everywhere
// is a number.
func InMemory[T any]() *Form[T] { return &Form[T]{shape: newShape(reflect.TypeFor[T](), &words)} }

// Append adds a value to packed.
func (f *Form[T]) Append(packed []byte, value *T) []byte {
	return f.shape.append(packed, unsafe.Pointer(value), unsafe.Pointer(&f.none))
}

// Read returns the value of which Append made packed. Its lists may share what their elements
// point to. The error is ErrDamaged.
func (f *Form[T]) Read(packed []byte) (value T, err error) {
	r := &reader{packed: packed}
	f.shape.read(r, unsafe.Pointer(&value))
	if r.damaged || len(r.packed) > 0 {
		return f.none, ErrDamaged
	}
	return value, nil
}
