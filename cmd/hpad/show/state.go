package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/state"
)

// State writes the report of a check of the stored state.
func State(w io.Writer, report state.Report) error {
	var text strings.Builder
	for i := range report.Files {
		file := &report.Files[i]
		fmt.Fprintf(&text, "%s: ", file.Path)
		if len(file.Problems) == 0 {
			fmt.Fprintf(&text, "valid: %s, format %s", units.HumanSize(float64(file.Bytes)), file.Format)
			for _, bucket := range slices.Sorted(maps.Keys(file.Values)) {
				fmt.Fprintf(&text, ", %d %s", file.Values[bucket], bucket)
			}
			text.WriteString("\n")
			continue
		}
		text.WriteString("damaged\n")
		for _, problem := range file.Problems {
			fmt.Fprintf(&text, "  %s\n", explain.OneLine(problem))
		}
		fmt.Fprintf(&text, "  %s\n", file.Consequence)
	}
	for _, aside := range report.Kept {
		fmt.Fprintf(&text, "%s: set aside at an earlier start\n", aside)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
