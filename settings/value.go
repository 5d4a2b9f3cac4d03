package settings

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ownValue is a type with its own TOML decoding.
type ownValue interface{ UnmarshalTOML(value any) error }

// numbered is a text type whose values users often write as a number.
type numbered interface {
	// TextOf returns the text for a number.
	TextOf(number float64) string
}

var (
	ownType  = reflect.TypeFor[ownValue]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// IsValue reports whether a type is neither a table nor an array in TOML.
func IsValue(goType reflect.Type) bool {
	if pointer := reflect.PointerTo(goType); pointer.Implements(ownType) || pointer.Implements(textType) {
		return true
	}
	switch goType.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Interface, reflect.Pointer:
		return false
	}
	return true
}

// SetValue sets a value from TOML. The error describes the allowed values.
func SetValue(to reflect.Value, value any) error {
	text, isText := value.(string)
	whole, isWhole := value.(int64)
	kind := to.Kind()
	switch own := to.Addr().Interface().(type) {
	case ownValue:
		return own.UnmarshalTOML(value)
	case encoding.TextUnmarshaler:
		if isWhole {
			return own.UnmarshalText([]byte(strconv.FormatInt(whole, 10)))
		}
		number, isNumber := value.(float64)
		if like, ok := own.(numbered); ok && isNumber && math.Abs(number) < 1e12 {
			return fmt.Errorf("must be a string: write %q", like.TextOf(number))
		}
		kind = reflect.String
	case *time.Duration:
		switch {
		case isWhole:
			return fmt.Errorf("must be a duration with its unit: write \"%ds\"", whole)
		case !isText:
			return errors.New(`must be a duration, such as "15s", not ` + KindOf(value))
		}
		kind = reflect.String
	}
	switch {
	case kind == reflect.String:
		if _, isTime := value.(time.Time); isTime {
			return errors.New("must be a string: write it in quotes")
		}
		if !isText {
			return errors.New("must be a string, not " + KindOf(value))
		}
		return SetText(to, text)
	case kind == reflect.Bool:
		truth, ok := value.(bool)
		if !ok {
			return errors.New("must be true or false, not " + KindOf(value))
		}
		to.SetBool(truth)
	case to.CanFloat():
		number, ok := value.(float64)
		if !ok && !isWhole {
			return errors.New("must be a number, not " + KindOf(value))
		}
		to.SetFloat(number + float64(whole))
	case isWhole:
		return setWhole(to, whole)
	default:
		return errors.New("must be a whole number, not " + KindOf(value))
	}
	return nil
}

// SetText sets a value from a text. The error describes the allowed values.
func SetText(to reflect.Value, text string) error {
	switch own := to.Addr().Interface().(type) {
	case ownValue:
		return own.UnmarshalTOML(text)
	case encoding.TextUnmarshaler:
		return own.UnmarshalText([]byte(text))
	case *time.Duration:
		span, err := time.ParseDuration(text)
		if err != nil {
			return errors.New(`must be a duration, such as "15s", "5m" or "1h30m"`)
		}
		*own = span
		return nil
	}
	switch kind := to.Kind(); {
	case kind == reflect.String:
		to.SetString(text)
	case kind == reflect.Bool:
		truth, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		to.SetBool(truth)
	case to.CanFloat():
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("must be a number")
		}
		to.SetFloat(number)
	default:
		whole, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("must be a whole number")
		}
		return setWhole(to, whole)
	}
	return nil
}

// setWhole sets a whole number if it fits.
func setWhole(to reflect.Value, number int64) error {
	switch bits := to.Type().Bits(); {
	case to.CanInt() && to.OverflowInt(number):
		largest := int64(math.MaxInt64) >> (64 - bits)
		return fmt.Errorf("must be a whole number from %d to %d", -largest-1, largest)
	case to.CanInt():
		to.SetInt(number)
	case number < 0 || to.OverflowUint(uint64(number)):
		return fmt.Errorf("must be a whole number from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	default:
		to.SetUint(uint64(number))
	}
	return nil
}

// Text returns a value in TOML form, for messages.
func Text(value reflect.Value) string {
	switch known := value.Interface().(type) {
	case time.Duration:
		return strconv.Quote(Span(known))
	case fmt.Stringer:
		if value.Kind() != reflect.String {
			return strconv.Quote(known.String())
		}
	}
	if value.Kind() == reflect.String {
		return strconv.Quote(value.String())
	}
	return fmt.Sprint(value.Interface())
}

// Span formats a duration without zero parts: "5m", not "5m0s".
func Span(span time.Duration) string {
	text := span.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// KindOf returns the kind of a TOML value for error messages.
func KindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "a boolean"
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
