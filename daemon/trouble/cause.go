package trouble

import (
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
)

// Cause returns an identity of what errors say, so that the same trouble is known again
// while its numbers, times and ids change: words that hold a digit do not count.
// It is empty where nothing is said.
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
			_, _ = hash.Write([]byte(word + " ")) // a hash takes everything
		}
		_, _ = hash.Write([]byte{'\n'})
	}
	if !said {
		return ""
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}
