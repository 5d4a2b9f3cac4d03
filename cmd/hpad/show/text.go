package show

import (
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// none, unset and unknown are the placeholders that kubectl uses.
const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) }

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func age(since, now time.Time) string {
	if since.IsZero() {
		return unknown
	}
	return duration.HumanDuration(now.Sub(since))
}

// ago formats an age. It returns "never" for the zero time.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// Clean returns an untrusted string on one line. It removes control characters, which could start
// lines or control the terminal.
func Clean(text string) string {
	last := rune(0)
	return strings.Map(func(letter rune) rune {
		if strings.ContainsRune("\t\n\v\f\r", letter) {
			if last == ' ' {
				return -1
			}
			letter = ' '
		}
		last = Printable(letter)
		return last
	}, text)
}

// Printable replaces characters that could control the terminal.
func Printable(letter rune) rune {
	if letter == '\n' || unicode.IsPrint(letter) {
		return letter
	}
	return unicode.ReplacementChar
}
