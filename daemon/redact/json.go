package redact

import (
	"bytes"
	"encoding/json"
)

// JSON returns encoded JSON, without blanks as [json.Marshal] writes it, with what
// may be secret replaced in its texts: all of the value of a key with a secret name.
// Keys stay as they are.
func JSON(encoded []byte) []byte {
	var shown, key []byte
	done := 0
	for at := 0; at < len(encoded); {
		if encoded[at] != '"' {
			if encoded[at] == ',' || encoded[at] == '}' || encoded[at] == ']' {
				key = nil
			}
			at++
			continue
		}
		end := stringEnd(encoded, at)
		literal := encoded[at:end]
		if end < len(encoded) && encoded[end] == ':' {
			key = literal
		} else if inDoubt(key) || inDoubt(literal) { // few are, and only those cost memory
			if hidden, changed := literalWithout(textOf(key), literal); changed {
				shown = append(append(shown, encoded[done:at]...), hidden...)
				done = end
			}
		}
		at = end
	}
	if done == 0 {
		return encoded
	}
	return append(shown, encoded[done:]...)
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

// literalWithout returns the string of a key without what may be secret, and
// whether that is another one.
func literalWithout(key string, literal []byte) (shown []byte, changed bool) {
	text := textOf(literal)
	hidden := Value(key, text)
	if hidden == text {
		return literal, false
	}
	shown, err := json.Marshal(hidden)
	return shown, err == nil
}

// Value returns the text of a key, a header or a label without what may be secret:
// nothing of it where the name is a secret's.
func Value(name, text string) string {
	if text != "" && Named(name) {
		return Mark
	}
	return Text(text)
}
