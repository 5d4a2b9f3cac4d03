package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// Stamp writes an instant with its zone.
func Stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") }

// Replicas writes a count with its noun.
func Replicas(count int32) string {
	if count == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", count)
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
