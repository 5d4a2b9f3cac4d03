package targets

import (
	"fmt"
	"strings"
	"unicode"
)

// longestPhrase is the maximum number of bytes in a phrase.
const longestPhrase = 1 << 10

// Phrase returns the start of a text on one line and without control characters: at most 1 KiB.
func Phrase(text string) string {
	if len(text) > 4*longestPhrase {
		text = text[:4*longestPhrase]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestPhrase {
		text = strings.ToValidUTF8(text[:longestPhrase], "")
	}
	return text
}

// FirstThree joins the first three texts, and appends the number of the remaining texts.
func FirstThree(texts []string, separator string) string {
	const shown = 3
	if more := len(texts) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:shown], separator), more)
	}
	return strings.Join(texts, separator)
}
