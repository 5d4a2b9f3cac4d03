package show

import (
	"io"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
)

// Changes writes what a reload would change, a line for each.
func Changes(w io.Writer, changes []config.Change) error {
	var text strings.Builder
	for _, change := range changes {
		text.WriteString(explain.OneLine(change.String()) + "\n")
	}
	if len(changes) == 0 {
		text.WriteString("A reload would change nothing.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
