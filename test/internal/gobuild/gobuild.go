// Package gobuild builds programs of this repository for tests.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds a package and writes the binary to file. The argument of is the package's import
// path or directory. Build uses the same flags as packaging/build.sh, so that both share the build
// cache. more contains additional arguments of "go build".
func Build(ctx context.Context, file, of string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", file}, more...)
	command := exec.CommandContext(ctx, "go", append(args, of)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", of, err, output)
	}
	return nil
}

// Hpad creates a link to the binary that "make test" has built. If HPAD_TEST_PROGRAM is not set,
// it builds the binary.
func Hpad(ctx context.Context, file string) error {
	made := os.Getenv("HPAD_TEST_PROGRAM")
	if made == "" {
		return Build(ctx, file, "github.com/hpad/hpad/cmd/hpad")
	}
	if _, err := os.Stat(made); err != nil { // makes the file part of the key in go test's cache
		return err
	}
	return os.Symlink(made, file)
}
