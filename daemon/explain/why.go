package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Why says why, what the configuration or a pause changed, how often causes took turns
// before, and since when the cause was there where that is longer than the entry. Times are
// in a zone.
func Why(entry api.Recorded, zone *time.Location) string {
	if entry.Reload != nil {
		cause, changes := Reload(entry.Reload)
		return fmt.Sprintf("The configuration changed (%s): %s.", cause, changes)
	}
	said := []string{Sentence(in(zone, entry.Decision), entry.Evaluation())}
	for _, event := range entry.Events {
		if event.Reason == api.BoundsChanged || event.TellsOfPause() && !strings.Contains(said[0], event.Message) {
			said = append(said, sentence(event.Message))
		}
	}
	for _, notice := range entry.Decision.Notices {
		said = append(said, fmt.Sprintf("%s: %s.", notice.Condition, notice.Message))
	}
	// A single change went back to a cause that an earlier entry has.
	if untold := entry.Untold; untold != nil && untold.Changes > 1 {
		said = append(said, fmt.Sprintf("From %s until then causes recorded before took turns, %d times.",
			clockText(untold.From, entry.Time.In(zone)), untold.Changes))
	}
	if !entry.Since.IsZero() && entry.Since.Before(entry.Time) {
		said = append(said, "The cause began at "+entry.Since.In(zone).Format(time.DateTime)+".")
	}
	return strings.Join(said, " ")
}

// Reload returns the cause of a change of the configuration, and the changes.
func Reload(reload *settings.Reload) (cause, changes string) {
	cause = "reload by " + reload.Author
	if reload.Author == api.AuthorLabels {
		cause = reload.Author
	}
	var texts []string
	for _, c := range reload.Changes {
		texts = append(texts, strings.TrimPrefix(c.String(), "~ "))
	}
	if reload.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", reload.More))
	}
	return cause, OneLine(strings.Join(texts, "; "))
}

// in returns a decision with its time in a zone.
func in(zone *time.Location, d policy.Decision) policy.Decision {
	d.Time = d.Time.In(zone)
	return d
}

// sentence makes a text a sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
