package confd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/config"
)

// ErrNotConfigured means that no file defines the autoscaler.
var ErrNotConfigured = errors.New("no file defines it")

// place locates the definition of an autoscaler in a file.
type place struct {
	file string
	// line is the first line of the autoscaler's tables, counted from 1. It is 0 if it is unknown.
	line int
	// alone is set if the file has no other content.
	alone bool
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// PlanDeletion returns the path of the file that defines only this autoscaler, given the main file
// of the configuration. It ensures that the configuration is valid without the file. The error may
// be ErrNotConfigured; other errors have hints.
func PlanDeletion(ctx context.Context, main, name string) (string, error) {
	places, unread := find(main, name)
	switch {
	case len(places) == 0 && unread != nil:
		return "", unread
	case len(places) == 0:
		return "", ErrNotConfigured
	case len(places) > 1:
		return "", hint.With(fmt.Errorf("autoscaler %q is defined in %s and in %s", name, places[0], places[1]), "remove one of them with an editor")
	case places[0].file == main || !places[0].alone:
		return "", hint.With(fmt.Errorf("autoscaler %q is defined in %s, a file with other content", name, places[0]),
			"remove its tables with an editor, then run \"hpad reload\"")
	}
	file := places[0].file
	if _, err := config.LoadWith(ctx, main, map[string][]byte{file: nil}); err != nil {
		return "", hint.With(err, fmt.Sprintf("no file was changed: the configuration without %q has these errors", name))
	}
	return file, nil
}

// placeOf returns the file and line that define an autoscaler, or "the configuration" if they are
// unknown.
func placeOf(main, name string) string {
	places, _ := find(main, name)
	if len(places) == 0 {
		return "the configuration"
	}
	return places[0].String()
}

// find returns all definitions of an autoscaler, and errors for files that are not valid TOML.
func find(main, name string) (places []place, err error) {
	files, err := config.Files(main)
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			unread = append(unread, fmt.Errorf("read the configuration: %w", err))
			continue
		}
		var tree map[string]any
		if _, err := toml.Decode(string(text), &tree); err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", file, err))
			continue
		}
		autoscalers, _ := tree["autoscalers"].(map[string]any)
		if _, ok := autoscalers[name]; ok {
			places = append(places, place{
				file: file, line: config.AutoscalerLine(text, name), alone: len(tree) == 1 && len(autoscalers) == 1,
			})
		}
	}
	return places, errors.Join(unread...)
}

// HoldsService reports whether the file at path defines a service of a fleet. It returns false if
// the file cannot be read.
func HoldsService(path, fleet string) bool {
	var file struct {
		Fleets map[string]struct {
			Services map[string]any `toml:"services"`
		} `toml:"fleets"`
	}
	_, err := toml.DecodeFile(path, &file)
	return err == nil && len(file.Fleets[fleet].Services) > 0
}
