// Package settings decodes the configuration tables of the daemon, fleets, sources and drains, sets
// their defaults and validates them. Package quantity parses quantities, and package httpclient
// contains the settings of HTTP clients.
package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Each key of a table is a struct field with these tags:
//
//	toml            name
//	default         value that SetDefaults sets
//	min, max, above bounds of a number or duration; above is exclusive
//	whole           unit of which the value must be a multiple
//	values          allowed words in addition to the empty word, separated by blanks
//	must            error message that replaces the generated one
//	required        description of a key that must be set, for an array with a first element
//	requires        keys of the same table that must be set with the key, separated by blanks
//	excludes        keys of the same table that must not be set with the key
//	of              values of the same table's key "type" that support the key
//	strict          reason why the key is not allowed with compat = "strict"
//	next_start      "true" if a reload does not change the key

// Fields lists the keys of a struct type, including those of untagged embedded structs.
type Fields struct {
	Keys  []string
	ByKey map[string]reflect.StructField
	// tagged lists the keys that have other tags than their name, directly or in an inner table.
	tagged []key
}

type key struct {
	name  string
	field reflect.StructField
}

// Has reports whether a key exists.
func (f Fields) Has(key string) bool {
	_, ok := f.ByKey[key]
	return ok
}

// knownFields caches Fields by reflect.Type, because thousands of tables share a few types.
var knownFields sync.Map

// FieldsOf returns the keys of a struct type. The result is shared and must not be modified.
func FieldsOf(goType reflect.Type) Fields {
	if known, ok := knownFields.Load(goType); ok {
		return known.(Fields)
	}
	fields := Fields{ByKey: map[string]reflect.StructField{}}
	for _, field := range reflect.VisibleFields(goType) {
		name := field.Tag.Get("toml")
		if !field.IsExported() || name == "-" || field.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		fields.Keys = append(fields.Keys, name)
		fields.ByKey[name] = field
		inner := field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		nested := inner.Kind() == reflect.Struct && !IsValue(inner) && len(FieldsOf(inner).tagged) > 0
		if nested || ruleTag.MatchString(string(field.Tag)) {
			fields.tagged = append(fields.tagged, key{name, field})
		}
	}
	knownFields.Store(goType, fields)
	return fields
}

// SetDefaults sets the zero keys of a table and its inner tables to their defaults. The table
// is a pointer to a struct.
func SetDefaults(table any) {
	walk("", reflect.ValueOf(table).Elem(), func(_ string, _ reflect.Value, k key, value reflect.Value) {
		text, ok := k.field.Tag.Lookup("default")
		if !ok || !value.CanSet() || !value.IsZero() {
			return
		}
		if value.Kind() == reflect.Pointer {
			value.Set(reflect.New(value.Type().Elem()))
			value = value.Elem()
		}
		if err := SetText(value, text); err != nil {
			panic(fmt.Sprintf("default of %s: %v", k.field.Name, err)) // a programming error
		}
	})
}

// Validate returns the violations of a table's tags, except strict. The table is a pointer to a struct.
// The errors about missing keys and about combinations of keys contain no value.
func Validate(table any) []FieldError {
	var errs []FieldError
	missing := map[string]bool{}
	walk("", reflect.ValueOf(table).Elem(), func(path string, table reflect.Value, k key, value reflect.Value) {
		if given := reflect.Indirect(value); given.IsValid() {
			if detail := check(k.field.Tag, given); detail != "" {
				errs = append(errs, FieldError{Field: inside(path, k.name), Value: Text(given), Detail: detail})
			}
		}
		for _, e := range related(table, k, value) {
			if e.Field = inside(path, e.Field); !missing[e.Field] {
				errs = append(errs, e)
			}
			missing[e.Field] = true
		}
	})
	return errs
}

// Deviations returns an error for each key that is set although its tag strict excludes it.
func Deviations(table any) []FieldError {
	var errs []FieldError
	walk("", reflect.ValueOf(table).Elem(), func(path string, _ reflect.Value, k key, value reflect.Value) {
		if reason := k.field.Tag.Get("strict"); reason != "" && !value.IsZero() {
			errs = append(errs, FieldError{Field: inside(path, k.name), Detail: `is not allowed with compat = "strict": ` + reason})
		}
	})
	return errs
}

// ruleTag matches the tags that Validate, Deviations and SetDefaults evaluate.
var ruleTag = regexp.MustCompile(`\b(default|min|max|above|whole|values|required|requires|excludes|of|strict):`)

// walk visits the keys with tags, each before the keys of its inner table. path is the path of the
// key's table.
func walk(path string, table reflect.Value, visit func(path string, table reflect.Value, k key, value reflect.Value)) {
	for _, k := range FieldsOf(table.Type()).tagged {
		value, err := table.FieldByIndexErr(k.field.Index)
		if err != nil {
			continue
		}
		visit(path, table, k, value)
		inner := reflect.Indirect(value)
		switch {
		case !inner.IsValid() || IsValue(inner.Type()):
		case inner.Kind() == reflect.Struct:
			walk(inside(path, k.name), inner, visit)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct && !IsValue(inner.Type().Elem()):
			for i := range inner.Len() {
				walk(inside(path, k.name)+"["+strconv.Itoa(i)+"]", inner.Index(i), visit)
			}
		}
	}
}

// related returns the violations of the tags that relate a key to other keys of its table.
func related(table reflect.Value, k key, value reflect.Value) (errs []FieldError) {
	tag, fields := k.field.Tag, FieldsOf(table.Type())
	if value.IsZero() || value.Kind() == reflect.Slice && (value.Len() == 0 || value.Index(0).IsZero()) {
		if what := tag.Get("required"); what != "" {
			return []FieldError{{Field: k.name, Detail: "is required: " + what}}
		}
	}
	if value.IsZero() {
		return nil
	}
	if types := strings.Fields(tag.Get("of")); len(types) > 0 {
		field := fields.ByKey["type"]
		given := table.FieldByIndex(field.Index).String()
		if slices.Contains(strings.Fields(field.Tag.Get("values")), given) && !slices.Contains(types, given) {
			return []FieldError{{Field: k.name, Detail: "is not allowed for type " + given + "; it is for " + enumerate(types, "and")}}
		}
	}
	isSet := func(other string) bool { return !table.FieldByIndex(fields.ByKey[other].Index).IsZero() }
	for other := range strings.FieldsSeq(tag.Get("requires")) {
		if !isSet(other) {
			errs = append(errs, FieldError{Field: other, Detail: "is required with " + k.name})
		}
	}
	for other := range strings.FieldsSeq(tag.Get("excludes")) {
		if isSet(other) {
			errs = append(errs, FieldError{Field: k.name, Detail: "cannot be combined with " + other + "; keep one of them"})
		}
	}
	return errs
}

// enumerate joins words with commas and, before the last word, a conjunction.
func enumerate(words []string, conjunction string) string {
	last := len(words) - 1
	return strings.TrimPrefix(strings.Join(words[:last], ", ")+" "+conjunction+" ", " "+conjunction+" ") + words[last]
}

func inside(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// check returns the violation of a key's tags, or "" if the value is valid.
func check(tag reflect.StructTag, value reflect.Value) string {
	least, hasLeast := tag.Lookup("min")
	most, hasMost := tag.Lookup("max")
	above, hasAbove := tag.Lookup("above")
	detail := ""
	switch {
	case hasLeast && compare(value, least) < 0, hasMost && compare(value, most) > 0:
		switch {
		case !hasMost:
			detail = "must be at least " + least
		case !hasLeast:
			detail = "must be at most " + most
		default:
			detail = "must be from " + least + " to " + most
		}
	case hasAbove && compare(value, above) <= 0:
		detail = "must be more than " + above
	case tag.Get("whole") != "" && value.Int()%parsed(value.Type(), tag.Get("whole")).Int() != 0:
		detail = WholeSeconds
	}
	words := strings.Fields(tag.Get("values"))
	if len(words) > 0 && value.String() != "" && !slices.Contains(words, value.String()) {
		for i, word := range words {
			words[i] = strconv.Quote(word)
		}
		detail = "must be " + enumerate(words, "or")
	}
	if must := tag.Get("must"); must != "" && detail != "" {
		return "must be " + must
	}
	return detail
}

// WholeSeconds is the error for a duration that must be a number of whole seconds, because the
// algorithm uses whole seconds.
const WholeSeconds = `must be whole seconds, such as "90s" or "5m"`

// compare compares a number with a bound of its type.
func compare(value reflect.Value, bound string) int {
	to := parsed(value.Type(), bound)
	switch {
	case value.CanInt():
		return cmp.Compare(value.Int(), to.Int())
	case value.CanUint():
		return cmp.Compare(value.Uint(), to.Uint())
	}
	return cmp.Compare(value.Float(), to.Float())
}

// parsed parses the value of a tag.
func parsed(goType reflect.Type, text string) reflect.Value {
	value := reflect.New(goType).Elem()
	if err := SetText(value, text); err != nil {
		panic(fmt.Sprintf("bound of a %s: %v", goType, err)) // a programming error
	}
	return value
}

// FieldError is one error in a configuration value.
type FieldError struct {
	// Field is the path of the value, such as "metrics[0].target.value".
	Field string
	// Value is the text as written, or empty if it is absent.
	Value string
	// Detail describes the error and the allowed values, such as "must be at least 1".
	Detail string
}

// Error returns the field, the value and the detail.
func (e FieldError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Detail
	}
	return e.Field + " = " + e.Value + ": " + e.Detail
}

// FieldErrors lists the errors in a table, in the order in which they were found.
type FieldErrors []FieldError

// Add adds an error with the path of the key, its value (empty if it is hidden) and the detail.
func (m *FieldErrors) Add(field, value, detail string) {
	*m = append(*m, FieldError{Field: field, Value: value, Detail: detail})
}

// Change is a difference between two configurations.
type Change struct {
	// Key is the path of a table that is in only one configuration, such as "autoscalers.web",
	// or of a value, such as "autoscalers.web.max_replicas".
	Key string `json:"key"`
	// Before and After are the values in TOML. They are empty for absent values, secrets and
	// whole tables.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Kind is "added", "removed" or "changed".
	Kind ChangeKind `json:"kind"`
	// NextStart reports whether the change takes effect only after a restart.
	NextStart bool `json:"next_start,omitempty"`
	// Note describes a further effect of the change, as a clause; may be empty.
	Note string `json:"note,omitempty"`
}

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of a Change.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// String returns the change in one line, such as "~ autoscalers.web.max_replicas: 5 -> 8".
func (c Change) String() string {
	text := map[ChangeKind]string{Added: "+ ", Removed: "- ", Changed: "~ "}[c.Kind] + c.Key
	switch {
	case c.Kind == Changed && c.Before == c.After:
		text += " (another value)"
	case c.Before != "" && c.After != "":
		text += ": " + c.Before + " -> " + c.After
	case c.Before+c.After != "":
		text += ": " + c.Before + c.After
	}
	if c.NextStart {
		text += " (at the next start)"
	}
	if c.Note != "" {
		text += ": " + c.Note
	}
	return text
}

// Reload is a configuration reload that affects an autoscaler.
type Reload struct {
	// Author is the user who requested the reload, or its cause, such as "SIGHUP".
	Author string `json:"author"`
	// Adopted reports whether the author ran "hpad cluster adopt".
	Adopted bool `json:"adopted,omitempty"`
	// Takeover is set if the entry describes a new owner of the fleet in a cluster, with or without
	// changes.
	Takeover *Takeover `json:"takeover,omitempty"`
	// Changes lists the first 10 changes. Keys in the autoscaler's own table are relative to
	// it.
	Changes []Change `json:"changes"`
	// More is the number of changes that are left out.
	More int `json:"more,omitempty"`
}

// Takeover names the new and the last owner of a fleet in a cluster.
type Takeover struct {
	Member string `json:"member"`
	From   string `json:"from"`
}
