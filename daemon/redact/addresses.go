package redact

import (
	"regexp"
	"strings"
)

var (
	// plainURL matches the start of a URL up to the end of credentials without special characters.
	plainURL = regexp.MustCompile("[a-z][a-z0-9+.-]*://[^\\s\"'`/;=]+@")
	// userOnly matches an SSH URL that contains only a user name.
	userOnly = regexp.MustCompile(`ssh://[\w.-]+@$`)
)

// hidePlainURLs hides the credentials in URLs if they cannot be part of a pair.
func hidePlainURLs(text string) string {
	if !strings.Contains(text, "://") || !strings.Contains(text, "@") {
		return text
	}
	return plainURL.ReplaceAllStringFunc(text, func(found string) string {
		scheme, _, _ := strings.Cut(found, "://")
		if userOnly.MatchString(found) {
			return found
		}
		return scheme + "://redacted@"
	})
}

// address matches a word, which can be a URL or contain "user:password@host".
var address = regexp.MustCompile(`[^\s"'` + "`" + `]+`)

// digest matches the digest after the "@" in an image name, and the time after a PromQL subquery.
var digest = regexp.MustCompile(`@(?:sha\d+:|\d+$|\d+[^\w.]|start\(|end\()`)

// hideAddresses hides the remaining credentials in URLs, and the password in "user:password@host".
func hideAddresses(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	return address.ReplaceAllStringFunc(text, hideCredentials)
}

// hideCredentials hides the credentials in one word. Passwords are often not escaped, so the
// credentials extend to the last "@" in the word.
func hideCredentials(word string) string {
	last := strings.LastIndexByte(word, '@')
	if last > 0 && digest.MatchString(word[last:]) {
		last = strings.LastIndexByte(word[:last], '@')
	}
	if last <= 0 || last == len(word)-1 {
		return word
	}
	for i := range last {
		switch {
		case strings.HasPrefix(word[i:], "://"):
			if userOnly.MatchString(word[:last+1]) {
				return word
			}
			return word[:i+3] + "redacted" + word[last:]
		case i > 0 && word[i] == ':' && i < last-1 && isNamePart(word[i-1]):
			return word[:i+1] + Mark + word[last:]
		}
	}
	return word
}
