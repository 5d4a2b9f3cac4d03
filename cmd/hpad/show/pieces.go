package show

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Pieces is a table that is written in pieces: the first has the head, and no column gets
// narrower than it was. The zero value is one of which nothing was written.
type Pieces struct {
	// Headless leaves the head out.
	Headless bool
	begun    bool
	widths   []int
}

// The width of a column and what parts it from the next.
const (
	minWidth = 6
	padding  = 3
)

// write writes rows, under their head in the first piece.
func (p *Pieces) write(w io.Writer, head []string, rows [][]string) error {
	if !p.begun {
		if !p.Headless {
			rows = append([][]string{head}, rows...)
		}
		p.begun, p.widths = true, make([]int, len(head))
	}
	for _, row := range rows {
		for i, cell := range row {
			p.widths[i] = max(p.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i == len(row)-1 {
				text.WriteString(cell)
				break
			}
			_, _ = fmt.Fprintf(&text, "%-*s", p.widths[i], cell)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}
