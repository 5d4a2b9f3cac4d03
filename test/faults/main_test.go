package faults

import (
	"os"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

// patience is the maximum waiting time for results that take seconds on an idle host.
const patience = 3 * time.Minute

// The servers run in this process. TestLoad, TestClients and TestLarge, which keep a CPU busy, therefore
// run sequentially. The other tests run in parallel.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 64)
	program.Clean()
	os.Exit(code)
}
