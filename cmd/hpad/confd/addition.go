package confd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

// Addition is a file of its own for one more autoscaler of a configuration.
type Addition struct {
	// Main is the configuration's main file.
	Main string
	// Name is the autoscaler's.
	Name string
	Text []byte
	// Apart has the file named NAME-autoscaler.toml, because NAME.toml has the target's
	// service.
	Apart bool
}

// Path returns where the file is to be.
func (a *Addition) Path() string {
	name := a.Name
	if a.Apart {
		name += "-autoscaler"
	}
	return filepath.Join(config.ExtraDir(a.Main), name+".toml")
}

// CheckFree returns why the file is not to be there: because the configuration has an
// autoscaler of that name, or one of the target. Errors have hints.
func (a *Addition) CheckFree(c *config.Config, target targets.Ref) error {
	if owner := c.Owners().Of(target, nil); owner != "" {
		return hint.With(fmt.Errorf("%s is scaled already, by the autoscaler %q", target, owner),
			fmt.Sprintf("change that one in %s, or \"hpad delete %s\" first", Place(a.Main, owner), owner))
	}
	if _, taken := c.Autoscalers[a.Name]; taken {
		return hint.With(fmt.Errorf("there is an autoscaler %q already, in %s", a.Name, Place(a.Main, a.Name)), "give another name with --name")
	}
	return nil
}

// Check returns why the file cannot be there: because there is one, or because the
// configuration would have a mistake. Errors have hints.
func (a *Addition) Check() error {
	if err := free(a.Path(), "give another name with --name, or edit that file"); err != nil {
		return err
	}
	_, err := config.LoadWith(a.Main, map[string][]byte{a.Path(): a.Text})
	if err != nil {
		return hint.With(err, "nothing was written")
	}
	return nil
}

// Do makes the file. Errors have hints.
func (a *Addition) Do() error { return Create(a.Path(), a.Main, a.Text) }

// File is a file that there is not yet.
type File struct{ Path, Text string }

// CreateFor makes a file, with the mode and owner that [Create] gives it: in conf.d of
// the configuration whose main file is main those of the configuration, elsewhere those
// of the directory. Errors have hints.
func CreateFor(main string, file File) error {
	like := filepath.Dir(file.Path)
	if _, err := os.Stat(main); err == nil && like == config.ExtraDir(main) {
		like = main
	}
	return Create(file.Path, like, []byte(file.Text))
}

// CreateAll makes all files as [CreateFor] does, or none. Errors have hints.
func CreateAll(main string, files []File) error {
	for _, file := range files {
		if err := free(file.Path, "move it away, or write to another directory"); err != nil {
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

// free returns an error where there is something at a path, with what to do instead.
func free(path, instead string) error {
	if _, err := os.Lstat(path); err == nil {
		return hint.With(fmt.Errorf("%q: %w", path, fs.ErrExist), "no file is overwritten: "+instead)
	}
	return nil
}
