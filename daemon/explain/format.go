package explain

import (
	"fmt"
	"strings"
	"time"
)

// stamp writes an instant with its zone.
func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") }

// seconds writes a number of seconds as a duration.
func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// replicas writes a count with its noun.
func replicas(count int32) string {
	if count == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", count)
}

// oneLine joins the lines and spaces of a text into one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// clause makes a text a part of a sentence.
func clause(text string) string { return strings.TrimSuffix(oneLine(text), ".") }
