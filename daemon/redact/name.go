package redact

import (
	"regexp"
	"strings"

	"github.com/hpad/hpad/settings/secret"
)

// Named reports whether the value of a key, variable, flag, header or label with this name might be
// secret, as [secret.Named] does.
func Named(name string) bool { return secret.Named(name) }

// numeral matches a number with an optional unit, a pair such as "3/10", and "<unknown>".
var numeral = regexp.MustCompile(`^(?:<unknown>|` + quantity + `)(?:/(?:<unknown>|` + quantity + `))?$`)

const quantity = `[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?:[mkKMGT]i?|[nuµm]?s|[hd%]|B)?`

// digitSecrets matches the last word of names of secrets that can consist of digits only.
var digitSecrets = regexp.MustCompile(`(?i)(?:pass\w*|pwd|pw|secret|otp|token)$`)

// isNumber reports whether a value is a number, which is not secret. Four or more digits can be a
// password.
func isNumber(value, name string) bool {
	const maxNumber, pin = 40, 4
	if len(value) > maxNumber || !numeral.MatchString(value) {
		return false
	}
	return len(value) < pin || strings.Trim(value, "0123456789") != "" || !digitSecrets.MatchString(name)
}
