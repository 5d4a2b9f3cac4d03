package config

import (
	"strings"
	"unicode"
)

// Nearest returns the allowed key or name that an unknown one was probably meant to
// be, and "" when none is near. Kubernetes' own spelling ("maxReplicas") counts as the
// snake case of it, and one that is a word of it ("scaleTargetRef") is near.
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

// snakeCase returns a key in lower case with underscores between its words.
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

// distance counts the letters to insert, delete, replace or swap with their
// neighbor to make b of a.
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
