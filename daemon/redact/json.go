package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// JSON removes secrets from encoded JSON, which must have the form that [json.Marshal] produces. It
// replaces all strings below a key with a secret name, the value in an object that contains a
// secret name, and secrets inside of other strings. Keys and numbers are not changed.
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
			continue // a name after the value hides the whole value
		}
		shown = append(append(shown, encoded[done:h.begin]...), h.shown...)
		done = h.end
	}
	return append(shown, encoded[done:]...)
}

// literal is a string in encoded JSON and its replacement.
type literal struct {
	begin, end int
	shown      []byte
}

// level is an object or a list in JSON.
type level struct {
	// secret reports whether all strings in this level may be secret.
	secret, list bool
	// key is the last key of the object. flag reports whether the last string of the list is a flag
	// whose value is secret.
	key  []byte
	flag bool
	// named reports whether the object contains a secret name, such as {"name": "DB_PASSWORD"}.
	// value is the object's value if it preceded the name.
	named bool
	value literal
}

func (l *level) isSecret() bool { return l.secret || inDoubt(l.key) && Named(textOf(l.key)) }

// hide appends the literals that must be replaced because of the next string in the level.
func (l *level) hide(hidden []literal, encoded []byte, one literal) []literal {
	given := encoded[one.begin:one.end]
	secret := l.isSecret() || l.flag || l.named && isValueKey(l.key)
	l.flag = false
	if !secret && !inDoubt(given) { // most strings return here without an allocation
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

// stringEnd returns the end of the string that begins at a quote.
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

// textOf decodes a JSON string.
func textOf(literal []byte) string {
	if !bytes.ContainsRune(literal, '\\') && len(literal) >= 2 {
		return string(literal[1 : len(literal)-1])
	}
	var text string
	_ = json.Unmarshal(literal, &text) // the result for a value that is not a string is empty
	return text
}

// inDoubt reports whether a JSON string may contain a secret. An escape sequence may encode a
// letter of a trigger.
func inDoubt(literal []byte) bool {
	return bytes.IndexByte(literal, '@') >= 0 || bytes.Contains(literal, []byte(`\u`)) || bytes.Contains(literal, []byte(`\/`)) || isIn(triggers, literal)
}

// Value returns the value of a key, header or label without secrets. If the name is secret, it
// returns Mark, unless the value is a number.
func Value(name, text string) string {
	if text != "" && Named(name) && !isNumber(text, name) {
		return Mark
	}
	return Text(text)
}
