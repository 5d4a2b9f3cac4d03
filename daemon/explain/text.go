package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// Stamp writes an instant with what its zone is off UTC, so that nobody takes it for
// another one: names of zones mean several.
func Stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// Replicas writes a count with its noun.
func Replicas(count int32) string { return Plural(int(count), "replica") }

// Plural writes a number of things.
func Plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(what, "y"))
	case strings.HasSuffix(what, "s"):
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OneLine joins the lines and spaces of a text into one line.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// clause makes a text a part of a sentence.
func clause(text string) string { return strings.TrimSuffix(OneLine(text), ".") }

// LabelsText says why labels of an autoscaler's target are not in force; empty
// where they are, or where there are none.
func LabelsText(view *api.Discovered) string {
	switch {
	case view == nil:
		return ""
	case view.State == api.DiscoveredOverridden:
		return "ignored: this autoscaler of the configuration wins"
	case view.Problem != "":
		return "have a mistake: " + OneLine(view.Problem)
	}
	return ""
}
