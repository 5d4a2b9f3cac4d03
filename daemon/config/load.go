package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hpad/hpad/guard"
)

// Load reads the file at path and then every *.toml file in the conf.d directory next to it, sorted
// by name. The directory may be missing. Fleets, sources and autoscalers of all files are merged.
// Each name, and the [daemon] table, may occur only once. The error is an [Errors], or the cause of the
// end of ctx.
func Load(ctx context.Context, path string) (*Config, error) { return LoadWith(ctx, path, nil) }

// LoadWith loads the configuration with changed files, without writing them. The keys of changes
// are the paths that [Load] uses. A nil value removes the file. The errors are those of [Load].
func LoadWith(ctx context.Context, path string, changes map[string][]byte) (*Config, error) {
	return guard.Abandon(ctx, func() (*Config, error) {
		l, err := readAll(ctx, path, changes)
		if err != nil {
			return nil, err
		}
		return l.finish()
	})
}

// LoadFleets reads only the fleets and ignores errors in other tables, such as unfinished
// autoscalers. The errors are those of [Load].
func LoadFleets(ctx context.Context, path string) (map[string]Fleet, error) {
	return guard.Abandon(ctx, func() (map[string]Fleet, error) {
		l, err := readAll(ctx, path, nil)
		if err != nil {
			return nil, err
		}
		fleets := l.readFleets()
		if len(l.errs) > 0 {
			return nil, l.invalid()
		}
		return fleets, nil
	})
}

// Check reads one file like [Load], or only the given files in the given order. It also returns the
// warnings of a configuration with errors, which are incomplete if a file cannot be parsed.
func Check(ctx context.Context, paths ...string) (c *Config, warnings []Error, err error) {
	type findings struct {
		config   *Config
		warnings []Error
		invalid  error
	}
	found, err := guard.Abandon(ctx, func() (f findings, err error) {
		l := newLoader(ctx)
		if len(paths) == 1 {
			if l, err = readAll(ctx, paths[0], nil); err != nil {
				return f, err
			}
		} else {
			for _, path := range paths {
				l.read(path)
			}
		}
		f.config, f.invalid = l.finish()
		f.warnings = l.warnings.sorted(l.files)
		return f, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return found.config, found.warnings, found.invalid
}

func readAll(ctx context.Context, path string, changes map[string][]byte) (*loader, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	for changed := range changes {
		if !slices.Contains(files, changed) {
			files = append(files, changed)
		}
	}
	slices.Sort(files[1:])
	l := newLoader(ctx)
	for _, file := range files {
		text, changed := changes[file]
		switch {
		case !changed:
			l.read(file)
		case text != nil:
			l.parse(file, text)
		}
	}
	return l, nil
}

// Parse parses one configuration text. The argument name is the file name in messages. The error is
// an [Errors].
func Parse(name string, text []byte) (*Config, error) {
	l := newLoader(context.Background())
	l.parse(name, text)
	return l.finish()
}

// Files returns the files that [Load] reads for the main file at path, in order. The error is an
// [Errors].
func Files(path string) ([]string, error) {
	files, dir := []string{path}, ExtraDir(path)
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Errors{{File: dir, Detail: unreadable("list the directory", err)}}
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".toml") && !entry.IsDir() {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}

// ExtraDir returns the directory with further *.toml files for the main file at path.
func ExtraDir(path string) string { return filepath.Join(filepath.Dir(path), "conf.d") }

// unreadable describes a failed read with a remedy.
func unreadable(attempt string, err error) string {
	cause := err
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		cause = failed.Err
	}
	detail := attempt + ": " + cause.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		detail += "; create it, or use another file"
	case errors.Is(err, fs.ErrPermission):
		detail += "; make it readable by the user that hpad runs as"
	}
	return detail
}

func (l *loader) read(path string) {
	if l.stopped() {
		return
	}
	text, err := readFile(path)
	if err != nil {
		l.files = append(l.files, path)
		l.reject(path, 0, unreadable("read the configuration", err))
		return
	}
	l.parse(path, text)
}

// readFile reads a file up to one byte more than maxSize.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxSize+1))
}

// reject records an error about a file that is not parsed.
func (l *loader) reject(name string, line int, detail string) {
	l.incomplete = true
	l.errs = append(l.errs, Error{File: name, Line: line, Detail: detail})
}

// full reports whether no further errors are recorded.
func (l *loader) full() bool { return len(l.errs) >= maxErrors }

// stopped reports whether the rest of the configuration does not matter.
func (l *loader) stopped() bool { return l.ctx.Err() != nil || l.full() }

// invalid returns the errors in the order of the files.
func (l *loader) invalid() Errors {
	all := l.errs.sorted(l.files)
	if l.full() {
		all = append(all, Error{Detail: fmt.Sprintf("the configuration has %d errors or more: correct these, and check it again", maxErrors)})
	}
	return all
}

// loader builds a configuration from files.
type loader struct {
	// ctx cancels the loading.
	ctx context.Context
	// scheduleSteps is the remaining number of steps of the checks of schedules.
	scheduleSteps int
	// size is the total size of the files in bytes, and lines the total of [measure].
	size, lines int

	errs     Errors
	warnings Errors
	files    []string
	// incomplete is set if a file could not be read or parsed. In that case, no name is reported as
	// missing.
	incomplete bool

	// strict is set if compat is "strict".
	strict     bool
	daemon, ha *table
	// tables contains the named tables by section and name.
	tables map[string]map[string]*table
	// endpoints maps the identities of the files of endpoints to the autoscalers that write them.
	endpoints map[string]*table
}

func newLoader(ctx context.Context) *loader {
	return &loader{
		ctx:           ctx,
		scheduleSteps: maxScheduleSteps,
		tables:        map[string]map[string]*table{fleetsKey: {}, sourcesKey: {}, autoscalersKey: {}, notifyKey: {}},
		endpoints:     map[string]*table{},
	}
}

// written returns the tables of [Config.Written].
func (l *loader) written() map[string]Written {
	all := map[string]Written{}
	for _, t := range []*table{l.daemon, l.ha} {
		if t != nil {
			all[strings.Clone(t.path)] = WrittenOf(t.raw) // a substring would keep the whole file in memory
		}
	}
	for name, t := range l.tables[notifyKey] {
		all[join(notifyKey, name)] = WrittenOf(t.raw)
	}
	return all
}

func (l *loader) finish() (*Config, error) {
	c := &Config{Daemon: l.readDaemon()}
	l.strict = c.Daemon.Strict()
	c.HA = l.readHA(&c.Daemon)
	c.warnings = slices.Clone(l.warnings)
	c.Fleets, c.Sources, c.Autoscalers = l.readFleets(), l.readSources(), map[string]*Autoscaler{}
	c.Notifications = l.readNotifications()
	c.Files = slices.Clone(l.files)
	c.Written = l.written()
	l.checkScrapes(c)
	c.keepSecrets()
	l.readAutoscalers(c)
	l.checkShared(c)
	if l.ctx.Err() != nil {
		return nil, context.Cause(l.ctx)
	}
	if len(l.errs) > 0 {
		return nil, l.invalid()
	}
	return c, nil
}
