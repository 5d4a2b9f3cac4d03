package round

import (
	"slices"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// TestWatchdogIsFed checks that the watchdog is fed in time, even if the scheduler sleeps for its
// maximum time and wakes slightly late.
func TestWatchdogIsFed(t *testing.T) {
	for _, interval := range []time.Duration{2 * time.Second, 3 * time.Second, 30 * time.Second} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var fed []time.Time
		n := NewServiceManager(func(state string) {
			if state != daemon.SdNotifyWatchdog {
				t.Errorf("state = %q", state)
			}
			fed = append(fed, now)
		}, interval, nil)
		for begun := now; now.Sub(begun) < 5*time.Minute; now = now.Add(maxIdle + 5*time.Millisecond) {
			n.alive(now)
		}
		for i := 1; i < len(fed); i++ {
			if gap := fed[i].Sub(fed[i-1]); gap > interval/2+10*time.Millisecond {
				t.Fatalf("a watchdog of %s was not fed for %s", interval, gap)
			}
		}
		if least := int(5 * time.Minute / interval); len(fed) < least || len(fed) > 4*least {
			t.Errorf("a watchdog of %s was fed %d times in 5 minutes", interval, len(fed))
		}
	}
}

// TestStatusLine checks that the line is sent after each change, also if Ready has sent another line
// before, and that it contains no secret.
func TestStatusLine(t *testing.T) {
	var sent []string
	line := "1 failing: password=hunter2"
	n := NewServiceManager(func(state string) { sent = append(sent, state) }, 0, func() string { return line })
	now := time.Now()
	n.status(now, 0)
	line = "0 failing"
	n.Ready()
	n.status(now, 0)
	line = "1 failing: password=hunter2"
	n.status(now, 0)
	want := []string{"STATUS=1 failing: password=<redacted>", daemon.SdNotifyReady + "\nSTATUS=0 failing", "STATUS=1 failing: password=<redacted>"}
	if !slices.Equal(sent, want) {
		t.Errorf("sent states = %q, want %q", sent, want)
	}
}
