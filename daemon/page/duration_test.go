package page

import (
	"testing"
	"time"
)

func TestShortDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "40s": 40 * time.Second, "5m": 5 * time.Minute, "3m40s": 220 * time.Second, "10m": 10 * time.Minute,
		"1h": time.Hour, "10h": 10 * time.Hour, "1h10m": 70 * time.Minute, "1h0m30s": time.Hour + 30*time.Second,
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%v) = %q, want %q", d, got, want)
		}
	}
}
