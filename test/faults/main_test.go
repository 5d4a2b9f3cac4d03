package faults

import (
	"os"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

// patience is the limit of waits for results that take seconds on an idle machine.
const patience = 90 * time.Second

// Tests that measure whether autoscalers are evaluated in time run in sequence, because the
// servers are in this process. The others run in parallel.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 64)
	program.Clean()
	os.Exit(code)
}
