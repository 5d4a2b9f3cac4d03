package round

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWriteTimeout(t *testing.T) {
	for _, test := range []struct {
		period, want time.Duration
		says         string
	}{
		{time.Second, 5 * time.Second, "no response within 5s, the minimum timeout of a write (sync_period is 1s)"},
		{15 * time.Second, 15 * time.Second, "no response within 15s, the sync_period"},
		{time.Minute, 30 * time.Second, "no response within 30s, the maximum timeout of a write (sync_period is 1m0s)"},
	} {
		got, limit := writeTimeout(test.period)
		if got != test.want || limit.Error() != test.says || !errors.Is(limit, context.DeadlineExceeded) {
			t.Errorf("timeout for a period of %s = %s: %v", test.period, got, limit)
		}
	}
}
