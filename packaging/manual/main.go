// Command manual makes the manual page hpad.toml(5) of the configuration's
// reference: manual VERSION SECONDS <docs/config.md >hpad.toml.5, where SECONDS
// is the time that the page bears, since 1970.
package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("it wants VERSION SECONDS, and has %q", args)
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("read the time: %w", err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the reference: %w", err)
	}
	_, err = out.Write(page(string(text), args[0], time.Unix(seconds, 0).UTC()))
	return err
}

// link is one of Markdown, of which a page keeps the text.
var link = regexp.MustCompile(`\[([^\]\n]+)\]\([^)\s]+\)`)

// row is one of a table, whose first cell is a key.
var row = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (.*) \\|$")

// rest are what is left of a table whose rows are gone.
var rest = regexp.MustCompile(`(?m)^\|( key \|.*|[-|]*\|)$\n?`)

func page(reference, version string, day time.Time) []byte {
	_, body, _ := strings.Cut(reference, "\n") // its title
	body = link.ReplaceAllString(body, "$1")
	// Tables are wider than a terminal: a paragraph for each key instead.
	body = rest.ReplaceAllString(body, "")
	body = row.ReplaceAllStringFunc(body, func(line string) string {
		cells := row.FindStringSubmatch(line)
		return cells[1] + "\n: " + strings.ReplaceAll(cells[2], " | ", ". ") + "\n"
	})
	head := fmt.Sprintf("%% \"HPAD.TOML\" \"5\" %q %q \"hpad\"\n", day.Format("Jan 2006"), "hpad "+version)
	return md2man.Render([]byte(head + "\n# NAME\n\nhpad.toml - configuration of hpad\n\n# DESCRIPTION\n" + body +
		"\n# SEE ALSO\n\nhpad(1), hpad-check(1), hpad-run(1)\n"))
}
