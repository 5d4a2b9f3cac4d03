package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/hpad/hpad/targets"
)

// Check answers which templates cannot be used. The error tells of units that
// hpad's user may not start and stop, which it finds out by stopping an instance
// that there is not.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	err := f.life.Usable(ctx)
	var found []string
	if err == nil {
		found, err = f.check(ctx)
	}
	if err != nil {
		return found, fmt.Errorf("check fleet %q: %w", f.name, err)
	}
	return found, nil
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	var templates []template
	for t := range f.targets {
		templates = append(templates, t)
	}
	f.mu.Unlock()
	for name := range f.config.Templates {
		if t, wrong := parseTemplate(name); wrong == "" && !slices.Contains(templates, t) {
			templates = append(templates, t)
		}
	}
	slices.Sort(templates)
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
		if err := t.unusable(states); err != nil {
			found = append(found, err.Error())
			continue
		}
		// The highest index is nobody's; to stop it changes nothing.
		err := f.manager.stop(ctx, t.unit(math.MaxInt32))
		switch {
		case errors.Is(err, targets.ErrForbidden):
			refused = append(refused, fmt.Errorf("user %d may read units of the %s manager and not start or stop those of %s: %w", os.Geteuid(), f.config.Manager, t.file(), err))
		case err != nil && !errors.Is(err, targets.ErrTargetNotFound):
			refused = append(refused, fmt.Errorf("units of %s cannot be stopped: %w", t.file(), err))
		}
	}
	return found, errors.Join(refused...)
}
