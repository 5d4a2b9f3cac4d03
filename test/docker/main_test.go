package docker

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

// parallel is how many cases run at once at least: they wait most of the time,
// whatever the number of processors.
const parallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	program.Clean()
	os.Exit(code)
}
