// Package redact hides possible secrets in everything that hpad shows: its configuration, API
// responses, logs and errors. The same rules apply everywhere. Doubtful values are hidden.
//
// A text goes through three passes:
//
//  1. Exact values: package secret hides each secret that hpad has read, wherever it occurs.
//  2. Shapes (shapes.go): private keys, tokens of well-known services, webhooks, and the credentials
//     in a URL.
//  3. Pairs (pairs.go): the value after a secret name ("DB_PASSWORD=…", "--token …",
//     {api_key="…"}) or after an authentication scheme ("Bearer …"), and in the rest of the text
//     what precedes the "@" of addresses (addresses.go).
//
// Numbers and the names of metrics and labels are not secrets. A secret that hpad has not read and
// that has no name, such as in "echo hunter2", is not recognized.
package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hpad/hpad/settings/secret"
)

// Mark replaces a secret.
const Mark = secret.Mark

// maxText is the maximum length of a text in bytes. Longer texts are truncated.
const maxText = 1 << 20

// Text removes secrets from any text, such as a sentence, a shell command, a query or a URL. The
// time is linear in the length of the text.
func Text(text string) string { return hide(text, false) }

// hide replaces possible secrets. If oneWord is set, the text is a single word, such as one
// argument of a command, and everything after a secret name is hidden.
func hide(text string, oneWord bool) string {
	end := ""
	if len(text) > maxText {
		text, end = strings.ToValidUTF8(text[:maxText], ""), "…"
	}
	return hideAddresses(hidePairs(hideShapes(secret.Hide(text)), oneWord)) + end
}

// KeepEnvironment keeps the values of environment variables with secret names, such as
// NOMAD_TOKEN, as [secret.Keep] does. A variable has the form "NAME=VALUE".
func KeepEnvironment(variables []string) {
	for _, variable := range variables {
		if name, value, _ := strings.Cut(variable, "="); Named(name) {
			secret.Keep(value)
		}
	}
}

// Value returns the value of a key, header or label without secrets. If the name is secret, it
// returns Mark, unless the value is a number.
func Value(name, text string) string {
	if text != "" && Named(name) && !isNumber(text, name) {
		return Mark
	}
	return Text(text)
}

// script matches the shell flag that precedes a script.
var script = regexp.MustCompile(`^-[a-z]*c$`)

// userFlags lists the flags whose value is "user:password".
var userFlags = []string{"-u", "-U", "--user", "--proxy-user"}

// Arguments returns the arguments of a command without secrets. It treats an argument after "-c" as
// a script. In other arguments, it hides everything after a secret name.
func Arguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	before := ""
	for i, argument := range arguments {
		user, _, hasPassword := strings.Cut(argument, ":")
		switch {
		case argument == "":
		case isSecretFlag(before):
			shown[i] = Mark
		case slices.Contains(userFlags, before) && hasPassword:
			shown[i] = user + ":" + Mark
		default:
			shown[i] = hide(argument, !script.MatchString(before))
		}
		before = argument
	}
	return shown
}

// isSecretFlag reports whether an argument is a flag whose value, the next argument, might be
// secret.
func isSecretFlag(argument string) bool {
	name := strings.TrimLeft(argument, "-")
	return argument == "-p" || name != argument && !strings.ContainsAny(name, "=: \t\n") && (Named(name) || name == "key")
}

// nameKeys lists the keys that contain the name of a variable or header. The key "value" of the
// same object contains its value.
var nameKeys = strings.Fields("name key variable var field header param parameter env label")

// level is an object or a list in JSON.
type level struct {
	// secret reports whether all strings in this level might be secret.
	secret bool
	// key is the last key of the object.
	key string
	// next reports whether the next value is secret. It is set after a secret flag in a list, and
	// for the key "value" in an object such as {"name": "DB_PASSWORD", "value": "hunter2"}.
	next bool
}

// JSON removes secrets from encoded JSON. It replaces all strings below a key with a secret name,
// the value after a secret name in an object, and secrets inside other strings. It does not change
// keys and numbers. Like [json.Marshal], it escapes HTML characters. If encoded is not valid JSON,
// it returns the redacted text.
func JSON(encoded []byte) []byte {
	return hideJSON(encoded, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
}

func hideJSON(encoded []byte, options ...jsontext.Options) []byte {
	var out bytes.Buffer
	options = append(options, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	from, to := jsontext.NewDecoder(bytes.NewReader(encoded), options...), jsontext.NewEncoder(&out, options...)
	levels := []level{{}}
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		}
		in := &levels[len(levels)-1]
		kind, length := from.StackIndex(from.StackDepth())
		switch {
		case err != nil:
			shown, _ := json.Marshal(Text(string(encoded)))
			return shown
		case token.Kind() == '{' || token.Kind() == '[':
			levels = append(levels, level{secret: in.secret || in.next && in.isValue() || Named(in.key)})
		case token.Kind() == '}' || token.Kind() == ']':
			levels = levels[:len(levels)-1]
		case token.Kind() == '"' && kind == '{' && length%2 == 1:
			in.key = token.String()
		case token.Kind() == '"':
			token = jsontext.String(in.hide(token.String()))
		}
		if err := to.WriteToken(token); err != nil {
			return []byte(`"` + Mark + `"`)
		}
	}
}

// isValue reports whether next applies to the next value of the level.
func (l *level) isValue() bool { return l.key == "" || strings.EqualFold(l.key, "value") }

// hide returns the next string of the level without secrets.
func (l *level) hide(text string) string {
	secret := l.secret || l.next && l.isValue()
	if l.isValue() {
		l.next = l.key == "" && isSecretFlag(text)
	} else if slices.Contains(nameKeys, strings.ToLower(l.key)) {
		l.next = Named(text)
	}
	if secret && text != "" && !isNumber(text, l.key) {
		return Mark
	}
	return Value(l.key, text)
}

// Writer returns a writer that removes secrets from log lines, in JSON or as text, before it writes
// them to w.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

// Write writes one line.
func (w writer) Write(line []byte) (int, error) {
	text, shown := bytes.TrimSuffix(line, []byte("\n")), []byte(nil)
	if bytes.HasPrefix(line, []byte("{")) {
		shown = hideJSON(text)
	} else {
		shown = []byte(Text(string(text)))
	}
	if _, err := w.Writer.Write(append(shown, '\n')); err != nil {
		return 0, err
	}
	return len(line), nil
}
