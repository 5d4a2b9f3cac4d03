package settings

import (
	"reflect"
	"strings"
	"sync"
)

// Fields are the keys of a struct type, those of untagged embedded structs included.
type Fields struct {
	Keys  []string
	ByKey map[string]reflect.StructField
}

// Has reports whether there is a key of that name.
func (f Fields) Has(key string) bool {
	_, ok := f.ByKey[key]
	return ok
}

// knownFields are the Fields by reflect.Type: thousands of tables are of the same
// few types.
var knownFields sync.Map

// FieldsOf returns the keys of a struct type. They are shared and not to be modified.
func FieldsOf(goType reflect.Type) Fields {
	if known, ok := knownFields.Load(goType); ok {
		return known.(Fields)
	}
	fields := Fields{ByKey: map[string]reflect.StructField{}}
	for _, field := range reflect.VisibleFields(goType) {
		key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		if !field.IsExported() || key == "-" || field.Anonymous && key == "" {
			continue
		}
		if key == "" {
			key = field.Name
		}
		fields.Keys = append(fields.Keys, key)
		fields.ByKey[key] = field
	}
	knownFields.Store(goType, fields)
	return fields
}
