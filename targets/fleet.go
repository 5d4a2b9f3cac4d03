// Package targets holds what every kind of fleet speaks: how a target is named
// ([Ref]), what reading one yields ([Reading]), the resource use of its
// instances ([Samples]), the classes of errors that a fleet returns, and the
// small store each fleet keeps across restarts ([Store]).
//
// Each kind of fleet lives in a package below this one and passes the contract
// suite in targets/targettest.
package targets

import (
	"context"
)

// Fleet reads and scales the targets of one platform connection. It is safe for
// concurrent use, and building one has no effect outside of the process.
type Fleet interface {
	// Snapshot reads the given targets in as few calls as the platform allows. The
	// result has an entry for every one of them; a target that could not be read has
	// an Err. An error means that none could be read; it names the fleet.
	Snapshot(ctx context.Context, refs []Ref) (map[Ref]Reading, error)

	// SetReplicas requests n replicas of one target, as read at version; an empty
	// version asks for no comparison. It returns once the change is accepted and
	// never waits for instances. Reason is a sentence for the platform's own
	// record. Errors are of this package's classes; one that leaves open whether the
	// change was accepted is an ErrUnknownOutcome.
	SetReplicas(ctx context.Context, ref Ref, n int32, version, reason string) error
}

// Remover is a Fleet that can take instances by name.
type Remover interface {
	// Remove requests that instances be taken, and that the count be lowered by as
	// many in the same change, as read at version. It returns once the change is
	// accepted. An instance that is gone already, or on its way, is no error and
	// lowers nothing. A protected one is an error. Errors are as those of
	// SetReplicas.
	Remove(ctx context.Context, ref Ref, ids []string, version, reason string) error
}

// Sampler is a Fleet of a platform that itself measures the use of resources. It
// samples on its own clock, only while Samples is called, which returns at once
// what was published last; an unknown target has no entry, an instance without a
// sample is left out.
type Sampler interface {
	Samples(ctx context.Context, refs []Ref) (map[Ref]Samples, error)
}

// Discoverer is a Fleet whose targets can ask by their labels to be scaled.
type Discoverer interface {
	// Discover returns the targets that have labels with LabelPrefix, in a constant
	// number of calls where nothing changed. It is called once in each of the
	// daemon's sync periods, only where the configuration has discover = true. An
	// error means that nothing is known about any target, unless it is a
	// PartialDiscoveryError; what is wrong with one target is in its Problem.
	Discover(ctx context.Context) ([]Discovered, error)
}

// Starter is a Fleet or source that works on its own between reads. Start returns
// once that work has begun; the work ends with Close, not with ctx.
type Starter interface {
	Start(ctx context.Context) error
}

// Successor is a Fleet or source that can take over what an older one of its kind
// and name holds (running processes, stored samples) at a reload. Succeed is called
// before Start, while the older one is still working; it returns false when there
// is nothing it can take over, and then the older one is closed first. Once it
// returns true the older one no longer owns what was taken, and is closed without
// touching it.
type Successor interface {
	Succeed(older any) bool
}

// Troubled is a Fleet or source that knows of troubles which no call returns, as
// endpoints that cannot be scraped. Problems returns sentences for a person, at once
// and without a call.
type Troubled interface {
	Problems() []string
}

// Trouble is something that a fleet does without: what, in words, and why. Without an
// error there is no trouble.
type Trouble struct {
	Words string
	Err   error
}

// Sentences returns those of the troubles that have an error.
func Sentences(troubles ...Trouble) []string {
	var sentences []string
	for _, t := range troubles {
		if t.Err != nil {
			sentences = append(sentences, t.Words+": "+t.Err.Error())
		}
	}
	return sentences
}

// Checker is a Fleet or source of which "hpad check --live" can ask more than a
// read: versions, permissions. Check returns sentences for a person; the error means
// that it cannot be used at all.
type Checker interface {
	Check(ctx context.Context) ([]string, error)
}

// Reacher is a Fleet whose Check depends on how far its targets may grow. Reaches is
// called for each autoscaler's target before Check.
type Reacher interface {
	Reaches(target Ref, most int32)
}

// Discovered is one target that a fleet found with labels that begin with
// [LabelPrefix]: how a target itself asks to be scaled.
type Discovered struct {
	// Name is the target's, as in Ref.
	Name string
	// Aliases are other names by which a configuration may have the same target; an
	// autoscaler of any of them is one of this target.
	Aliases []string
	// Labels are those that begin with LabelPrefix, as they are written.
	Labels map[string]string
	// Problem is why the labels are not known, as when instances of one service carry
	// different ones; empty when they are.
	Problem string
}

// LabelPrefix begins every label that hpad reads.
const LabelPrefix = "hpad."

// EnableLabel is the label that makes a target's labels an autoscaler: "true" or
// "false", which is also what its absence means.
const EnableLabel = LabelPrefix + "enable"

// PartialDiscoveryError is the error of a discovery that found targets but could not
// look everywhere.
type PartialDiscoveryError struct {
	// Unread reports whether nothing is known of the target of a name, which is then
	// taken to be as it was.
	Unread func(name string) bool
	// Err is what could not be read, and why.
	Err error
}

// Error returns what could not be read.
func (e *PartialDiscoveryError) Error() string { return e.Err.Error() }

// Unwrap returns what could not be read.
func (e *PartialDiscoveryError) Unwrap() error { return e.Err }
