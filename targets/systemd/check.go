package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/hpad/hpad/targets"
)

// Check returns a list of unusable templates. The error names the units that hpad's user is not
// permitted to start and stop. Check tests only the first index of each template, and does not
// change any unit.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	templates := f.templates()
	if len(templates) == 0 {
		_, err := f.manager.list(ctx, []string{"hpad@*.service"})
		return nil, err
	}
	var patterns []string
	for _, t := range templates {
		patterns = append(patterns, t.filePattern())
	}
	states, err := f.fileStates(ctx, patterns)
	if err != nil {
		return nil, err
	}
	var found []string
	var refused []error
	for _, t := range templates {
		if err := unusable(t, states); err != nil {
			found = append(found, err.Error())
		} else if err := f.checkPermission(ctx, t); err != nil {
			refused = append(refused, err)
		}
	}
	return found, errors.Join(refused...)
}

func (f *Fleet) templates() []template {
	f.mu.Lock()
	defer f.mu.Unlock()
	templates := slices.Collect(maps.Keys(f.targets))
	for name := range f.config.Templates {
		if t, problem := parseTemplate(name); problem == "" && !slices.Contains(templates, t) {
			templates = append(templates, t)
		}
	}
	slices.Sort(templates)
	return templates
}

// checkPermission returns an error if hpad is not permitted to start and stop the instances of a
// template.
func (f *Fleet) checkPermission(ctx context.Context, t template) error {
	unit := t.unit(*f.config.template(t).FirstIndex)
	err := f.manager.checkPermission(ctx, unit)
	switch {
	case errors.Is(err, targets.ErrForbidden):
		return fmt.Errorf("user %d may read units of the %s manager, but not start or stop %s: %w", os.Geteuid(), f.config.Manager, unit, err)
	case err != nil:
		return fmt.Errorf("units of %s cannot be started or stopped: %w", t.file(), err)
	}
	return nil
}
