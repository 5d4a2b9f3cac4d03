package faults

import (
	"os"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

// patience is how long what takes seconds on an idle machine may take.
const patience = 90 * time.Second

// Tests that watch whether autoscalers keep their period run one after the other: their
// honest servers are of this process, and are to answer in time. The others run
// side by side.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 64)
	program.Clean()
	os.Exit(code)
}
