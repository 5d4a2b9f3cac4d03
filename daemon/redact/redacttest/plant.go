// Package redacttest plants secrets in values, so that tests can search the output for them.
package redacttest

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// Secret occurs in each of Texts and must be redacted.
const Secret = "hunter2"

// Texts contains texts in different formats, each with a secret.
var Texts = []string{
	"login with password=" + Secret + " failed",
	"Authorization: Digest username=\"shop\", response=\"" + Secret + "\"",
	"dial postgres://shop:" + Secret + "@db/shop: refused",
	`{"name":"DB_PASSWORD","value":"` + Secret + `"}`,
	"https://hooks.slack.com/services/T0/B0/" + Secret,
}

// maxDepth limits the recursion, because types can refer to themselves.
const maxDepth = 12

// Plant sets all strings and errors in the value that pointer refers to. It allocates nil pointers
// and adds an element to empty lists and maps.
func Plant(t *testing.T, pointer any, text string) {
	t.Helper()
	plant(reflect.ValueOf(pointer).Elem(), text, maxDepth)
}

func plant(value reflect.Value, text string, depth int) {
	if depth == 0 || !value.CanSet() {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(text)
	case reflect.Interface:
		if value.Type() == reflect.TypeFor[error]() {
			value.Set(reflect.ValueOf(errors.New(text)))
		}
	case reflect.Pointer:
		if value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}
		plant(value.Elem(), text, depth-1)
	case reflect.Slice:
		if value.Len() == 0 {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		}
		for i := range value.Len() {
			plant(value.Index(i), text, depth-1)
		}
	case reflect.Map:
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		plant(element, text, depth-1)
		if key.Kind() == reflect.String {
			key.SetString("queue")
		}
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, element)
	case reflect.Struct:
		if value.Type() == reflect.TypeFor[time.Time]() {
			value.Set(reflect.ValueOf(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
			return
		}
		for _, field := range value.Fields() {
			plant(field, text, depth-1)
		}
	}
}
