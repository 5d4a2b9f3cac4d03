package targets

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter reads the ways in which platforms ask to wait.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		name, value string
		low, high   time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second, 3 * time.Second},
		{"Retry-After", "", 0, 0},
		{"Retry-After", "0", 0, 0},
		{"Retry-After", "-7", 0, 0},
		{"Retry-After", "soon", 0, 0},
		{"x-ms-retry-after-ms", "250", 250 * time.Millisecond, 250 * time.Millisecond},
		{"Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		{"Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
	} {
		header := http.Header{}
		header.Set(test.name, test.value)
		if got := RetryAfter(header); got < test.low || got > test.high {
			t.Errorf("RetryAfter(%s: %s) = %v, want %v to %v", test.name, test.value, got, test.low, test.high)
		}
	}
}
