package config

import (
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nameRule describes the rule that validName checks. It applies to names of a
// HorizontalPodAutoscaler.
const nameRule = `use at most 253 lower-case letters, digits, "-" and ".", each part between dots beginning and ending with a letter or digit`

func validName(name string) bool { return validation.IsDNS1123Subdomain(name) == nil }

// AdaptName converts a name from another system to a valid name. It changes letters to lower case
// and other invalid characters to "-". The result may be empty.
func AdaptName(text string) string {
	if validName(text) {
		return text
	}
	var parts []string
	for part := range strings.SplitSeq(strings.ToLower(text), ".") {
		allowed := strings.Map(func(r rune) rune {
			if r < 'a' || r > 'z' {
				if r < '0' || r > '9' {
					return '-'
				}
			}
			return r
		}, part)
		if allowed = strings.Trim(allowed, "-"); allowed != "" {
			parts = append(parts, allowed)
		}
	}
	name := strings.Join(parts, ".")
	if len(name) > validation.DNS1123SubdomainMaxLength {
		name = strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength], "-.")
	}
	return name
}

// Nearest returns the allowed name that is most similar to an unknown name, or "" if none is
// similar. It also recognizes Kubernetes's camelCase names ("maxReplicas") and names that contain an
// allowed name ("scaleTargetRef").
func Nearest(key string, allowed []string) string {
	spelled := snakeCase(key)
	best, least := "", len(spelled)/3+2
	for _, candidate := range allowed {
		d := min(distance(spelled, candidate), distance(key, candidate))
		if strings.Contains("_"+spelled+"_", "_"+candidate+"_") || strings.HasPrefix(candidate, spelled+"_") {
			d = min(d, 2) // a name with one wrong letter is more similar
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

// distance returns the number of insertions, deletions, replacements and swaps of letters that turn
// one word into the other.
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
