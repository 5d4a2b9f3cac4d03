package draft

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hpad/hpad/settings"
)

type page struct{ strings.Builder }

type line struct{ name, value string }

func (p *page) blank() { p.WriteByte('\n') }

func (p *page) header(header string) { p.WriteString(header + "\n") }

// notes writes notes as comments. A control character in a note cannot end the comment.
func (p *page) notes(notes []string) {
	for _, note := range notes {
		clean := strings.TrimRight(strings.Map(commentable, strings.ToValidUTF8(note, "�")), " ")
		p.WriteString(strings.TrimRight("# "+clean, " ") + "\n")
	}
}

// commentable replaces characters that TOML does not allow in comments.
func commentable(r rune) rune {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

// lines writes keys and values in aligned columns.
func (p *page) lines(lines []line) {
	width := 0
	for _, l := range lines {
		width = max(width, len(l.name))
	}
	for _, l := range lines {
		fmt.Fprintf(p, "%-*s = %s\n", width, l.name, l.value)
	}
}

func inline(lines []line) string {
	inner := make([]string, len(lines))
	for i, l := range lines {
		inner[i] = l.name + " = " + l.value
	}
	return "{ " + strings.Join(inner, ", ") + " }"
}

// array returns an array. If it has several elements, each is on its own line.
func array(elements []string) string {
	if len(elements) < 2 {
		return "[" + strings.Join(elements, "") + "]"
	}
	return "[\n  " + strings.Join(elements, ",\n  ") + ",\n]"
}

// key returns a key in TOML, with quotes if necessary.
func key(name string) string {
	bare := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if bare {
		return name
	}
	return basic(name)
}

// text returns a TOML string, in single quotes if that avoids backslashes.
func text(value string) string {
	if strings.ContainsAny(value, `"\`) && !strings.Contains(value, "'") && !strings.ContainsFunc(value, unicode.IsControl) {
		return "'" + strings.ToValidUTF8(value, "�") + "'"
	}
	return basic(value)
}

func basic(value string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for _, r := range strings.ToValidUTF8(value, "�") {
		switch {
		case r == '"' || r == '\\':
			quoted.WriteByte('\\')
			quoted.WriteRune(r)
		case r == '\n':
			quoted.WriteString(`\n`)
		case r == '\t':
			quoted.WriteString(`\t`)
		case unicode.IsControl(r):
			fmt.Fprintf(&quoted, `\u%04X`, r)
		default:
			quoted.WriteRune(r)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}

func duration(d time.Duration) string { return strconv.Quote(settings.Span(d)) }
