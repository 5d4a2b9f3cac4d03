package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings/quantity"
)

// decoder decodes a JSON document into the value that to points to.
type decoder func(document []byte, to any) error

// invalidFields calls report for each field in a JSON document that decode rejects for a value of
// the type of to. It decodes each field separately, because a decoder stops at the first error and
// does not report which field has an invalid quantity. Paths of fields begin with root.
func invalidFields(document []byte, root string, to any, decode decoder, report func(path, detail string)) {
	numbers := json.NewDecoder(bytes.NewReader(document))
	numbers.UseNumber()
	var tree any
	if numbers.Decode(&tree) != nil {
		return
	}
	var walk func(value any, path string, within func(any) any)
	walk = func(value any, path string, within func(any) any) {
		alone := value
		switch value.(type) {
		case map[string]any:
			alone = map[string]any{}
		case []any:
			alone = []any{}
		}
		document, err := json.Marshal(within(alone))
		if err != nil {
			return
		}
		if err := decode(document, reflect.New(reflect.TypeOf(to).Elem()).Interface()); err != nil {
			report(strings.TrimPrefix(path, "."), invalidValue(value, err))
			return
		}
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(value[key], path+"."+key, func(inner any) any { return within(map[string]any{key: inner}) })
			}
		case []any:
			for i, element := range value {
				walk(element, fmt.Sprintf("%s[%d]", path, i), func(inner any) any { return within([]any{inner}) })
			}
		}
	}
	walk(tree, root, func(value any) any { return value })
}

// invalidValue returns the part of an error message that follows the field's path.
func invalidValue(value any, err error) string {
	var wrong *json.UnmarshalTypeError
	want := ""
	if errors.As(err, &wrong) {
		want = kindOf(wrong)
	}
	if strings.HasPrefix(err.Error(), "json: unknown field") {
		return ": unknown field"
	}
	text := fmt.Sprint(value)
	switch value.(type) {
	case map[string]any:
		return ": must be " + cmp.Or(want, "a quantity") + ", not a mapping"
	case []any:
		return ": must be " + cmp.Or(want, "a quantity") + ", not a list"
	case string:
		text = fmt.Sprintf("%q", text)
	}
	_, notQuantity := quantity.Parse(fmt.Sprint(value))
	switch {
	case want != "":
		return " = " + text + ": must be " + want
	case notQuantity != nil:
		return ": " + notQuantity.Error()
	}
	return " = " + text + ": " + err.Error()
}

func kindOf(wrong *json.UnmarshalTypeError) string {
	switch kind := wrong.Type.Kind(); kind {
	case reflect.Int32:
		return "a whole number up to 2147483647"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	default:
		return "a " + kind.String()
	}
}
