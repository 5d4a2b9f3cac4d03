package trouble

import (
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
)

// Cause returns an identity of error texts. Words with a digit are ignored, so that the identity is
// stable if only numbers, times or IDs change. It is empty for empty texts.
func Cause(texts ...string) string {
	if len(texts) == 0 {
		return ""
	}
	hash := fnv.New64a()
	said := false
	for _, text := range texts {
		for word := range strings.FieldsSeq(text) {
			said = true
			if strings.ContainsFunc(word, unicode.IsDigit) {
				word = "#"
			}
			_, _ = hash.Write([]byte(word + " ")) // a hash returns no error
		}
		_, _ = hash.Write([]byte{'\n'})
	}
	if !said {
		return ""
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}
