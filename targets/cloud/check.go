package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// PermissionTest describes how Check tests one permission.
type PermissionTest[N any] struct {
	// Permission is the platform's name for the permission.
	Permission string
	// Without describes the effect of a missing permission; empty if the permission is required.
	Without string
	// Each makes a call for one group, and All makes one call for all groups. One of them is set.
	// An ErrForbidden other than ErrCredentials means that the permission is missing.
	Each func(ctx context.Context, name N) error
	All  func(ctx context.Context) error
}

// Check returns hpad's identity, its permissions for the groups of the last snapshot, the effects of
// missing optional permissions, and the Problems. The error lists the missing required permissions
// with their groups, and the groups that cannot be read. Check does not change the platform.
func (f *Fleet[N, G, C]) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.Base, "check", func(ctx context.Context) ([]string, error) {
		found, err := call(ctx, f, func(c *C) ([]string, error) { return f.test(ctx, c) })
		return append(found, f.Problems()...), err
	})
}

func (f *Fleet[N, G, C]) test(ctx context.Context, c *C) (found []string, err error) {
	groups, err := f.Platform.List(ctx, c, f.Known())
	identity, tests := f.Platform.Tests(ctx, c, groups)
	found = append(found, identity)
	for _, group := range groups {
		err = errors.Join(err, group.Err)
	}
	if err != nil {
		return found, err
	}
	var missing []error
	for _, try := range tests {
		denied, groups, err := f.try(ctx, &try)
		if groups != "" {
			groups = " for " + groups
		}
		switch {
		case err != nil:
			return found, fmt.Errorf("try %s: %w", try.Permission, err)
		case !denied:
			found = append(found, "has permission "+try.Permission)
		case try.Without == "":
			missing = append(missing, fmt.Errorf("%w: %s is missing%s", targets.ErrForbidden, try.Permission, groups))
		default:
			found = append(found, "lacks permission "+try.Permission+groups+", so "+try.Without)
		}
	}
	return found, errors.Join(missing...)
}

// try reports whether a permission is missing, and for which groups; "" means all groups. An error
// means that the permission could not be tested.
func (f *Fleet[N, G, C]) try(ctx context.Context, t *PermissionTest[N]) (denied bool, groups string, err error) {
	names, call := f.Known(), t.Each
	if t.All != nil {
		names, call = make([]N, 1), func(ctx context.Context, _ N) error { return t.All(ctx) }
	}
	var lacking []string
	for i, err := range guard.Each(callsAtOnce, names, func(_ int, name N) error { return call(ctx, name) }) {
		switch {
		case errors.Is(err, targets.ErrForbidden) && !errors.Is(err, ErrCredentials):
			lacking = append(lacking, fmt.Sprint(names[i]))
		case undecided(err):
			return false, "", err
		}
	}
	if t.All != nil {
		return len(lacking) > 0, "", nil
	}
	slices.Sort(lacking)
	return len(lacking) > 0, Quoted(lacking), nil
}

// undecided reports whether the error of a test call leaves open whether the permission is granted.
// Test calls never succeed; the remaining errors show a granted permission, because platforms check
// permissions first.
func undecided(err error) bool {
	_, answered := errors.AsType[*ResponseError](err)
	return err != nil && (!answered && !errors.Is(err, targets.ErrHeld) || errors.Is(err, targets.ErrThrottled) ||
		errors.Is(err, targets.ErrUnknownOutcome) || errors.Is(err, ErrCredentials))
}

const mostNamed = 10

// Quoted returns a list of at most 10 quoted names, and the number of the remaining names.
func Quoted[N any](names []N) string {
	quoted := make([]string, 0, mostNamed)
	for _, name := range names[:min(mostNamed, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", fmt.Sprint(name)))
	}
	text := strings.Join(quoted, ", ")
	if len(names) > mostNamed {
		text += fmt.Sprintf(" and %d more", len(names)-mostNamed)
	}
	return text
}
