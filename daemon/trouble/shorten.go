package trouble

import "strings"

// longestText limits texts of platforms, sources and targets, in bytes, because they become part of
// records, history entries, events and notifications.
const longestText = 2000

// Shorten limits the length of a text.
func Shorten(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + " …"
}
