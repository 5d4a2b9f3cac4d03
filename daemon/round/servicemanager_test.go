package round

import (
	"strings"
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

// TestStatusLineIsRedacted checks that the status line contains no secret.
func TestStatusLineIsRedacted(t *testing.T) {
	var sent []string
	n := NewServiceManager(func(state string) { sent = append(sent, state) }, 0, func() string { return "fails: password=hunter2" })
	n.Ready()
	n.status(time.Now(), 0)
	if got := strings.Join(sent, "\n"); strings.Contains(got, "hunter2") || strings.Count(got, "<redacted>") != 2 {
		t.Errorf("sent state = %q", got)
	}
}
