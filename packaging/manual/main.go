// Command manual generates the manual page hpad.toml(5) from docs/config.md and
// docs/config-keys.md: manual VERSION SECONDS <PAGES >hpad.toml.5. SECONDS is the date of the
// page in seconds since 1970.
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
		return fmt.Errorf("want the arguments VERSION SECONDS, got %q", args)
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

// installed is the directory of the linked pages in packages.
const installed = "/usr/share/doc/hpad/docs/"

// link matches a Markdown link.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// anchor matches a link target.
var anchor = regexp.MustCompile(`(?m)^<a id=.*\n`)

// row matches a table row that starts with a key.
var row = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (.*) \\|$")

// head matches the header of a table.
var head = regexp.MustCompile(`(?m)^\|.*\|\n\|[-|]+\|\n`)

// followed returns the text of a link, with the installed file unless the link is within this
// page.
func followed(found string) string {
	parts := link.FindStringSubmatch(found)
	text, to := parts[1], parts[2]
	file, _, _ := strings.Cut(to, "#")
	switch {
	case strings.Contains(to, "://"):
		return text + " (" + to + ")"
	case file == "config-keys.md" && text == "Keys":
		return "See KEYS below"
	case text == "config-keys.md":
		return "KEYS"
	case text == "config.md":
		return "DESCRIPTION"
	case file == "" || file == "config.md" || file == "config-keys.md":
		return text
	case text == file:
		return installed + file
	}
	return text + " (" + installed + file + ")"
}

func page(reference, version string, day time.Time) []byte {
	_, body, _ := strings.Cut(reference, "\n") // without the title
	body = strings.Replace(body, "\n# All keys\n", "\n# KEYS\n", 1)
	body = anchor.ReplaceAllString(link.ReplaceAllStringFunc(body, followed), "")
	// A paragraph for each key, because tables are wider than a terminal.
	body = head.ReplaceAllString(body, "")
	body = row.ReplaceAllStringFunc(body, func(line string) string {
		cells := row.FindStringSubmatch(line)
		return cells[1] + "\n: " + strings.ReplaceAll(cells[2], " | ", ". ") + "\n"
	})
	title := fmt.Sprintf("%% \"HPAD.TOML\" \"5\" %q %q \"hpad\"\n", day.Format("Jan 2006"), "hpad "+version)
	return md2man.Render([]byte(title + "\n# NAME\n\nhpad.toml - configuration of hpad\n\n# DESCRIPTION\n" + body +
		"\n# SEE ALSO\n\nhpad(1), hpad-check(1), hpad-run(1)\n"))
}
