package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
)

// decode decodes a value of the file into a Go value. It records each unknown key and each value of
// the wrong type, and reports whether it set the Go value.
func (t *table) decode(key string, to reflect.Value, value any) bool {
	switch kind := to.Kind(); {
	case kind == reflect.Pointer:
		inner := reflect.New(to.Type().Elem())
		if !t.decode(key, inner.Elem(), value) {
			return false
		}
		to.Set(inner)
		return true
	case kind == reflect.Interface:
		to.Set(reflect.ValueOf(value))
		return true
	case settings.IsValue(to.Type()):
		return t.decodeValue(key, to, value)
	case t.labels && reflect.TypeOf(value) == reflect.TypeFor[labelText]():
		t.misfit(key, fmt.Sprintf("is not a value: give a label for each part, such as %q", partOf(to.Type())))
		return false
	case kind == reflect.Slice:
		return t.decodeArray(key, to, value)
	}
	raw, ok := value.(map[string]any)
	if !ok {
		t.misfit(key, "must be a table, not "+settings.KindOf(value))
		return false
	}
	if to.Kind() == reflect.Map && to.Type().Elem().Kind() == reflect.Interface {
		to.Set(reflect.ValueOf(raw))
		return true
	}
	if to.Kind() == reflect.Map {
		if t.labels {
			raw = flat("", raw, map[string]any{})
		}
		to.Set(reflect.MakeMapWithSize(to.Type(), len(raw)))
		for name, inner := range raw {
			element := reflect.New(to.Type().Elem()).Elem()
			if t.decode(join(key, name), element, inner) {
				to.SetMapIndex(reflect.ValueOf(strings.Clone(name)), element)
			}
		}
		return true
	}
	settings.SetDefaults(to.Addr().Interface())
	t.decodeKeys(key, raw, to, settings.FieldsOf(to.Type()).Keys, nil)
	return true
}

// decodeValue decodes a value that is neither a table nor an array.
func (t *table) decodeValue(key string, to reflect.Value, value any) bool {
	var err error
	switch given := value.(type) {
	case labelText:
		t.doc.index[key] = place{text: strconv.Quote(string(given))}
		err = settings.SetText(to, string(given))
	case string:
		err = settings.SetValue(to, strings.Clone(given)) // a substring would keep the whole file in memory
	default:
		err = settings.SetValue(to, value)
	}
	if err != nil {
		t.misfit(key, err.Error())
	}
	return err == nil
}

// readOwn decodes and validates the keys that are specific to a kind, in a table that also contains
// common keys. It reports whether they are valid.
func (t *table) readOwn(key string, raw map[string]any, common settings.Fields, own validator) bool {
	to, before := reflect.ValueOf(own).Elem(), len(t.misfits)
	t.decodeKeys(key, raw, to, slices.Concat(common.Keys, settings.FieldsOf(to.Type()).Keys), common.Has)
	if defaulter, ok := own.(interface{ SetDefaults() }); ok {
		defaulter.SetDefaults()
	}
	mistakes := own.Validate()
	for _, mistake := range mistakes {
		t.add(under(key, mistake.Field), mistake.Value, mistake.Detail)
	}
	return len(mistakes) == 0 && len(t.misfits) == before
}

// validator is the table of a kind: a pointer to a struct with toml tags. Validate returns all
// errors, with paths relative to the table.
type validator interface{ Validate() []settings.FieldError }

// checkTags records the values of a decoded table that violate its tags except strict.
func (t *table) checkTags(key string, decoded any) {
	for _, mistake := range settings.Validate(decoded) {
		t.addWritten(under(key, mistake.Field), mistake.Detail)
		t.meant[under(key, mistake.Field)] = true // other checks must not report it as missing, too
	}
}

// checkStrict records the keys of a decoded table that compat does not allow.
func (t *table) checkStrict(decoded any) {
	if t.loader.strict {
		for _, mistake := range settings.Deviations(decoded) {
			t.addWritten(mistake.Field, mistake.Detail)
		}
	}
}

// decodeKeys decodes a table into a struct and skips the keys for which ofOthers returns true. The
// argument allowed lists the keys that the message about an unknown key may suggest.
func (t *table) decodeKeys(key string, raw map[string]any, to reflect.Value, allowed []string, ofOthers func(name string) bool) {
	fields := settings.FieldsOf(to.Type())
	for name, inner := range raw {
		if t.loader.full() {
			return
		}
		if ofOthers != nil && ofOthers(name) {
			continue
		}
		if field, known := fields.ByKey[name]; known {
			t.checkExpanded(join(key, name), name, field.Type, inner)
			t.decode(join(key, name), to.FieldByIndex(field.Index), inner)
		} else {
			t.unknown(join(key, name), allowed)
		}
	}
}

// placeKey matches the keys of addresses and of paths on this host. hpad does not expand variables in
// them.
var placeKey = regexp.MustCompile(`^(address|addresses|allowed_hosts|audience|authority_host|auto_scaling|dir|ec2|endpoint|endpoints|file|file_sd|host|http|listen|nodes|path|` +
	`server_name|socket|state_dir|sts|tcp|token_url|universe_domain|url|web_config|[a-z_]+_files?)$`)

// checkExpanded records the variables of different tools in an address or path. The key decides, so that
// a new key is checked, too.
func (t *table) checkExpanded(key, name string, goType reflect.Type, value any) {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	if goType.Kind() == reflect.String && placeKey.MatchString(name) {
		t.checkVariables(key, value, !strings.HasSuffix(name, "url"))
	}
}

// checkVariables records the variables in a value or its elements. quoted is false if the value can
// contain a secret.
func (t *table) checkVariables(key string, value any, quoted bool) {
	text := ""
	switch given := value.(type) {
	case labelText:
		text = string(given)
	case string:
		text = given
	case []any:
		for i, inner := range given {
			t.checkVariables(element(key, i), inner, quoted)
		}
	case map[string]any:
		for name, inner := range given {
			t.checkVariables(join(key, name), inner, quoted)
		}
	}
	if detail := settings.Unexpanded(text); detail != "" {
		shown := ""
		if quoted {
			shown = httpclient.QuoteAddress(text)
		}
		t.add(key, shown, detail)
		t.misfits = append(t.misfits, key)
	}
}

func (t *table) decodeArray(key string, to reflect.Value, value any) bool {
	if elements, ok := value.(map[string]any); ok && t.labels {
		array, complete := elementsOf(elements)
		if !complete {
			t.misfit(key, "elements must be numbered from 0 without gaps")
			return false
		}
		value = array
	}
	raw := reflect.ValueOf(value)
	if raw.Kind() != reflect.Slice {
		form := "an array"
		if _, isText := value.(string); isText && to.Type().Elem().Kind() == reflect.String {
			form += `, such as ["one", "two"]`
		}
		t.misfit(key, "must be "+form+", not "+settings.KindOf(value))
		return false
	}
	all := reflect.MakeSlice(to.Type(), raw.Len(), raw.Len())
	fine := true
	for i := range raw.Len() {
		if t.loader.full() {
			return false
		}
		fine = t.decode(element(key, i), all.Index(i), raw.Index(i).Interface()) && fine
	}
	if fine { // otherwise the error concerns the whole array
		to.Set(all)
	}
	return fine
}

// misfit records a value of the wrong type.
func (t *table) misfit(key, detail string) {
	t.addWritten(key, detail)
	t.misfits = append(t.misfits, key)
}
