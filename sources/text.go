package sources

import (
	"strings"
	"unicode"

	"github.com/hpad/hpad/settings/secret"
)

// Shorten returns a text of a user or a server in one line with a limited number of characters, without
// known secrets. Nonprintable characters, such as terminal control codes, become question marks.
func Shorten(text string, characters int) string {
	if most := 64 * characters; len(text) > most {
		text = text[:most]
	}
	line := []rune(strings.Join(strings.Fields(secret.Hide(text)), " "))
	if len(line) > characters {
		line = append(line[:characters-1], '…')
	}
	for i, r := range line {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			line[i] = '?'
		}
	}
	return string(line)
}
