package main

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/hpad/hpad/cmd/hpad/show"
)

// coloured reports whether what is written there may have colours: it is a terminal that
// can show them, and NO_COLOR is empty.
func coloured(w io.Writer) bool {
	file, ok := w.(*os.File)
	kind := os.Getenv("TERM")
	return ok && os.Getenv("NO_COLOR") == "" && kind != "" && kind != "dumb" && term.IsTerminal(int(file.Fd()))
}

// forPeople reports whether a format is read by people.
func (f outputFormat) forPeople() bool { return f == outputTable || f == outputWide }

// writePage is write of a page that has colours on a terminal.
func writePage(w io.Writer, format outputFormat, value any, text func(io.Writer) error) error {
	if !format.forPeople() || !coloured(w) {
		return write(w, format, value, text)
	}
	page, err := render(format, value, text)
	if err != nil {
		return err
	}
	return say(w, string(show.Paint(page)))
}

// write writes a table, or what a program reads.
func (l *listing) write(w io.Writer, value any, text func(io.Writer) error) error {
	l.table.Coloured = l.format.forPeople() && coloured(w)
	if !l.table.Coloured {
		return write(w, *l.format, value, text)
	}
	var page bytes.Buffer // the table is printable already
	if err := text(&page); err != nil {
		return err
	}
	return say(w, page.String())
}
