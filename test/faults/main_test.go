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

func TestMain(m *testing.M) {
	code := parallel.Run(m, 64)
	program.Clean()
	os.Exit(code)
}
