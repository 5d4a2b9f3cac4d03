package show

import (
	"bytes"
	"regexp"
	"strings"
)

// colour is what a terminal is told before a text.
type colour string

// The colours of what is read first.
const (
	heading colour = "\x1b[1m"
	change  colour = "\x1b[1;33m"
	trouble colour = "\x1b[31m"
)

// plain ends a colour.
const plain = "\x1b[0m"

func (c colour) paint(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + plain
}

// Problem returns a text in the colour of problems.
func Problem(text string) string { return trouble.paint(text) }

// The lines and words of a page that have a colour.
var (
	headLine    = regexp.MustCompile(`^((TIME|NAME) .*|[0-9]+\. .*)$`)
	fieldName   = regexp.MustCompile(`^[A-Za-z]\w*( \w+){0,2}:`)
	problemLine = regexp.MustCompile(`^ *((Error|Warning|Cause since):|Warning  ) *(.*)$`)
	counts      = regexp.MustCompile(`\b([0-9]+)( → | current / )([0-9]+)\b`)
)

// Paint returns a page of a description, an explanation or a history in colours: headings,
// problems, and counts that change. The page is printable, as of [Printable].
func Paint(page []byte) []byte {
	var painted bytes.Buffer
	for line := range strings.Lines(string(page)) {
		text, end := strings.CutSuffix(line, "\n")
		painted.WriteString(paintLine(text))
		if end {
			painted.WriteByte('\n')
		}
	}
	return painted.Bytes()
}

func paintLine(line string) string {
	if headLine.MatchString(line) {
		return heading.paint(line)
	}
	if found := problemLine.FindStringSubmatch(line); found != nil && found[3] != none {
		return trouble.paint(line)
	}
	name := fieldName.FindString(line)
	return heading.paint(name) + counts.ReplaceAllStringFunc(line[len(name):], func(text string) string {
		if found := counts.FindStringSubmatch(text); found[1] == found[3] {
			return text
		}
		return change.paint(text)
	})
}
