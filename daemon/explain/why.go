package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Why explains a history entry: its decision, the changes to the configuration and to pauses, and
// the causes that alternated since the previous entry. Times are in zone.
func Why(entry api.Recorded, zone *time.Location) string {
	if reload := entry.Reload; reload != nil {
		var texts []string
		if reload.Takeover != nil {
			texts = append(texts, sentence(TakeoverText(reload.Takeover)))
		}
		if reload.Takeover == nil || reload.Adopted || len(reload.Changes) > 0 {
			cause, changes := Reload(reload)
			texts = append(texts, fmt.Sprintf("The configuration changed (%s): %s.", cause, changes))
		}
		return strings.Join(texts, " ")
	}
	texts := []string{Sentence(in(zone, entry.Decision), entry.Evaluation())}
	for _, event := range entry.Events {
		if api.IsChange(event) || event.IsPause() && !strings.Contains(texts[0], event.Message) {
			texts = append(texts, sentence(event.Message))
		}
	}
	for _, notice := range entry.Decision.Notices {
		texts = append(texts, fmt.Sprintf("%s: %s.", notice.Condition, notice.Message))
	}
	// After a single unreported change, the cause is the same as in the previous entry.
	if unreported := entry.Unreported; unreported != nil && unreported.Changes > 1 {
		texts = append(texts, fmt.Sprintf("Between %s and this time, the cause changed %d times.",
			clockText(unreported.From, entry.Time.In(zone)), unreported.Changes))
	}
	if !entry.Since.IsZero() && entry.Since.Before(entry.Time) {
		texts = append(texts, "The cause began at "+entry.Since.In(zone).Format(time.DateTime)+".")
	}
	return strings.Join(texts, " ")
}

// TakeoverText describes a takeover of a fleet.
func TakeoverText(takeover *settings.Takeover) string {
	return OneLine(fmt.Sprintf("member %s took over the fleet from %s", takeover.Member, takeover.From))
}

// Reload describes a configuration change: its cause, and the list of changes.
func Reload(reload *settings.Reload) (cause, changes string) {
	cause = "reload by " + reload.Author
	switch {
	case reload.Adopted:
		cause = "adopt by " + reload.Author
	case reload.Author == api.AuthorLabels || reload.Author == api.AuthorRestart:
		cause = reload.Author
	}
	var texts []string
	for _, c := range reload.Changes {
		texts = append(texts, strings.TrimPrefix(c.String(), "~ "))
	}
	if reload.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", reload.More))
	}
	return cause, OneLine(cmp.Or(strings.Join(texts, "; "), "no key of this autoscaler"))
}

func in(zone *time.Location, d policy.Decision) policy.Decision {
	d.Time = d.Time.In(zone)
	return d
}

// sentence turns a message into a complete sentence.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
