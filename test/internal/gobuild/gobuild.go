// Package gobuild builds programs of this repository for tests.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds a package, given by its import path or directory. It uses the flags of
// packaging/build.sh, so that both share the build cache. more are further arguments of "go
// build".
func Build(ctx context.Context, file, of string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", file}, more...)
	command := exec.CommandContext(ctx, "go", append(args, of)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", of, err, output)
	}
	return nil
}

// Hpad creates a link to the binary that "make test" has built, or builds one if
// HPAD_TEST_PROGRAM is not set.
func Hpad(ctx context.Context, file string) error {
	made := os.Getenv("HPAD_TEST_PROGRAM")
	if made == "" {
		return Build(ctx, file, "github.com/hpad/hpad/cmd/hpad")
	}
	if _, err := os.Stat(made); err != nil { // makes the file part of go test's cache key
		return err
	}
	return os.Symlink(made, file)
}
