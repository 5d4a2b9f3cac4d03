// Package parallel runs tests in parallel if they mostly wait.
package parallel

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Run runs the tests, at least `least` of them in parallel regardless of the number of CPUs, and
// returns the exit code.
func Run(m *testing.M, least int) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(least, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
