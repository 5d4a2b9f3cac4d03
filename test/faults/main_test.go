package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

// patience is the maximum waiting time for results that take seconds on an idle host.
const patience = 90 * time.Second

// The servers run in this process. TestLoad, TestClients and TestLarge, which keep a CPU busy, therefore
// run sequentially. The other tests run in parallel.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == readArgument {
		if err := printDocument(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := parallel.Run(m, 64)
	program.Clean()
	os.Exit(code)
}
