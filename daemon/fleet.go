package daemon

import (
	"context"
	"time"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Fleet reads and scales the targets of one platform connection. It is safe for
// concurrent use, and building one has no effect outside of the process.
type Fleet interface {
	// Snapshot reads the given targets in as few calls as the platform allows.
	// The result has an entry for every target asked for; one that could not be
	// read says so in its Err. An error means that none could be read;
	// it names the fleet.
	Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error)

	// SetReplicas asks for n replicas of one target, as read at version; an empty
	// version asks for no comparison. It returns once the change is accepted and
	// never waits for instances. Reason is a sentence for the platform's own
	// record. Errors are of the classes in package targets; one that leaves open
	// whether the change was accepted is a targets.ErrUnknownOutcome.
	SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error
}

// Remover is what a Fleet also is when it can take instances by name.
type Remover interface {
	// Remove asks for instances to be taken, and for the count to be lowered by as
	// many in the same change, as read at version. It returns once the change is
	// accepted. An instance that is gone already, or on its way, is no error and
	// lowers nothing. A protected one is refused. Errors are as those of
	// SetReplicas.
	Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error
}

// Sampler is what a Fleet also is when the platform itself can tell resource
// use. It samples on its own clock, only while it is being asked, and answers
// at once with what was last published; a target it knows nothing of has no
// entry, an instance without a sample is left out.
type Sampler interface {
	Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error)
}

// Discoverer is what a Fleet also is when targets can say by their labels that
// they want to be scaled, and how.
type Discoverer interface {
	// Discover answers the targets that have labels with targets.LabelPrefix, in a
	// constant number of calls where nothing changed. It is asked once in each of
	// the daemon's sync periods, only where the configuration says discover = true.
	// An error means that nothing is known about any target, unless it is a
	// targets.PartialDiscoveryError; what is wrong with one target is told in its
	// Problem.
	Discover(ctx context.Context) ([]targets.Discovered, error)
}

// Source answers queries at one instant. It is safe for concurrent use. The answer
// is for that instant and no other, each of its series has other labels, and it has
// at least the labels that the query names. It is Released once nobody reads it any
// more.
type Source interface {
	Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error)
}

// Starter is what a Fleet or Source also is when it works on its own between
// reads. Start returns once that work has begun; the work ends with Close, not
// with ctx.
type Starter interface {
	Start(ctx context.Context) error
}

// Successor is what a Fleet or Source also is when it can take over what an
// older one of its kind and name holds (running processes, stored samples) at a
// reload. Succeed is called before Start, while the older one is still working;
// it says false when there is nothing it can take over, and then the older one
// is closed first. Once it says true the older one no longer owns what was
// taken, and is closed without touching it.
type Successor interface {
	Succeed(older any) bool
}

// Troubled is what a Fleet or Source also is when it knows of troubles that no
// call tells of, as endpoints that cannot be scraped. The answers are sentences
// for a person, at once and without asking anybody.
type Troubled interface {
	Problems() []string
}

// Checker is what a Fleet or Source also is when "hpad check --live" can ask
// more of it than a read: versions, permissions. The answers are sentences for a
// person; the error means that it cannot be used at all.
type Checker interface {
	Check(ctx context.Context) ([]string, error)
}

// Reacher is what a Fleet also is when its check depends on how far its targets may
// grow. It is told that of each autoscaler's target before Check.
type Reacher interface {
	Reaches(target targets.Ref, most int32)
}
