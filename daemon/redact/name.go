package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Named reports whether what has this name may be secret: a key, a variable, a
// flag, a header or a label. Names of files are not, whose contents are.
func Named(name string) bool {
	if !inDoubt(name) || isOpen(name) {
		return false
	}
	lower := strings.ToLower(name)
	if secretPart.MatchString(lower) {
		return true
	}
	words := wordsOf(name)
	for i, word := range words {
		switch {
		case slices.Contains(secretWords, word):
			return true
		case strings.HasSuffix(word, "pass") && !slices.Contains([]string{"bypass", "compass"}, word):
			return true
		case i > 0 && (word == "key" || word == "keys") && !slices.Contains(openKeys, words[i-1]):
			return true
		}
	}
	return name == "KEY"
}

// secretPart matches what makes a name secret wherever it is in it, in lower case.
var secretPart = regexp.MustCompile(`passw|passphrase|passcode|passin|passout|secret|token|credential|authorization|(api|access|private)[_.-]?key|signature|pwd`)

// secretWords make a name secret that they are a word of.
var secretWords = []string{"pw", "auth", "creds", "cred", "sig", "sas", "jwt", "cookie", "cookies", "bearer", "otp", "psk", "sid", "dsn"}

// openKeys are what is before "key" in names that are not secret.
var openKeys = []string{"cache", "foreign", "group", "label", "map", "object", "partition", "primary", "public", "routing", "sort"}

// isOpen reports whether a name is that of a file with something, of where it comes
// from or of whom it belongs to.
func isOpen(name string) bool {
	lower := strings.ToLower(name)
	for _, end := range []string{"file", "files", "dir", "path", "stdin", "user", "users", "username"} {
		if strings.HasSuffix(lower, end) {
			return true
		}
	}
	return false
}

// boundary is between a lower-case letter and an upper-case one, as in "accountKey".
var boundary = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// wordsOf returns the words of a name, in lower case.
func wordsOf(name string) []string {
	apart := strings.ToLower(boundary.ReplaceAllString(name, "$1 $2"))
	return strings.FieldsFunc(apart, func(r rune) bool { return r == ' ' || r == '_' || r == '-' || r == '.' })
}
