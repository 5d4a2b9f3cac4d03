package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// JSON returns encoded JSON without secrets. It expects the form of [json.Marshal]. It
// replaces all texts below a key with a secret name, the value of an object that has a secret
// name, and secrets inside of other texts. Keys and numbers stay unchanged.
func JSON(encoded []byte) []byte {
	var hidden []literal
	levels := []level{{}}
	for at := 0; at < len(encoded); at++ {
		in := &levels[len(levels)-1]
		switch encoded[at] {
		case '{', '[':
			levels = append(levels, level{secret: in.isSecret(), list: encoded[at] == '['})
		case '}', ']':
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
		case ',':
			in.key = nil
		case '"':
			one := literal{at, stringEnd(encoded, at), nil}
			at = one.end - 1
			if one.end < len(encoded) && encoded[one.end] == ':' && !in.list {
				in.key = encoded[one.begin:one.end]
				continue
			}
			hidden = in.hide(hidden, encoded, one)
		}
	}
	if hidden == nil {
		return encoded
	}
	slices.SortStableFunc(hidden, func(a, b literal) int { return cmp.Compare(a.begin, b.begin) })
	shown := make([]byte, 0, len(encoded))
	done := 0
	for i, h := range hidden {
		if i+1 < len(hidden) && hidden[i+1].begin == h.begin {
			continue // the name after the value hides all of it
		}
		shown = append(append(shown, encoded[done:h.begin]...), h.shown...)
		done = h.end
	}
	return append(shown, encoded[done:]...)
}

// literal is a string in encoded JSON with its replacement.
type literal struct {
	begin, end int
	shown      []byte
}

// level is an object or a list of JSON.
type level struct {
	// secret reports whether all of its texts may be secret.
	secret, list bool
	// key is the last one of the object, flag whether the last text of the list is a flag
	// that is followed by a secret.
	key  []byte
	flag bool
	// named reports whether the object names a secret, as {"name": "DB_PASSWORD"} does;
	// value is its value if it came before the name.
	named bool
	value literal
}

func (l *level) isSecret() bool { return l.secret || inDoubt(l.key) && Named(textOf(l.key)) }

// hide appends the literals to replace after a further text of the level.
func (l *level) hide(hidden []literal, encoded []byte, one literal) []literal {
	given := encoded[one.begin:one.end]
	secret := l.isSecret() || l.flag || l.named && isValueKey(l.key)
	l.flag = false
	if !secret && !inDoubt(given) { // most texts: no allocation
		if isValueKey(l.key) {
			l.value = one
		}
		return hidden
	}
	text := textOf(given)
	shown := Text(text)
	switch {
	case secret && text != "" && !isNumber(text, textOf(l.key)):
		shown = Mark
	case l.list:
		l.flag = text == "-p" || isSecretFlag(text)
	case isValueKey(l.key):
		l.value = one
	case isNameKey(l.key) && !strings.ContainsAny(text, " \t\n") && Named(text):
		l.named = true
		if value := l.value; value.end > 0 && !isNumber(textOf(encoded[value.begin:value.end]), text) {
			hidden = append(hidden, literal{value.begin, value.end, []byte(`"` + Mark + `"`)})
		}
	}
	if shown == text {
		return hidden
	}
	if one.shown, _ = json.Marshal(shown); one.shown != nil {
		hidden = append(hidden, one)
	}
	return hidden
}

func isValueKey(key []byte) bool { return bytes.EqualFold(key, []byte(`"value"`)) }

func isNameKey(key []byte) bool {
	return len(key) > 2 && slices.Contains([]string{"name", "key", "variable", "var", "field", "header", "param", "parameter", "env", "label"}, strings.ToLower(string(key[1:len(key)-1])))
}

// stringEnd returns where the string that begins at a quote ends.
func stringEnd(encoded []byte, at int) int {
	for i := at + 1; i < len(encoded); i++ {
		switch encoded[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(encoded)
}

// textOf returns the text of a string.
func textOf(literal []byte) string {
	if !bytes.ContainsRune(literal, '\\') && len(literal) >= 2 {
		return string(literal[1 : len(literal)-1])
	}
	var text string
	_ = json.Unmarshal(literal, &text) // what is no string has no text
	return text
}

// inDoubt reports whether a string of JSON may have a secret. An escape may stand for a
// letter of a trigger.
func inDoubt(literal []byte) bool {
	return bytes.IndexByte(literal, '@') >= 0 || bytes.Contains(literal, []byte(`\u`)) || bytes.Contains(literal, []byte(`\/`)) || isIn(triggers, literal)
}

// Value returns the text of a key, a header or a label without secrets. If the name is secret
// it returns Mark, unless the text is a number.
func Value(name, text string) string {
	if text != "" && Named(name) && !isNumber(text, name) {
		return Mark
	}
	return Text(text)
}
