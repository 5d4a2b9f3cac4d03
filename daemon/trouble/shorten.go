package trouble

import "strings"

// longestText is the limit of a text of a platform, a source or a target in bytes. Such
// texts become part of records, history entries, events and notifications.
const longestText = 2000

// Shorten cuts a text to a length that can be stored and shown.
func Shorten(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + " …"
}
