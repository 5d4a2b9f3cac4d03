package show

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Pieces is a table that is written in pieces: the first has the head, and no column gets
// narrower than it was. The zero value is one of which nothing was written.
type Pieces struct {
	// Headless leaves the head out.
	Headless bool
	// Coloured makes cells printable and gives some of them colours.
	Coloured bool
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
	return p.writeColoured(w, head, rows, func(int, int) colour { return "" })
}

// writeColoured is write with the colours of cells, by row and column.
func (p *Pieces) writeColoured(w io.Writer, head []string, rows [][]string, of func(row, column int) colour) error {
	first := 0
	if !p.begun {
		if !p.Headless {
			rows, first = append([][]string{head}, rows...), 1
		}
		p.begun, p.widths = true, make([]int, len(head))
	}
	for _, row := range rows {
		for i, cell := range row {
			p.widths[i] = max(p.widths[i], minWidth, utf8.RuneCountInString(cell)+padding)
		}
	}
	var text strings.Builder
	for at, row := range rows {
		for i, cell := range row {
			filler := ""
			if i < len(row)-1 {
				filler = strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell))
			}
			if p.Coloured {
				shade := heading
				if at >= first {
					shade = of(at-first, i)
				}
				cell = shade.paint(strings.Map(Printable, cell))
			}
			text.WriteString(cell + filler)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}
