package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// TestWhyCountsTurns holds how an entry tells of causes that have none of their own.
func TestWhyCountsTurns(t *testing.T) {
	from := time.Date(2026, 11, 21, 11, 5, 0, 0, time.UTC)
	for changes, want := range map[int]string{
		1:  "Before that the cause was another one from 11:05:00 on.",
		57: "Before that causes took turns, 57 times from 11:05:00 on.",
	} {
		got := Why(api.Recorded{Untold: &api.Untold{Changes: changes, From: from}}, time.UTC)
		if !strings.HasSuffix(got, want) {
			t.Errorf("%d changes: %q, want it to end with %q", changes, got, want)
		}
	}
}
