package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
)

// Why says why, what the configuration or a pause changed, and since when the cause was
// there where that is longer than the entry.
func Why(entry api.Recorded, zone *time.Location) string {
	said := []string{Sentence(entry.Decision, entry.Evaluation())}
	for _, event := range entry.Events {
		if event.Reason == api.BoundsChanged || event.TellsOfPause() && !strings.Contains(said[0], event.Message) {
			said = append(said, sentence(event.Message))
		}
	}
	for _, notice := range entry.Decision.Notices {
		said = append(said, fmt.Sprintf("%s: %s.", notice.Condition, notice.Message))
	}
	if untold := entry.Untold; untold != nil {
		from := untold.From.In(zone).Format(time.TimeOnly)
		if untold.Changes == 1 {
			said = append(said, "Before that the cause was another one from "+from+" on.")
		} else {
			said = append(said, fmt.Sprintf("Before that causes took turns, %d times from %s on.", untold.Changes, from))
		}
	}
	if !entry.Since.IsZero() && entry.Since.Before(entry.Time) {
		said = append(said, "The cause began at "+entry.Since.In(zone).Format(time.DateTime)+".")
	}
	return strings.Join(said, " ")
}

// sentence makes a text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
