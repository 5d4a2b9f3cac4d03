package compose

import (
	"testing"
	"time"

	"github.com/docker/go-units"
	"pgregory.net/rapid"
)

func TestParseUptime(t *testing.T) {
	for _, test := range []struct {
		status      string
		least, most time.Duration
		ok          bool
	}{
		{"Up Less than a second", 0, time.Second, true},
		{"Up 1 second (health: starting)", time.Second, 2 * time.Second, true},
		{"Up About a minute (healthy)", time.Minute, 2 * time.Minute, true},
		{"Up 5 minutes (Paused)", 5 * time.Minute, 6 * time.Minute, true},
		{"Up About an hour", 30 * time.Minute, 2 * time.Hour, true},
		{"Up 3 weeks", 3*7*24*time.Hour - 30*time.Minute, 4 * 7 * 24 * time.Hour, true},
		{"Exited (0) 3 minutes ago", 0, 0, false},
		{"Up", 0, 0, false},
		{"Up -3 minutes", 0, 0, false},
		{"Up 3 fortnights", 0, 0, false},
	} {
		got, ok := parseUptime(test.status)
		if ok != test.ok || got != (uptime{least: test.least, most: test.most}) {
			t.Errorf("parseUptime(%q) = %v, %v, want %v to %v, %v", test.status, got, ok, test.least, test.most, test.ok)
		}
	}
}

// TestUptimeBounds holds that what the engine says of a container's uptime bounds
// it, that one which goes on is never taken for restarted, and that one is which
// was up for long enough to be counted and started again.
func TestUptimeBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up := time.Duration(rapid.Int64Range(0, int64(3*365*24*time.Hour)).Draw(t, "up"))
		ago := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ago"))
		before, ok := parseUptime("Up " + units.HumanDuration(up))
		if !ok || up < before.least || up > before.most {
			t.Fatalf("parseUptime(%q) = %v, %v, which does not hold %v", units.HumanDuration(up), before, ok, up)
		}
		if now := "Up " + units.HumanDuration(up+ago) + " (healthy)"; before.restartedSince(ago, now) {
			t.Errorf("a container up for %v and then for %q seems restarted", up, now)
		}
		again := time.Duration(rapid.Int64Range(0, int64(ago)).Draw(t, "again"))
		now, _ := parseUptime("Up " + units.HumanDuration(again))
		// What is left of the first uptime has to be more than the words leave open.
		tells := before.least+ago > now.most+clockSlack
		if got := before.restartedSince(ago, "Up "+units.HumanDuration(again)); got != tells {
			t.Errorf("up for %v, and %v later for %v: restarted = %v, want %v", up, ago, again, got, tells)
		}
	})
}
