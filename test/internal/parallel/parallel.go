// Package parallel runs tests that mostly wait in parallel.
package parallel

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Run runs at least `least` tests at once, independent of the number of CPUs, and returns the
// exit code.
func Run(m *testing.M, least int) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(least, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
