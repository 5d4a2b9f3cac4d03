package confd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon/config"
)

// ErrNotConfigured is that no file has an autoscaler.
var ErrNotConfigured = errors.New("no file has it")

// Deletion is what deletes an autoscaler from a configuration.
type Deletion struct {
	file string
	// whole reports whether the file goes, or else cutting is what is left of it.
	whole   bool
	cutting *Cutting
}

// PlanDeletion returns what deletes the autoscaler of a name from the configuration
// whose main file is main, once that is known to be safe. Notes are as for [Cut]. The
// error may be ErrNotConfigured; others have hints.
func PlanDeletion(main, name string, notes ...string) (*Deletion, error) {
	files, texts, unread := holders(main, name)
	switch {
	case len(files) == 0 && unread != nil:
		return nil, unread
	case len(files) == 0:
		return nil, ErrNotConfigured
	case len(files) > 1:
		return nil, hint.With(fmt.Errorf("autoscaler %q is defined in %s", name, strings.Join(files, " and in ")), "remove one of them with an editor")
	}
	plan := &Deletion{file: files[0]}
	cutting, err := Cut(texts[plan.file], name, notes...)
	if err != nil {
		return nil, hint.With(fmt.Errorf("autoscaler %q cannot be cut out of %s: %w", name, placeOf(plan.file, Find(texts[plan.file], name)), err),
			"remove it with an editor, then \"hpad reload\"")
	}
	plan.cutting = cutting
	plan.whole = cutting.Empty && plan.file != main
	change := map[string][]byte{plan.file: cutting.Rest}
	if plan.whole {
		change[plan.file] = nil
	}
	if _, err := config.LoadWith(main, change); err != nil {
		return nil, hint.With(err, fmt.Sprintf("nothing was changed: the configuration would have these mistakes without %q", name))
	}
	return plan, nil
}

// Do deletes the autoscaler.
func (d *Deletion) Do() error {
	if d.whole {
		return Remove(d.file)
	}
	return Replace(d.file, d.cutting.Rest)
}

// String returns what Do does, in a few words.
func (d *Deletion) String() string {
	if d.whole {
		return d.file + " is removed"
	}
	text := placeOf(d.file, d.cutting.Gone) + " is cut out"
	if len(d.cutting.Kept) > 0 {
		text += "; the comment above it stays, see " + placeOf(filepath.Base(d.file), d.cutting.Kept[:1])
	}
	if d.cutting.Bare && !d.cutting.Empty {
		text += "; nothing but comments is left in the file"
	}
	return text
}

// Place returns in which file of a configuration an autoscaler is, and on which lines,
// as far as that is known.
func Place(main, name string) string {
	files, texts, _ := holders(main, name)
	if len(files) == 0 {
		return "the configuration"
	}
	return placeOf(files[0], Find(texts[files[0]], name))
}

// holders returns the files that have the tables of an autoscaler, with their texts;
// files that are no TOML are in the error.
func holders(main, name string) (files []string, texts map[string][]byte, err error) {
	all, err := config.Files(main)
	if err != nil {
		return nil, nil, err
	}
	texts = map[string][]byte{}
	var unread []error
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			unread = append(unread, fmt.Errorf("read the configuration: %w", err))
			continue
		}
		holds, err := Holds(text, name)
		if err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", file, err))
		}
		if holds {
			files, texts[file] = append(files, file), text
		}
	}
	return files, texts, errors.Join(unread...)
}

// placeOf returns a file and lines of it, as "web.toml:3-7,12".
func placeOf(file string, lines []Lines) string {
	if len(lines) == 0 {
		return file
	}
	spans := make([]string, len(lines))
	for i, span := range lines {
		spans[i] = fmt.Sprintf("%d-%d", span.First, span.Last)
		if span.First == span.Last {
			spans[i] = fmt.Sprint(span.First)
		}
	}
	return file + ":" + strings.Join(spans, ",")
}
