package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads the file at path and then every *.toml file of the directory
// conf.d beside it, in name order; there need not be such a directory. The
// tables of fleets, sources and autoscalers come together from all files; a name
// may occur once, and so may [daemon]. The error is an [Errors].
func Load(path string) (*Config, error) { return LoadWith(path, nil) }

// LoadWith reads what [Load] would read once files beside or at path had other
// contents: changes has the new text by the path of the file, as Load names it,
// and nil for one that is gone. Nothing is written. The error is an [Errors].
func LoadWith(path string, changes map[string][]byte) (*Config, error) {
	l, err := readAll(path, changes)
	if err != nil {
		return nil, err
	}
	return l.finish()
}

// LoadFleets reads only the fleets of what [Load] would read. Mistakes in anything
// else do not matter, such as autoscalers that are not decided yet. The error is
// an [Errors].
func LoadFleets(path string) (map[string]Fleet, error) {
	l, err := readAll(path, nil)
	if err != nil {
		return nil, err
	}
	fleets := l.readFleets(false)
	if len(l.errs) > 0 {
		return nil, l.errs.sorted(l.files)
	}
	return fleets, nil
}

// LoadFiles reads exactly these files, in this order, as one configuration. The
// error is an [Errors].
func LoadFiles(paths ...string) (*Config, error) {
	l := newLoader()
	for _, path := range paths {
		l.read(path)
	}
	return l.finish()
}

// Placed returns an error of what [daemon] or [ha] say with the file and line of each key that it is an
// [Error] of, where the configuration at path still has them.
func Placed(path string, err error) error {
	found, ok := errors.AsType[Error](err)
	if !ok {
		return err
	}
	found.File = path
	l, failed := readAll(path, nil)
	if failed != nil {
		return found
	}
	section, key, _ := strings.Cut(found.Key, ".")
	if t := map[string]*table{daemonKey: l.daemon, haKey: l.ha}[section]; t != nil {
		if doc := t.docOf(key); doc.has(found.Key) {
			found.File, found.Line = doc.name, doc.lineOf(found.Key)
		}
	}
	return found
}

// readAll reads the files of the main file at path, with changes as of LoadWith.
func readAll(path string, changes map[string][]byte) (*loader, error) {
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
	l := newLoader()
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

// Parse reads one text; name stands for the file in messages. The error is an
// [Errors].
func Parse(name string, text []byte) (*Config, error) {
	l := newLoader()
	l.parse(name, text)
	return l.finish()
}

// Files returns the files that [Load] reads for the main file at path, in order.
// The error is an [Errors].
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

// ExtraDir returns the directory whose *.toml files are read together with the
// main file at path.
func ExtraDir(path string) string { return filepath.Join(filepath.Dir(path), "conf.d") }

// unreadable returns what could not be read and what to do about it.
func unreadable(attempt string, err error) string {
	cause := err
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		cause = failed.Err
	}
	detail := attempt + ": " + cause.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		detail += "; create it or name another file"
	case errors.Is(err, fs.ErrPermission):
		detail += "; let the user that hpad runs as read it"
	}
	return detail
}

// read reads one file, recording one that cannot be read.
func (l *loader) read(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		l.files = append(l.files, path)
		l.incomplete = true
		l.errs = append(l.errs, Error{File: path, Detail: unreadable("read the configuration", err)})
		return
	}
	l.parse(path, text)
}

// loader puts a configuration together from its files.
type loader struct {
	errs Errors
	// warnings are of what is no mistake and hardly meant.
	warnings Errors
	files    []string
	// incomplete is set when a file could not be read or parsed: nothing is known to
	// be missing then.
	incomplete bool

	daemon, ha *table
	// tables are the named ones, by their top-level table and name.
	tables map[string]map[string]*table
}

func newLoader() *loader {
	return &loader{tables: map[string]map[string]*table{fleetsKey: {}, sourcesKey: {}, autoscalersKey: {}, notifyKey: {}}}
}

// finish decodes and validates what the files hold.
func (l *loader) finish() (*Config, error) {
	c := &Config{Daemon: l.readDaemon()}
	c.HA = l.readHA(&c.Daemon)
	c.warnings = slices.Clone(l.warnings)
	c.Fleets, c.Sources, c.Autoscalers = l.readFleets(c.Daemon.Strict()), l.readSources(), map[string]*Autoscaler{}
	c.Notifications = l.readNotifications()
	c.Files = slices.Clone(l.files)
	l.checkScrapes(c)
	l.readAutoscalers(c)
	l.checkShared(c)
	if len(l.errs) > 0 {
		return nil, l.errs.sorted(l.files)
	}
	return c, nil
}
