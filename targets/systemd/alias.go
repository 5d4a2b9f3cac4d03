package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
)

// longestAlias is the maximum number of links from an alias to a unit file.
const longestAlias = 8

// DefaultTarget replaces an alias in a target with the canonical name of its template.
func (c *Config) DefaultTarget(target targets.Target) {
	if t, ok := target.(*Target); ok {
		t.Template = c.canonical(t.Template)
	}
}

// canonical returns the name under which the manager loads a unit or a template. An alias is a
// symbolic link to a different unit file, created for example by Alias=. canonical reads the
// directories of unit files. If they are on a different host or belong to a different user, it
// returns the name unchanged.
func (c *Config) canonical(unit string) string {
	dirs := unitPath(c)
	for range longestAlias {
		link := aliasOf(dirs, unit)
		if link == "" {
			break
		}
		unit = link
	}
	return unit
}

// aliasOf returns the name that an alias links to. It returns "" if the unit is not an alias,
// or if its link is not valid for an alias. The first directory that contains the unit's file
// takes precedence.
func aliasOf(dirs []string, unit string) string {
	for _, dir := range dirs {
		link, err := os.Readlink(filepath.Join(dir, unit))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "" // it is a regular file
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(dir, link)
		}
		// A link that leaves the directories is a linked unit file, not an alias.
		if !slices.Contains(dirs, targets.SocketPath(filepath.Dir(link))) {
			return ""
		}
		prefix, instance, _ := strings.Cut(unit, "@")
		name := filepath.Base(link)
		template, other, ok := strings.Cut(name, "@")
		switch {
		case !ok || name == unit:
			return ""
		case other == instance:
			return name
		case other == ".service" && template != prefix: // an instance that links to a template
			return template + "@" + instance
		}
		return ""
	}
	return ""
}

// unusable returns an error if the states of unit files show that a template cannot be used.
// The manager may load an alias that [Config.canonical] does not find.
func (f *Fleet) unusable(ctx context.Context, t template, files map[string]string) error {
	state, found := files[t.file()]
	switch {
	case !found:
		return &targets.ReasonError{Reason: TemplateNotFound, Err: fmt.Errorf("%w: there is no unit file %s (systemctl cat %s; after writing one: systemctl daemon-reload)", targets.ErrTargetNotFound, t.file(), t.file())}
	case isMasked(state):
		return &targets.ReasonError{Reason: TemplateMasked, Err: fmt.Errorf("%w: %s is masked; systemctl unmask %s lets its instances start", targets.ErrUnscalable, t.file(), t.file())}
	case state == "bad":
		return &targets.ReasonError{Reason: TemplateInvalid, Err: fmt.Errorf("%w: the manager cannot load %s (see systemd-analyze verify)", targets.ErrUnscalable, t.file())}
	case state == "alias":
		of := "another template"
		if id, err := f.manager.property(ctx, t.unit(1), unitID); err == nil && text(id) != "" {
			of = templateOf(text(id)).file()
		}
		return &targets.ReasonError{Reason: TemplateAlias, Err: fmt.Errorf("%w: %s is an alias of %s, which is the target", targets.ErrUnscalable, t.file(), of)}
	}
	return nil
}

// unitPath returns the directories of a manager's unit files in order of precedence, with
// symbolic links resolved.
func unitPath(c *Config) []string {
	dirs := []string{"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"}
	if c.Manager == userManager {
		runtime, home := runtimeDir(), os.Getenv("HOME")
		if before, ok := strings.CutSuffix(c.Address, ownSocket); ok {
			runtime = strings.TrimPrefix(before, "unix:path=")
		}
		dirs = []string{
			cmp.Or(os.Getenv("XDG_CONFIG_HOME"), home+"/.config"), "/etc", runtime, "/run", cmp.Or(os.Getenv("XDG_DATA_HOME"), home+"/.local/share"),
			"/usr/local/share", "/usr/share", "/usr/local/lib", "/usr/lib",
		}
	}
	for i, dir := range dirs {
		dirs[i] = targets.SocketPath(dir + "/systemd/" + c.Manager)
	}
	return dirs
}
