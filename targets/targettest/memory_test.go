package targettest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryContract(t *testing.T) {
	Run(t, Kind{Samples: true, Patience: 10 * time.Second, New: func(_ *testing.T, counts ...int32) *Platform {
		m := NewMemory("memory")
		p := m.Platform(counts...)
		p.Open = func(*testing.T) targets.Fleet { return m }
		return p
	}})
}
