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

// Platform makes a kind's calls. N identifies a group, G is the platform's type for a group, and C is
// the kind's client. Errors have the classes of package targets. All methods are safe for concurrent use.
type Platform[N comparable, G, C any] interface {
	// List reads groups in as few calls as possible. The result has an entry for each name. An
	// error means that no group could be read.
	List(ctx context.Context, c *C, names []N) (map[N]*Group[G], error)
	// Get reads one group just before a write.
	Get(ctx context.Context, c *C, name N) (*Group[G], error)
	// Members lists the instances of a group. It is not called if List and Get already return
	// groups with a Listing.
	Members(ctx context.Context, c *C, name N, group *Group[G]) (*Listing, error)
	// Hold returns the reason why a group must not be written now, or nil. It makes no call. The
	// argument listing is the last listing, or nil.
	Hold(name N, group *Group[G], listing *Listing) *policy.Hold
	// Facts returns the facts of instances by key. It omits instances that the platform does not
	// report yet; they are queried again. The result is valid even if there is an error.
	Facts(ctx context.Context, c *C, unknown map[N]Unknown[G]) (map[string]*Found, error)
	// Explain returns the platform's reason for missing instances, or nil.
	Explain(ctx context.Context, c *C, name N, group *Group[G]) (*policy.Notice, error)
	// Resize sets the size of a group, and returns its new identity; "" if the identity did not
	// change.
	Resize(ctx context.Context, c *C, name N, group *Group[G], size int32) (identity string, err error)
	// Delete removes instances and lowers the size by their number in the same call. It returns the
	// handles of the removed instances, even if there is an error.
	Delete(ctx context.Context, c *C, name N, group *Group[G], handles []string) (removed []string, err error)
	// Tests describes hpad's identity, and returns the tests of its permissions for the groups. A test
	// must not change the platform.
	Tests(ctx context.Context, c *C, groups map[N]*Group[G]) (identity string, tests []PermissionTest[N])
}

// Group is one reading of a group.
type Group[G any] struct {
	// Native is the platform's representation of the group.
	Native G
	// Err is the reason why the group cannot be read or scaled. If it is set, the other fields are
	// invalid.
	Err error
	// Size is the number of instances that the platform keeps.
	Size int32
	// Min and Max are the platform's bounds, or nil.
	Min, Max *int32
	// Identity changes when the group is replaced or modified. It must not contain "@".
	Identity string
	// Stable reports whether the platform has completed all changes to the group.
	Stable bool
	// Quiet reports whether the instances of a stable group rarely change, so that they are listed
	// less often.
	Quiet bool
	// Notices are other conditions of the group.
	Notices []policy.Notice
	// Listing is set if the platform returns instances together with groups.
	Listing *Listing
	// Lagging is set by Fleet if the platform does not report the last write yet.
	Lagging bool
}

// Listing contains the instances of a group at one time. It is immutable.
type Listing struct {
	Members []Member
	// Notice is the reason why instances do not start, or nil.
	Notice *policy.Notice
	// Upgrade describes an upgrade in progress; may be empty.
	Upgrade string
}

// Member is one instance of a group.
type Member struct {
	ID string
	// Key identifies the instance in Memory; empty means ID.
	Key string
	// Handle is the argument for Delete; empty means ID.
	Handle string
	// Name is the default of Facts.Name; empty if it equals ID.
	Name     string
	Phase    policy.Phase
	Deleting bool
	// State describes the state in the words of the platform. It is the reason why an instance is
	// not ready.
	State string
	// Readiness is the health. ReadinessNotKnown keeps a ready instance ready.
	Readiness policy.Readiness
	// Launched is the start time, and Since the time of the last change of Readiness; zero if
	// unknown.
	Launched, Since time.Time
	Protected       bool
	// Labels are added to the labels of Facts.
	Labels map[string]string
}

func (m *Member) key() string { return cmp.Or(m.Key, m.ID) }

func (m *Member) handle() string { return cmp.Or(m.Handle, m.ID) }

func (m *Member) running() bool { return m.Phase == policy.PhaseRunning }

// Unknown contains the instances of a group whose facts are unknown.
type Unknown[G any] struct {
	Group *Group[G]
	// Members maps keys to instances.
	Members map[string]Member
}

// Found contains the facts of an instance.
type Found struct {
	// Launched is the start time; zero if it is already in Member.Launched.
	Launched time.Time
	Facts    Facts
}

func (g *Group[G]) version() string { return strconv.Itoa(int(g.Size)) + "@" + g.Identity }

// at reports whether the group is at the given version. If one of the two versions has no
// identity, only the sizes are compared.
func (g *Group[G]) at(version string) bool {
	size, identity, _ := strings.Cut(version, "@")
	return size == strconv.Itoa(int(g.Size)) && (identity == g.Identity || identity == "" || g.Identity == "")
}

func (g *Group[G]) allows(size int32, err error) error {
	if g.Min != nil && size < *g.Min || g.Max != nil && size > *g.Max {
		return &targets.OutOfRangeError{Min: g.Min, Max: g.Max, Err: err}
	}
	return nil
}

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

// without returns a listing that marks the instances with the given handles as Deleting.
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

// settled reports whether a group is complete: it has exactly size instances, all of them are
// running and ready, and no upgrade is in progress.
func (l *Listing) settled(size int32) bool {
	return l.Upgrade == "" && int(size) == len(l.Members) && !slices.ContainsFunc(l.Members, func(m Member) bool {
		return m.Deleting || !m.running() || m.Readiness != policy.ReadinessTrue
	})
}
