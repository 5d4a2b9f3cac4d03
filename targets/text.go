package targets

import (
	"fmt"
	"strings"
)

// FirstThree joins the first three texts, and appends the number of the remaining texts.
func FirstThree(texts []string, separator string) string {
	const shown = 3
	if more := len(texts) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:shown], separator), more)
	}
	return strings.Join(texts, separator)
}
