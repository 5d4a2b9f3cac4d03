package crash

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
)

// parallel is how many cases run at once at least: they wait most of the time,
// whatever the number of processors.
const parallel = 9

// patience is how long hpad, a cloud and Nomad may take to do what they do within
// seconds on an idle machine.
const patience = world.Patience

func TestMain(m *testing.M) {
	if dir := os.Getenv(drainVariable); dir != "" {
		os.Exit(drainCommand(dir))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	program.Clean()
	os.Exit(code)
}
