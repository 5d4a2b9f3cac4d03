package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/hpad/hpad/cmd/hpad/show"
)

// screen is a terminal with a panel at the bottom that is drawn again and again,
// and lines above it that stay.
type screen struct {
	out io.Writer
	// size returns columns and rows.
	size func() (columns, rows int, err error)
	// drawn is the panel as it was drawn last.
	drawn []string
}

// newScreen returns a screen on a terminal that can be steered, nil for all
// else.
func newScreen(out io.Writer) *screen {
	file, ok := out.(*os.File)
	if kind := os.Getenv("TERM"); !ok || !term.IsTerminal(int(file.Fd())) || kind == "" || kind == "dumb" {
		return nil
	}
	return &screen{out: out, size: func() (int, int, error) { return term.GetSize(int(file.Fd())) }}
}

// The size of a terminal that does not know its own, and the least that is drawn
// for.
const (
	usualColumns, usualRows = 80, 24
	leastColumns, leastRows = 40, 4
)

// draw writes lines that stay and, below them, the panel that lines makes for a
// width.
func (s *screen) draw(stay []string, panel func(width int) []string) error {
	columns, rows, err := s.size()
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = usualColumns, usualRows
	}
	columns, rows = max(columns, leastColumns), max(rows, leastRows)

	var frame strings.Builder
	if height := s.height(columns); height > 0 {
		// Up to where the panel began, and away with all below.
		fmt.Fprintf(&frame, "\r\x1b[%dA\x1b[J", height)
	}
	for _, line := range stay {
		for _, part := range wrapLine(line, columns-1) {
			frame.WriteString(part + "\n")
		}
	}
	s.drawn = panel(columns - 1)
	s.drawn = s.drawn[:min(len(s.drawn), rows-1)]
	for i, line := range s.drawn {
		s.drawn[i] = cut(strings.Map(show.Printable, line), columns-1)
		frame.WriteString(s.drawn[i] + "\n")
	}
	if _, err := io.WriteString(s.out, frame.String()); err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// height returns how many rows the drawn panel takes: where the terminal has
// become narrower, its lines take several.
func (s *screen) height(columns int) int {
	rows := 0
	for _, line := range s.drawn {
		rows += max(1, (utf8.RuneCountInString(line)+columns-1)/columns)
	}
	return rows
}

// hanging is the indentation of the lines that continue one.
const hanging = 9

// wrapLine breaks a line that is too long, unless it is indented: that is to be
// copied as it is.
func wrapLine(line string, width int) []string {
	if utf8.RuneCountInString(line) <= width || strings.HasPrefix(line, " ") {
		return []string{line}
	}
	return wrap(line, width, hanging)
}

func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
