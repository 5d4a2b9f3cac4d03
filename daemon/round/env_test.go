package round

import (
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
)

// TestDiskError checks that only consecutive failures of this host's disk count.
func TestDiskError(t *testing.T) {
	full := errors.New("disk full")
	history, copied, shared := &state.HistoryError{Err: full}, &state.CopyError{Err: full}, errors.New("etcd does not respond")
	for name, test := range map[string]struct {
		commits []error
		want    bool
	}{
		"no commits":              {nil, false},
		"two failures":            {[]error{copied, history}, false},
		"three failures":          {[]error{copied, history, copied}, true},
		"a success":               {[]error{copied, copied, nil, copied}, false},
		"the cluster store":       {[]error{shared, shared, shared}, false},
		"disk and cluster store":  {[]error{copied, shared, copied, shared, copied}, true},
		"a success after failure": {[]error{copied, copied, copied, nil}, false},
	} {
		e := &Env{Log: zap.NewNop(), Metrics: metrics.New(nil)}
		for _, err := range test.commits {
			e.ReportCommit(0, 1, err)
		}
		if got := e.DiskError(3); (got != nil) != test.want || got != nil && !errors.Is(got, full) {
			t.Errorf("%s: DiskError() = %v, want an error: %t", name, got, test.want)
		}
	}
}
