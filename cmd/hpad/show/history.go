package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
)

// History writes entries as a table, with a column for their autoscalers
// where they are of several.
func History(w io.Writer, entries []api.Recorded, several bool, zone *time.Location) error {
	return new(Pieces).History(w, entries, several, zone)
}

// History writes entries as a piece.
func (p *Pieces) History(w io.Writer, entries []api.Recorded, several bool, zone *time.Location) error {
	row := func(when, name, replicas, why string) []string {
		if several {
			return []string{when, name, replicas, why}
		}
		return []string{when, replicas, why}
	}
	rows := make([][]string, len(entries))
	for i, entry := range entries {
		rows[i] = row(entry.Time.In(zone).Format(time.DateTime), entry.Autoscaler, explain.Count(entry.Decision, entry.Evaluation()), whyText(entry, zone))
	}
	return p.write(w, row("TIME", "NAME", "REPLICAS", "WHY"), rows)
}

// whyText says why, what the configuration or a pause changed, and since when the cause was
// there where that is longer than the entry.
func whyText(entry api.Recorded, zone *time.Location) string {
	said := []string{explain.Sentence(entry.Decision, entry.Evaluation())}
	for _, event := range entry.Events {
		if event.Reason == api.BoundsChanged || event.TellsOfPause() && !strings.Contains(said[0], event.Message) {
			said = append(said, sentence(event.Message))
		}
	}
	if untold := entry.Untold; untold != nil {
		said = append(said, fmt.Sprintf("Before that causes took turns, %d times from %s on.", untold.Changes, untold.From.In(zone).Format(time.TimeOnly)))
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
