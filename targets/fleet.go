// Package targets is the contract of all kinds of fleets: the name of a target ([Ref]), its state
// ([Reading]), the resource usage of its instances ([Samples]), the classes of errors, and the
// store of a fleet ([Store]).
//
// Each kind of fleet is a package below this one and passes the contract suite in
// targets/targettest.
package targets

import (
	"context"
)

// Fleet reads and scales the targets of one platform connection. It is safe for concurrent use.
// Building a fleet has no side effects.
type Fleet interface {
	// Snapshot reads the given targets in as few calls as the platform allows. The result has an
	// entry for each target; a target that could not be read has an Err. An error means that no
	// target could be read; it names the fleet.
	Snapshot(ctx context.Context, refs []Ref) (map[Ref]Reading, error)

	// SetReplicas requests n replicas of one target that was read at version; an empty version
	// disables the comparison. It returns when the platform has accepted the change, and does not
	// wait for instances. Reason is a sentence for the platform's records. Errors have the
	// classes of this package; an ErrUnknownOutcome may have been accepted.
	SetReplicas(ctx context.Context, ref Ref, n int32, version, reason string) error
}

// Remover is a Fleet that can remove instances by name.
type Remover interface {
	// Remove requests the removal of instances, and lowers the count by their number in the same
	// change, if the target is still at version. It returns when the platform has accepted the
	// change. Instances that are gone or being removed are ignored; a protected instance is an
	// error. Errors are as those of SetReplicas.
	Remove(ctx context.Context, ref Ref, ids []string, version, reason string) error
}

// Sampler is a Fleet whose platform measures resource usage. It samples at its own interval while
// Samples is called. Samples returns the latest samples immediately; unknown targets and
// instances without a sample are missing.
type Sampler interface {
	Samples(ctx context.Context, refs []Ref) (map[Ref]Samples, error)
}

// Discoverer is a Fleet that finds autoscalers in the labels of its targets.
type Discoverer interface {
	// Discover returns the targets that have labels with LabelPrefix, in a constant number of
	// calls if nothing has changed. It is called once in each sync period, if the configuration
	// has discover = true. An error other than a PartialDiscoveryError means that no target is
	// known. The error of a single target is its Problem.
	Discover(ctx context.Context) ([]Discovered, error)
}

// Starter is a Fleet or source with background work. Start returns when the work has started;
// Close stops it.
type Starter interface {
	Start(ctx context.Context) error
}

// Successor is a Fleet or source that can take over the running processes of an older one of its
// kind and name at a reload. Succeed is called before Start, while the older one still works. If
// it returns false, the older one is closed first. If it returns true, the older one must not
// touch the processes any more.
type Successor interface {
	Succeed(older any) bool
}

// Troubled is a Fleet or source with problems that do not fail a call, such as endpoints that
// cannot be scraped. Problems returns sentences immediately.
type Troubled interface {
	Problems() []string
}

// Trouble is a missing detail of a fleet and the error that caused it, if any.
type Trouble struct {
	Words string
	Err   error
}

// Sentences returns the troubles with an error as sentences.
func Sentences(troubles ...Trouble) []string {
	var sentences []string
	for _, t := range troubles {
		if t.Err != nil {
			sentences = append(sentences, t.Words+": "+t.Err.Error())
		}
	}
	return sentences
}

// Checker is a Fleet or source with additional checks for "hpad check --live", such as versions
// and permissions. Check returns sentences; an error means that it cannot be used.
type Checker interface {
	Check(ctx context.Context) ([]string, error)
}

// Reacher is a Fleet whose Check depends on the maximum counts of its targets. Reaches is called
// for each autoscaler's target before Check.
type Reacher interface {
	Reaches(target Ref, most int32)
}

// Discovered is one target with labels that begin with [LabelPrefix].
type Discovered struct {
	// Name is the name in Ref.
	Name string
	// Aliases are other names of the target. An autoscaler with one of them has the same target.
	Aliases []string
	// Labels are the unparsed labels with LabelPrefix.
	Labels map[string]string
	// Problem is the reason why the labels are invalid, for example if the instances of a service
	// have different labels; may be empty.
	Problem string
}

// LabelPrefix is the prefix of hpad's labels.
const LabelPrefix = "hpad."

// EnableLabel is the label that enables an autoscaler: "true" or "false"; the default is "false".
const EnableLabel = LabelPrefix + "enable"

// PartialDiscoveryError is the error of a discovery that could not read all targets.
type PartialDiscoveryError struct {
	// Unread reports whether a target could not be read, and keeps its previous labels.
	Unread func(name string) bool
	// Err is the reason.
	Err error
}

func (e *PartialDiscoveryError) Error() string { return e.Err.Error() }

func (e *PartialDiscoveryError) Unwrap() error { return e.Err }
