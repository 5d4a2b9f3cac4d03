package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
)

var (
	durationType  = reflect.TypeFor[time.Duration]()
	primitiveType = reflect.TypeFor[toml.Primitive]()
	tomlType      = reflect.TypeFor[toml.Unmarshaler]()
	textType      = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// checkShape says whether a value of the table can be decoded into a Go type,
// recording every key that the type does not have and every value of another
// type. The decoder would stop at the first. Inside of tables and arrays such
// values are replaced, so that the rest can be decoded and validated: only a value
// that is itself of another type makes it answer false.
func (t *table) checkShape(key string, goType reflect.Type, value any) bool {
	goType = pointed(goType)
	if goType == primitiveType {
		return true
	}
	if detail, ok := checkSpecial(goType, value); ok {
		return t.fits(key, detail)
	}
	switch goType.Kind() {
	case reflect.Struct:
		raw, ok := value.(map[string]any)
		if !ok {
			return t.fits(key, notTable(value))
		}
		fields := fieldsOf(goType)
		t.checkKeys(key, raw, fields, fields.keys, nil)
		return true
	case reflect.Map:
		return t.checkMap(key, goType, value)
	case reflect.Slice:
		return t.checkSlice(key, goType, value)
	case reflect.Interface:
		return true
	}
	return t.fits(key, checkPlain(goType, value))
}

// pointed answers the type that a pointer, or none, is to.
func pointed(goType reflect.Type) reflect.Type {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	return goType
}

// notTable says that a value should be a table.
func notTable(value any) string { return "must be a table, not " + kindOf(value) }

// fits records what is wrong with a value, if anything is.
func (t *table) fits(key, detail string) bool {
	if detail != "" {
		t.addWritten(key, detail)
		t.misfits = append(t.misfits, key)
	}
	return detail == ""
}

// checkKeys checks a table, or those of its keys that are not of others, by the
// fields of a type. Allowed are the keys to name where one is not known.
func (t *table) checkKeys(key string, raw map[string]any, fields structFields, allowed []string, ofOthers func(name string) bool) {
	for name, inner := range raw {
		if ofOthers != nil && ofOthers(name) {
			continue
		}
		field, known := fields.byKey[name]
		if !known {
			t.unknown(join(key, name), allowed)
		} else if !t.checkShape(join(key, name), field.Type, inner) {
			replace(raw, name, field.Type)
		}
	}
}

// replace puts something that fits in the place of a value of another type, or
// takes the key away.
func replace(raw map[string]any, name string, goType reflect.Type) {
	if instead, ok := standIn(goType, raw[name]); ok {
		raw[name] = instead
	} else {
		delete(raw, name)
	}
}

// standIn answers a value that fits a type for one that does not: what was
// probably meant, or else a small number. That the key was given is then known
// to whoever validates others that need it.
func standIn(goType reflect.Type, value any) (any, bool) {
	goType = pointed(goType)
	if goType.Kind() == reflect.Slice {
		if inner, ok := standIn(goType.Elem(), value); ok {
			return []any{inner}, true
		}
		return nil, false
	}
	text := fmt.Sprint(value)
	candidates := []any{value, text, text + "s"}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		candidates = append(candidates, number)
	}
	if truth, err := strconv.ParseBool(text); err == nil {
		candidates = append(candidates, truth)
	}
	for _, candidate := range append(candidates, int64(1), "1") {
		if isPlain(goType, candidate) {
			return candidate, true
		}
	}
	return nil, false
}

// isPlain says whether a value fits a type that is no table and no array.
func isPlain(goType reflect.Type, value any) bool {
	if detail, ok := checkSpecial(goType, value); ok {
		return detail == ""
	}
	switch goType.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Interface:
		return false
	}
	return checkPlain(goType, value) == ""
}

// checkSpecial checks types that read a value in their own way; ok says whether
// this is one. An empty detail means that the value fits.
func checkSpecial(goType reflect.Type, value any) (detail string, ok bool) {
	pointer := reflect.PointerTo(goType)
	switch {
	case goType == durationType:
		return checkDuration(value), true
	case pointer.Implements(tomlType):
		if err := reflect.New(goType).Interface().(toml.Unmarshaler).UnmarshalTOML(value); err != nil {
			return err.Error(), true
		}
		return "", true
	case pointer.Implements(textType):
		text, isText := value.(string)
		if number, isNumber := value.(int64); isNumber {
			text, isText = strconv.FormatInt(number, 10), true
		}
		if !isText {
			return "must be a string, not " + kindOf(value), true
		}
		if err := reflect.New(goType).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return err.Error(), true
		}
		return "", true
	}
	return "", false
}

// checkDuration checks a duration, which the decoder would also take as a number
// of nanoseconds.
func checkDuration(value any) string {
	switch value := value.(type) {
	case string:
		if _, err := time.ParseDuration(value); err != nil {
			return `must be a duration, as "15s", "5m" or "1h30m"`
		}
		return ""
	case int64:
		return fmt.Sprintf("must be a duration with its unit: write \"%ds\"", value)
	}
	return `must be a duration, as "15s", not ` + kindOf(value)
}

// checkPlain checks a text, truth value or number.
func checkPlain(goType reflect.Type, value any) string {
	kind := goType.Kind()
	switch {
	case kind == reflect.String:
		if _, ok := value.(string); !ok {
			return "must be a string, not " + kindOf(value)
		}
	case kind == reflect.Bool:
		if _, ok := value.(bool); !ok {
			return "must be true or false, not " + kindOf(value)
		}
	case reflect.New(goType).Elem().CanInt(), reflect.New(goType).Elem().CanUint():
		number, ok := value.(int64)
		if !ok {
			return "must be a whole number, not " + kindOf(value)
		}
		return checkRange(goType, number)
	case reflect.New(goType).Elem().CanFloat():
		switch value.(type) {
		case int64, float64:
		default:
			return "must be a number, not " + kindOf(value)
		}
	}
	return ""
}

// checkRange checks that a whole number fits its type.
func checkRange(goType reflect.Type, number int64) string {
	zero := reflect.New(goType).Elem()
	if zero.CanInt() && zero.OverflowInt(number) {
		largest := int64(math.MaxInt64) >> (64 - goType.Bits())
		return fmt.Sprintf("must be a whole number from %d to %d", -largest-1, largest)
	}
	if zero.CanUint() && (number < 0 || zero.OverflowUint(uint64(number))) {
		return fmt.Sprintf("must be a whole number from 0 to %d", uint64(math.MaxUint64)>>(64-goType.Bits()))
	}
	return ""
}

// checkMap checks a table with any keys.
func (t *table) checkMap(key string, goType reflect.Type, value any) bool {
	raw, ok := value.(map[string]any)
	if !ok {
		return t.fits(key, notTable(value))
	}
	for name, inner := range raw {
		if !t.checkShape(join(key, name), goType.Elem(), inner) {
			replace(raw, name, goType.Elem())
		}
	}
	return true
}

// checkSlice checks an array, of tables or of values. One with an element that
// nothing can stand in for is of another type as a whole.
func (t *table) checkSlice(key string, goType reflect.Type, value any) bool {
	raw := reflect.ValueOf(value)
	if raw.Kind() != reflect.Slice {
		return t.fits(key, "must be an array, not "+kindOf(value))
	}
	fine := true
	for i := range raw.Len() {
		inner := raw.Index(i)
		if t.checkShape(element(key, i), goType.Elem(), inner.Interface()) {
			continue
		}
		if instead, ok := standIn(goType.Elem(), inner.Interface()); ok && inner.Kind() == reflect.Interface {
			inner.Set(reflect.ValueOf(instead))
		} else {
			fine = false
		}
	}
	return fine
}

// structFields are the keys that a struct type has in TOML.
type structFields struct {
	keys  []string
	byKey map[string]reflect.StructField
}

// has says whether there is a field of that key.
func (f structFields) has(name string) bool {
	_, ok := f.byKey[name]
	return ok
}

// knownFields remembers the fields of a type: thousands of tables are of the same
// few types.
var knownFields sync.Map // of reflect.Type to structFields

// fieldsOf answers the keys of a struct type, those of untagged embedded structs
// included. The answer is shared and not to be modified.
func fieldsOf(goType reflect.Type) structFields {
	if known, ok := knownFields.Load(goType); ok {
		return known.(structFields)
	}
	fields := findFields(goType)
	knownFields.Store(goType, fields)
	return fields
}

func findFields(goType reflect.Type) structFields {
	fields := structFields{byKey: map[string]reflect.StructField{}}
	for _, field := range reflect.VisibleFields(goType) {
		name, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		if !field.IsExported() || name == "-" || field.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		fields.keys = append(fields.keys, name)
		fields.byKey[name] = field
	}
	return fields
}

// kindOf names the kind of a TOML value.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "a truth value"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	}
	if reflect.ValueOf(value).Kind() == reflect.Slice {
		return "an array"
	}
	return fmt.Sprintf("a %T", value)
}
