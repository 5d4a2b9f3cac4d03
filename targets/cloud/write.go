package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// InstanceProtected is the reason for holding a removal that includes a protected instance.
const InstanceProtected = "InstanceProtected"

// SetReplicas sets the size of a group if it is still at version. It reads the group first, and
// does not write an unchanged size.
func (f *Fleet[N, G, C]) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.Scale(ctx, ref, n, f.Noun, func(ctx context.Context, name N) error {
		g, err := f.current(ctx, name, version)
		if err != nil || g.Size == n {
			return err
		}
		if err := f.writable(name, g, n); err != nil {
			return err
		}
		defer f.forget(name)
		identity, err := call(ctx, f, func(c *C) (string, error) { return f.Platform.Resize(ctx, c, name, g, n) })
		if err != nil {
			return g.bounded(err)
		}
		f.locked(name, func(s *groupState) { s.add(g.version(), write{size: n, identity: identity}, time.Now()) })
		return nil
	})
}

// Remove removes instances of a group and lowers its size by their number, if the group is still
// at version. It ignores instances that are gone or being deleted; one protected instance
// prevents the removal.
func (f *Fleet[N, G, C]) Remove(ctx context.Context, ref targets.Ref, ids []string, version, _ string) error {
	what := fmt.Sprintf("remove %d instances of %s %q of fleet %q", len(ids), f.Noun, ref.Name, f.Name)
	return f.Write(ctx, ref, what, func(ctx context.Context, name N) error { return f.remove(ctx, name, ids, version) })
}

func (f *Fleet[N, G, C]) remove(ctx context.Context, name N, ids []string, version string) error {
	g, err := f.current(ctx, name, version)
	if err != nil {
		return err
	}
	if g.Listing == nil {
		if g.Listing, err = f.members(ctx, name, g); err != nil {
			return err
		}
	}
	victims, err := g.victims(f.Noun, name, ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := f.writable(name, g, g.Size-int32(len(victims))); err != nil {
		return err
	}
	defer f.forget(name)
	var removed []string
	for chunk := range slices.Chunk(victims, f.DeletesAtOnce) {
		var some []string
		some, err = call(ctx, f, func(c *C) ([]string, error) { return f.Platform.Delete(ctx, c, name, g, chunk) })
		if removed = append(removed, some...); err != nil {
			break
		}
	}
	if len(removed) > 0 {
		reached := max(0, g.Size-int32(len(removed)))
		f.locked(name, func(s *groupState) { s.add(g.version(), write{size: reached, removed: removed}, time.Now()) })
		if err != nil && !errors.Is(err, targets.ErrUnknownOutcome) {
			return &targets.PartialError{Reached: reached, Err: err}
		}
	}
	return g.bounded(err)
}

// current reads a group before a write. It returns an ErrConflict if the group is not at version.
func (f *Fleet[N, G, C]) current(ctx context.Context, name N, version string) (*Group[G], error) {
	g, err := call(ctx, f, func(c *C) (*Group[G], error) { return f.Platform.Get(ctx, c, name) })
	if err != nil {
		return nil, err
	}
	f.locked(name, func(s *groupState) { g.apply(s.unseen(g.version(), time.Now())) })
	if version != "" && g.Err == nil && !g.at(version) {
		return nil, fmt.Errorf("%w: %s %q changed from %s to %s (size@identity)", targets.ErrConflict, f.Noun, fmt.Sprint(name), version, g.version())
	}
	return g, g.Err
}

func (f *Fleet[N, G, C]) writable(name N, g *Group[G], size int32) error {
	if hold := f.Platform.Hold(name, g, f.lastListing(name)); hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return g.allows(size, fmt.Errorf("%s %q cannot contain %d instances", f.Noun, fmt.Sprint(name), size))
}

// bounded adds the group's bounds to an ErrOutOfRange from the platform.
func (g *Group[G]) bounded(err error) error {
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](err); ok {
		bounds.Min, bounds.Max = g.Min, g.Max
	}
	return err
}

func (g *Group[G]) victims(noun string, name any, ids []string) (handles []string, err error) {
	var protected []string
	for i := range g.Listing.Members {
		m := &g.Listing.Members[i]
		switch {
		case m.Deleting || !slices.Contains(ids, m.ID):
		case m.Protected:
			protected = append(protected, m.ID)
		default:
			handles = append(handles, m.handle())
		}
	}
	if len(protected) > 0 {
		return nil, &targets.HeldError{Hold: policy.Hold{Reason: InstanceProtected, Message: fmt.Sprintf(
			"instances of %s %q are protected from scale-in: %s", noun, fmt.Sprint(name), strings.Join(protected, ", "))}}
	}
	slices.Sort(handles)
	return handles, nil
}

// writeLag is the maximum time for which hpad adjusts readings for an accepted write that the
// platform does not report yet.
const writeLag = time.Minute

type write struct {
	size int32
	// identity is the new identity of the group; empty if it did not change.
	identity string
	removed  []string
}

// add records an accepted write to a group, with the group's version before the write. The
// platform's reads may lag behind. Without the record, hpad would mistake an old size for a change
// by an external writer.
func (s *groupState) add(version string, w write, now time.Time) {
	s.versions, s.writes, s.writtenAt = append(s.versions, version), append(s.writes, w), now
}

// unseen returns the writes that the platform does not report yet, oldest first, if the group's
// version is still from before one of them. It deletes the writes if the group has any other
// version, or if the last write is older than writeLag.
func (s *groupState) unseen(version string, now time.Time) []write {
	if !slices.Contains(s.versions, version) || now.Sub(s.writtenAt) > writeLag {
		s.versions, s.writes = nil, nil
	}
	return s.writes
}
