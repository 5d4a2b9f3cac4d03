package show

import (
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// none and unset are kubectl's words for what is not there.
const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) }

// orNone returns text, or the word for none.
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

// ago writes how long ago something happened that may not have happened yet.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// Clean returns a text from outside as part of one line that people read: without control
// characters, which could begin lines, or control a terminal.
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

// Printable keeps what may go to a terminal: words of platforms and sources are
// shown, and must not be able to steer it.
func Printable(letter rune) rune {
	if letter == '\n' || unicode.IsPrint(letter) {
		return letter
	}
	return unicode.ReplacementChar
}
