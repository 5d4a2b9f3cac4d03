package config

import "strings"

// nameRule says what validName allows: what Kubernetes allows as the name of a
// HorizontalPodAutoscaler.
const nameRule = `use at most 253 lower-case letters, digits, "-" and ".", each part between dots beginning and ending with a letter or digit`

const maxNameLength = 253

// validName says whether a fleet, source or autoscaler may have the name.
func validName(name string) bool {
	if len(name) > maxNameLength {
		return false
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}
