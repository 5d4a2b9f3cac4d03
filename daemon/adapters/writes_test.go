package adapters

import (
	"testing"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

type writingTable struct {
	targets.Config
	writes int
}

func (t writingTable) ConcurrentWrites() int { return t.writes }

// TestConcurrentWrites checks that a fleet allows the concurrent writes of its platform, and at least
// concurrent_syncs.
func TestConcurrentWrites(t *testing.T) {
	for writes, want := range map[int]int{1: 5, 16: 16} {
		f := newFleet(config.Fleet{Name: "prod", Config: writingTable{writes: writes}}, nil, nil, 5)
		if got := cap(f.Writes); got != want {
			t.Errorf("concurrent writes with a platform that accepts %d = %d, want %d", writes, got, want)
		}
	}
}
