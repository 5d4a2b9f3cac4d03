package redact

import "strings"

// triggers are what a text has that has anything to hide, in lower case, by their
// first two letters. Most texts have none, and are looked at no further.
var triggers = byBeginning(
	"pass", "pwd", "pw", "secret", "token", "cred", "auth", "key", "sig", "sas", "jwt", "cookie", "bearer", "basic", "otp", "psk", "sid", "dsn",
	"-p", "-u", "eyj", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "sk-", "sk_", "hvs.",
	"hooks.slack", "/webhooks/", "/bot",
)

func byBeginning(words ...string) *[1 << 16][]string {
	var sorted [1 << 16][]string
	for _, word := range words {
		pair := int(word[0])<<8 | int(word[1])
		sorted[pair] = append(sorted[pair], word)
	}
	return &sorted
}

// inDoubt reports whether a text may have anything to hide.
func inDoubt(text string) bool {
	if strings.Contains(text, "@") {
		return true
	}
	pair := 0
	for i := range len(text) {
		pair = pair<<8&0xff00 | int(lower(text[i]))
		for _, word := range triggers[pair] {
			if begin := i - 1; len(text)-begin >= len(word) && strings.EqualFold(text[begin:begin+len(word)], word) {
				return true
			}
		}
	}
	return false
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
