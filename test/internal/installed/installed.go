// Package installed finds programs that the scripts in test/install have installed.
package installed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Cache returns the installation directory: HPAD_TEST_CACHE, or ~/.cache/hpad-test.
func Cache() string {
	if cache := os.Getenv("HPAD_TEST_CACHE"); cache != "" {
		return cache
	}
	return filepath.Join(os.Getenv("HOME"), ".cache", "hpad-test")
}

// Path returns the file in Cache that matches a pattern, or the last one in alphabetical order if
// several files match. If no file matches, it skips the test, or fails it if CI=true. script is
// the script that installs the file.
func Path(t testing.TB, pattern, script string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Cache(), pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		Absent(t, fmt.Sprintf("there is no %s in %s: run %s", pattern, Cache(), script))
	}
	return paths[len(paths)-1]
}

// Program returns the path of a program, which is in PATH or in the bin directory of Cache.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join(Cache(), "bin", name))
	}
	return path, err
}

// Absent skips the test, or fails it if CI=true. The reason names the missing program and the
// command that installs it.
func Absent(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
