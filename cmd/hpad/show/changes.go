package show

import (
	"io"
	"strings"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
)

// Changes writes the changes of a reload. made is false in a dry run.
func Changes(w io.Writer, changes []config.Change, made bool) error {
	var text strings.Builder
	if made {
		text.WriteString("The configuration was reloaded.\n")
	}
	for _, change := range changes {
		text.WriteString(explain.OneLine(change.String()) + "\n")
	}
	switch {
	case len(changes) > 0:
	case made:
		text.WriteString("There are no changes.\n")
	default:
		text.WriteString("A reload would make no changes.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
