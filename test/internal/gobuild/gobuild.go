// Package gobuild builds programs for tests.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds a program, a package by its path or directory, into a file, as
// packaging/build.sh builds hpad: what is compiled for one is not compiled again for the
// other. More are further arguments to "go build".
func Build(ctx context.Context, file, of string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", file}, more...)
	command := exec.CommandContext(ctx, "go", append(args, of)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", of, err, output)
	}
	return nil
}

// Hpad makes a file the hpad that tests run: a link to the one that "make test" built for all
// packages, or, without that, one that it builds.
func Hpad(ctx context.Context, file string) error {
	made := os.Getenv("HPAD_TEST_PROGRAM")
	if made == "" {
		return Build(ctx, file, "github.com/hpad/hpad/cmd/hpad")
	}
	if _, err := os.Stat(made); err != nil { // which has go test know when it changed
		return err
	}
	return os.Symlink(made, file)
}
