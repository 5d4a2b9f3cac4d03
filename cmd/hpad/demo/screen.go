package demo

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
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
	// colored is whether what is drawn has colours.
	colored bool
	// head is drawn above the panel where there is room for both; where there is
	// not, it is written once, and scrolls away.
	head     []string
	headGone bool
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
	return &screen{out: out, colored: os.Getenv("NO_COLOR") == "", size: func() (int, int, error) { return term.GetSize(int(file.Fd())) }}
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
		// Up to where the panel began, and away with all below, from the second column
		// on: some terminals keep what is cleared from the first one of the first row on.
		fmt.Fprintf(&frame, "\r\x1b[%dA\x1b[C\x1b[J\r\x1b[K", height)
	}
	below := panel(columns - 1)
	below = below[:min(len(below), rows-1)]
	for i, line := range below {
		below[i] = cut(strings.Map(show.Printable, line), columns-1)
	}
	fits := rowsOf(s.head, columns)+len(below) < rows
	if !s.headGone && (len(below) == 0 || !fits) {
		stay, s.headGone = slices.Concat(s.head, stay), true
	}
	for _, line := range stay {
		for _, part := range wrapLine(line, columns-1) {
			frame.WriteString(s.paint(part) + "\n")
		}
	}
	if !s.headGone {
		below = slices.Concat(s.head, below)
	}
	s.drawn = below
	for _, line := range s.drawn {
		frame.WriteString(s.paint(line) + "\n")
	}
	if _, err := io.WriteString(s.out, frame.String()); err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// height returns how many rows the drawn panel takes.
func (s *screen) height(columns int) int { return rowsOf(s.drawn, columns) }

// rowsOf returns how many rows lines take: those that are wider than the terminal,
// which may have become narrower, take several.
func rowsOf(lines []string, columns int) int {
	rows := 0
	for _, line := range lines {
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

// The colours of a terminal.
const (
	red, green, yellow, blue, cyan = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[36m"
	plain                          = "\x1b[0m"
)

// colors are what is coloured, and how; the first that matches a line is taken.
var colors = []struct {
	text  *regexp.Regexp
	color string
}{
	{regexp.MustCompile(`^! .*`), red},
	{regexp.MustCompile(`^  load     [▁-█·].*`), cyan},
	{regexp.MustCompile(`^  waiting  [▁-█·].*`), yellow},
	{regexp.MustCompile(`^  workers  [▁-█·].*`), green},
	{regexp.MustCompile(`^.*The count goes up .*`), green},
	{regexp.MustCompile(`^.*The count goes down .*`), blue},
	{regexp.MustCompile(`\(over\)`), red},
}

// paint colours a line, which has its width already: colours take none.
func (s *screen) paint(line string) string {
	if !s.colored {
		return line
	}
	for _, c := range colors {
		if c.text.MatchString(line) {
			return c.text.ReplaceAllString(line, c.color+"${0}"+plain)
		}
	}
	return line
}
