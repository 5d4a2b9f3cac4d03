package config

import (
	"strings"
	"unicode"
)

// Nearest returns the allowed name that is most similar to an unknown one; "" without a similar
// one. It accepts the spelling of Kubernetes ("maxReplicas") and names that contain an allowed one
// ("scaleTargetRef").
func Nearest(key string, allowed []string) string {
	spelled := snakeCase(key)
	best, least := "", len(spelled)/3+2
	for _, candidate := range allowed {
		d := min(distance(spelled, candidate), distance(key, candidate))
		if strings.Contains("_"+spelled+"_", "_"+candidate+"_") || strings.HasPrefix(candidate, spelled+"_") {
			d = min(d, 1)
		}
		if d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

func snakeCase(key string) string {
	var b strings.Builder
	lower := false
	for _, r := range key {
		switch {
		case r == '-':
			r = '_'
		case unicode.IsUpper(r):
			if lower {
				b.WriteByte('_')
			}
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// distance returns the number of insertions, deletions, replacements and swaps of letters between
// two words.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			next[j] = min(last[j]+1, next[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
