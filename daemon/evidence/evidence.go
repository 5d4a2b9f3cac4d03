// Package evidence keeps what decisions were made of, in few bytes, so that they can be
// made again.
package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/pack"
	"github.com/hpad/hpad/policy"
)

// ErrOther is that inputs are of another version of hpad, whose rules or whose inputs are
// other ones.
var ErrOther = errors.New("inputs of another version")

// layoutSize is that of what identifies the layout, in front of packed inputs.
const layoutSize = 4

// inputs is how the inputs of a decision are packed, and layout identifies that and the
// rules.
var inputs = sync.OnceValues(func() (form *pack.Form[policy.Inputs], layout uint32) {
	described := describe(reflect.TypeFor[policy.Inputs]())
	return pack.Stored[policy.Inputs](), crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %s", policy.Engine, described))
})

// Pack adds to packed what is essential of the inputs of a decision.
func Pack(packed []byte, in *policy.Inputs) []byte {
	essential := in.Essential()
	form, layout := inputs()
	return form.Append(binary.BigEndian.AppendUint32(packed, layout), &essential)
}

// Unpack returns the inputs of which Pack made packed. The error is ErrOther where
// another version did.
func Unpack(packed []byte) (policy.Inputs, error) {
	form, layout := inputs()
	if len(packed) < layoutSize || binary.BigEndian.Uint32(packed) != layout {
		return policy.Inputs{}, ErrOther
	}
	in, err := form.Read(packed[layoutSize:])
	if err != nil {
		return in, fmt.Errorf("inputs: %w", err)
	}
	return in, nil
}

// HeldBy returns packed inputs of a decision that pauses held which began after it was
// made.
func HeldBy(packed []byte, pauses []policy.Pause) []byte {
	in, err := Unpack(packed)
	if err != nil { // nobody else packs, and so this cannot be
		return []byte{}
	}
	in.Meanwhile = pauses
	return Pack(nil, &in)
}

// describe returns all that the packed form of a type depends on.
func describe(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t.Kind() == reflect.Struct:
		var fields []string
		for field := range t.Fields() {
			fields = append(fields, field.Name+" "+describe(field.Type))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		return t.Kind().String() + " of " + describe(t.Elem())
	}
	return t.Kind().String()
}
