// Package confd adds files to and removes files from the conf.d directory of a configuration.
// Readers see each file either completely or not at all, even after a crash.
package confd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

// Addition describes a new file with an autoscaler.
type Addition struct {
	// Main is the path of the configuration's main file.
	Main string
	// Name identifies the autoscaler.
	Name string
	Text []byte
	// Apart selects the file name NAME-autoscaler.toml. It is set if NAME.toml contains the
	// target's service.
	Apart bool
}

// Path returns the path of the file.
func (a *Addition) Path() string {
	name := a.Name
	if a.Apart {
		name += "-autoscaler"
	}
	return filepath.Join(config.ExtraDir(a.Main), name+".toml")
}

// CheckFree returns an error if the configuration already has an autoscaler with this name or
// target. Errors have hints.
func (a *Addition) CheckFree(c *config.Config, target targets.Ref) error {
	if owner := c.Owners().Of(target, nil); owner != "" {
		return hint.With(fmt.Errorf("%s already has the autoscaler %q", target, owner),
			fmt.Sprintf("change it in %s, or run \"hpad delete %s\" first", placeOf(a.Main, owner), owner))
	}
	if _, taken := c.Autoscalers[a.Name]; taken {
		return hint.With(fmt.Errorf("autoscaler %q already exists in %s", a.Name, placeOf(a.Main, a.Name)), "set another --name")
	}
	return nil
}

// Check returns an error if the file already exists or would make the configuration invalid. Errors
// have hints.
func (a *Addition) Check(ctx context.Context) error {
	if err := free(a.Path(), "set another --name, or edit that file"); err != nil {
		return err
	}
	_, err := config.LoadWith(ctx, a.Main, map[string][]byte{a.Path(): a.Text})
	if err != nil {
		return hint.With(err, "no file was written")
	}
	return nil
}

// Do creates the file. Errors have hints.
func (a *Addition) Do() error { return Create(a.Path(), a.Main, a.Text) }

// File describes a file to create.
type File struct{ Path, Text string }

// CreateFor creates a file with [Create]. If the file is in conf.d next to the main file, it gets
// the mode and owner of the main file. Elsewhere, it gets the owner of its directory. Errors have
// hints.
func CreateFor(main string, file File) error {
	like := filepath.Dir(file.Path)
	if _, err := os.Stat(main); err == nil && like == config.ExtraDir(main) {
		like = main
	}
	return Create(file.Path, like, []byte(file.Text))
}

// CreateAll creates either all files with [CreateFor], or none. Errors have hints.
func CreateAll(main string, files []File) error {
	for _, file := range files {
		if err := free(file.Path, "move it, or use another directory"); err != nil {
			return err
		}
	}
	for i, file := range files {
		if err := CreateFor(main, file); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(written.Path))
			}
			return err
		}
	}
	return nil
}

// free returns an error with a hint if the path exists.
func free(path, instead string) error {
	if _, err := os.Lstat(path); err == nil {
		return hint.With(fmt.Errorf("%q: %w", path, fs.ErrExist), "hpad does not overwrite files: "+instead)
	}
	return nil
}
