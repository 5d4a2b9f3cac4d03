package redact

import "strings"

// triggers are what a text has that has anything to hide, in lower case, by their
// first two letters. Most texts have none, and are looked at no further. The last are
// escapes of JSON, behind which there may be a letter of another.
var triggers = byBeginning(
	"pass", "pwd", "pw", "secret", "token", "cred", "auth", "key", "sig", "sas", "jwt", "cookie", "bearer", "basic", "otp", "psk", "sid", "dsn",
	"-p", "-u", "eyj", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "sk-", "sk_", "hvs.",
	"hooks.slack", "/webhooks/", "/bot",
	`\u`, `\/`,
)

// beginnings are words by their first two letters, of which begun has a bit each: it
// fits into the cache of a processor.
type beginnings struct {
	begun [1 << 16 / 64]uint64
	words map[uint16][]string
}

func byBeginning(words ...string) *beginnings {
	sorted := &beginnings{words: map[uint16][]string{}}
	for _, word := range words {
		pair := uint16(word[0])<<8 | uint16(word[1])
		sorted.begun[pair/64] |= 1 << (pair % 64)
		sorted.words[pair] = append(sorted.words[pair], word)
	}
	return sorted
}

// inDoubt reports whether a text, or a string of JSON, may have anything to hide.
func inDoubt[T string | []byte](text T) bool {
	pair := uint16(0)
	for i := range len(text) {
		if text[i] == '@' {
			return true
		}
		pair = pair<<8 | uint16(lower(text[i]))
		if triggers.begun[pair/64]&(1<<(pair%64)) == 0 {
			continue
		}
		for _, word := range triggers.words[pair] {
			if begin := i - 1; len(text)-begin >= len(word) && strings.EqualFold(string(text[begin:begin+len(word)]), word) {
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
