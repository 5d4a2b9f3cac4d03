package targettest

import (
	"io"
	"sync"
	"testing"

	"github.com/hpad/hpad/targets"
)

// Generations is how often ReadTogether opens each fleet.
const Generations = 3

// ReadTogether has fleets of one account read a target all at once, each so many times
// and one time after the other. Then it opens them anew beside the old ones, which it
// closes, as a reload does, and has those read. So many fleets never make more calls at
// once than there are fleets, but for those that a reading makes at once.
func ReadTogether(t *testing.T, times int, ref targets.Ref, open ...func() targets.Fleet) {
	t.Helper()
	older := make([]targets.Fleet, len(open))
	for range Generations {
		var group sync.WaitGroup
		for n := range open {
			fleet := open[n]()
			if old, ok := older[n].(io.Closer); ok {
				if err := old.Close(); err != nil {
					t.Error(err)
				}
			}
			older[n] = fleet
			group.Go(func() {
				for range times {
					readings, err := fleet.Snapshot(t.Context(), []targets.Ref{ref})
					if err != nil || readings[ref].Err != nil {
						t.Errorf("reading of fleet %d: %v, %v", n, err, readings[ref].Err)
						return
					}
				}
			})
		}
		group.Wait()
	}
}
