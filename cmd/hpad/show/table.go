package show

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes the rows of a table in several calls. Only the first call writes the header, and
// columns never become narrower. The zero value is an empty table.
type Table struct {
	// Headless omits the header.
	Headless bool
	started  bool
	widths   []int
}

// The minimum width of a column, and the space between columns.
const (
	minWidth = 6
	padding  = 3
)

// write writes rows. The first call also writes the header.
func (t *Table) write(w io.Writer, header []string, rows [][]string) error {
	if !t.started {
		if !t.Headless {
			rows = append([][]string{header}, rows...)
		}
		t.started, t.widths = true, make([]int, len(header))
	}
	for _, row := range rows {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			text.WriteString(cell)
			if i < len(row)-1 {
				text.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)))
			}
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Rows writes a table with any columns.
func (t *Table) Rows(w io.Writer, header []string, rows [][]string) error {
	return t.write(w, header, rows)
}
