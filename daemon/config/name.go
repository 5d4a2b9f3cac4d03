package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nameRule describes validName, the rule for names of a HorizontalPodAutoscaler.
const nameRule = `use at most 253 lower-case letters, digits, "-" and ".", each part between dots beginning and ending with a letter or digit`

func validName(name string) bool { return validation.IsDNS1123Subdomain(name) == nil }

// AdaptName converts a name from another system to a valid name: in lower case, and with "-" for
// other characters. The result may be empty.
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
