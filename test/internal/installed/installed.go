// Package installed finds programs that the scripts in test/install have installed, and mounts file
// systems for tests.
package installed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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

// Mount creates the directory path if it does not exist, and mounts a tmpfs there. options are the
// tmpfs mount options, for example "size=2m". Without permission to mount, it skips the test, or
// fails it if CI=true. The caller unmounts the file system.
func Mount(t testing.TB, path, options string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("hpad-test", path, "tmpfs", 0, options)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		Absent(t, "mounting a file system requires privileges: "+err.Error())
	}
	if err != nil {
		t.Fatalf("mount a tmpfs at %s: %v", path, err)
	}
}
