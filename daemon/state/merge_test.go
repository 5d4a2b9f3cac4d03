package state

import (
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// TestMergeOfTwoFleets checks that merge keeps the later record of an autoscaler that was moved to
// a different fleet.
func TestMergeOfTwoFleets(t *testing.T) {
	of := func(fleet string, through time.Time) map[string][]byte {
		records := &memoryRecords{values: map[string][]byte{}}
		s := openShared(t, t.TempDir(), records)
		if err := s.Commit(t.Context(), Changes{
			Records: map[string]Record{"a": {
				Created: noon, Through: through, Target: targets.Ref{Fleet: fleet, Name: "x"},
				Replay: &Replay{Replicas: 4, Period: time.Minute},
			}},
			LastRound: noon.Add(time.Hour), Clock: clock.State{Time: noon.Add(time.Hour)},
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return records.values
	}
	alpha, prod := of("alpha", noon.Add(time.Minute)), of("prod", noon)
	for _, all := range [][]map[string][]byte{{alpha, prod}, {prod, alpha}} {
		whole, err := merge(all)
		if err != nil {
			t.Fatal(err)
		}
		if fleets, err := FleetsOf(whole); err != nil || fleets["a"] != "alpha" {
			t.Errorf("fleet of the record = %q, %v, want the fleet of the later record", fleets["a"], err)
		}
	}
}
