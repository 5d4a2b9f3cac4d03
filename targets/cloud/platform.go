package cloud

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Platform is the part of a kind that differs: its calls. N names a group, and G is a
// group in the platform's own terms. Errors have the classes of package targets. All
// methods are safe for concurrent use.
type Platform[N comparable, G any] interface {
	// List reads groups in as few calls as possible. The result has an entry for each
	// name. An error means that no group could be read.
	List(ctx context.Context, names []N) (map[N]*Group[G], error)
	// Get reads one group just before a write.
	Get(ctx context.Context, name N) (*Group[G], error)
	// Members lists the instances of a group. It is not called if List and Get return
	// groups with a Listing.
	Members(ctx context.Context, name N, group *Group[G]) (*Listing, error)
	// Hold returns the reason not to write a group now, without a call; nil if it may be
	// written. Listing is the last one, or nil.
	Hold(name N, group *Group[G], listing *Listing) *policy.Hold
	// Facts looks up instances by their keys. Instances that the platform does not know
	// yet are left out, and looked up again. The result is valid beside an error.
	Facts(ctx context.Context, unknown map[N]Unknown[G]) (map[string]*Found, error)
	// Explain returns the platform's reason for missing instances, or nil.
	Explain(ctx context.Context, name N, group *Group[G]) (*policy.Notice, error)
	// Resize writes the size of a group, and returns its identity afterwards; "" if the
	// identity did not change.
	Resize(ctx context.Context, name N, group *Group[G], size int32) (identity string, err error)
	// Delete removes instances and lowers the size by as many in the same call. It
	// returns the handles of removed instances, also beside an error.
	Delete(ctx context.Context, name N, group *Group[G], handles []string) (removed []string, err error)
}

// Group is one reading of a group.
type Group[G any] struct {
	// Native is the group in the platform's own terms.
	Native G
	// Err is the reason that the group cannot be read or scaled; it replaces the other fields.
	Err error
	// Size is the number of instances that the platform keeps.
	Size int32
	// Min and Max are the platform's bounds, or nil.
	Min, Max *int32
	// Identity differs if the group was replaced, or changed otherwise; it has no "@".
	Identity string
	// Stable reports that the platform is not changing the group.
	Stable bool
	// Quiet reports that the instances of a stable group hardly change: they are listed
	// again only after a while.
	Quiet bool
	// Notices are other conditions of the group.
	Notices []policy.Notice
	// Listing is set if the platform returns instances together with groups.
	Listing *Listing
	// Lagging is set by Fleet: the platform does not show the last write yet.
	Lagging bool
}

// Listing is the instances of a group at one time. It is not modified once made.
type Listing struct {
	Members []Member
	// Notice is the reason that instances do not start, or nil.
	Notice *policy.Notice
	// Upgrade describes an upgrade in progress; may be empty.
	Upgrade string
}

// Member is one instance of a group.
type Member struct {
	ID string
	// Key identifies the instance in the memory of the fleet; empty means ID.
	Key string
	// Handle names the instance in Delete; empty means ID.
	Handle string
	// Name is the instance's name unless Facts have another; empty if it is ID.
	Name     string
	Phase    policy.Phase
	Deleting bool
	// Readiness is the health. ReadinessNotKnown leaves an instance ready that was.
	Readiness policy.Readiness
	// Launched is when the instance started, and Since when Readiness last changed; zero
	// if not known.
	Launched, Since time.Time
	Protected       bool
	// Labels are added to those of Facts.
	Labels map[string]string
}

func (m *Member) key() string { return cmp.Or(m.Key, m.ID) }

func (m *Member) handle() string { return cmp.Or(m.Handle, m.ID) }

func (m *Member) running() bool { return m.Phase == policy.PhaseRunning }

// Unknown is instances of a group whose facts are not known.
type Unknown[G any] struct {
	Group *Group[G]
	// Members are by their keys.
	Members map[string]Member
}

// Found is the result of looking up an instance.
type Found struct {
	// Launched is when it started; zero if the list of members has it.
	Launched time.Time
	Facts    Facts
}

// version returns SIZE@IDENTITY.
func (g *Group[G]) version() string { return strconv.Itoa(int(g.Size)) + "@" + g.Identity }

// at reports whether the group is at a version. An identity that one of two readings
// lacks is not compared.
func (g *Group[G]) at(version string) bool {
	size, identity, _ := strings.Cut(version, "@")
	return size == strconv.Itoa(int(g.Size)) && (identity == g.Identity || identity == "" || g.Identity == "")
}

// allows returns an ErrOutOfRange for a size outside of the group's bounds.
func (g *Group[G]) allows(size int32, err error) error {
	if g.Min != nil && size < *g.Min || g.Max != nil && size > *g.Max {
		return &targets.OutOfRangeError{Min: g.Min, Max: g.Max, Err: err}
	}
	return nil
}

// apply makes a group what writes made of it that the platform does not show yet.
func (g *Group[G]) apply(writes []write) {
	shown := g.version()
	for _, w := range writes {
		g.Size, g.Identity = w.size, cmp.Or(w.identity, g.Identity)
		g.Lagging, g.Stable = g.version() != shown, false
		if g.Listing != nil {
			g.Listing = g.Listing.without(w.removed)
		}
	}
}

// without returns a listing whose instances with the given handles are being deleted.
func (l *Listing) without(handles []string) *Listing {
	next := *l
	next.Members = slices.Clone(l.Members)
	for i := range next.Members {
		if m := &next.Members[i]; slices.Contains(handles, m.handle()) {
			m.Deleting, m.Readiness = true, policy.ReadinessFalse
		}
	}
	return &next
}

// there returns the number of instances that neither failed nor are being deleted.
func (l *Listing) there() int32 {
	count := int32(0)
	for i := range l.Members {
		if m := &l.Members[i]; !m.Deleting && m.Phase != policy.PhaseFailed {
			count++
		}
	}
	return count
}

// settled reports whether a group has its size, and all its instances run and are ready.
func (l *Listing) settled(size int32) bool {
	return l.Upgrade == "" && int(size) == len(l.Members) && !slices.ContainsFunc(l.Members, func(m Member) bool {
		return m.Deleting || !m.running() || m.Readiness != policy.ReadinessTrue
	})
}
