// Package targets defines the contract for all kinds of fleets: the name of a target ([Ref]), its
// state ([Reading]), the resource usage of its instances ([Samples]), the error classes, and a
// fleet's store ([Store]).
//
// Each kind of fleet is a package below this one and passes the contract suite in
// targets/targettest.
package targets

import (
	"context"
	"io"
)

// Fleet reads and scales the targets of one platform connection. It is safe for concurrent use.
// Building a fleet has no side effects.
type Fleet interface {
	// Snapshot reads the given targets in as few calls as the platform allows. The result contains
	// a reading for each target, with Err set if the target could not be read. An error means that
	// no target could be read; it names the fleet.
	Snapshot(ctx context.Context, refs []Ref) (map[Ref]Reading, error)

	// SetReplicas requests n replicas for one target if the target is still at version; an empty
	// version disables this comparison. It returns when the platform has accepted the change, and
	// does not wait for instances. The argument reason is a sentence for the platform's records.
	// Errors have the classes of this package. After an ErrUnknownOutcome, the platform may have
	// accepted the change.
	SetReplicas(ctx context.Context, ref Ref, n int32, version, reason string) error
}

// Remover is a Fleet that can remove instances by name.
type Remover interface {
	// Remove requests the removal of instances, and lowers the count by their number in the same
	// change, if the target is still at version. It returns when the platform has accepted the
	// change. It ignores instances that no longer exist or are already being removed, and rejects
	// protected instances. Errors have the same classes as those of SetReplicas.
	Remove(ctx context.Context, ref Ref, ids []string, version, reason string) error
}

// Sampler is a Fleet whose platform measures resource usage. It samples at its own interval as
// long as Samples is called. Samples returns the latest samples immediately. The result omits
// unknown targets and instances without a sample.
type Sampler interface {
	Samples(ctx context.Context, refs []Ref) (map[Ref]Samples, error)
}

// Logger is a Fleet that can read the output of its instances.
type Logger interface {
	// WriteLogs writes the last lines of an instance in a reading. With LogQuery.Follow, it also
	// writes new output, across restarts of the instance, until it ends for good or ctx ends. The
	// caller ends ctx after the instance is absent from a reading.
	WriteLogs(ctx context.Context, ref Ref, id string, query LogQuery, to io.Writer) error
}

// Restarter is a Fleet that can replace the instances of a target without a change of the target.
type Restarter interface {
	// Restart requests a rolling replacement of all current instances. It returns when the request
	// is stored or the platform has accepted it, and does not wait for instances. Errors have the
	// same classes as those of SetReplicas.
	Restart(ctx context.Context, ref Ref) error
}

// LogQuery selects a part of the output of an instance.
type LogQuery struct {
	// Lines is the maximum number of lines before new output; at least 1.
	Lines  int
	Follow bool
	// Previous selects the output before the current start of the instance. It excludes Follow.
	Previous bool
}

// Discoverer is a Fleet that finds autoscalers in the labels of its targets.
type Discoverer interface {
	// Discover returns the targets that have labels with LabelPrefix. If nothing has changed, the
	// number of calls does not depend on the number of targets. Discover is called once in each
	// sync period if the configuration contains discover = true. An error other than a
	// PartialDiscoveryError means that no target could be discovered. The error of a single target
	// is reported in its Problem.
	Discover(ctx context.Context) ([]Discovered, error)
}

// Starter is a Fleet or source that does background work. Start returns when the work has
// started; Close stops it.
type Starter interface {
	Start(ctx context.Context) error
}

// Successor is a Fleet or source that can take over the running processes of an older one of its
// kind and name at a reload. Succeed is called before Start, while the older one is still
// running. If it returns false, the older one is closed first. If it returns true, the older one
// must no longer control the processes.
type Successor interface {
	Succeed(older any) bool
}

// ProblemReporter is a Fleet or source that can have problems that do not fail a call, such as
// endpoints that cannot be scraped. Problems returns a sentence for each problem, without waiting
// for a call.
type ProblemReporter interface {
	Problems() []string
}

// MissingDetail describes a detail that a fleet could not read, and the error that caused this, if
// any.
type MissingDetail struct {
	Text string
	Err  error
}

// ProblemTexts returns a sentence for each missing detail that has an error.
func ProblemTexts(details ...MissingDetail) []string {
	var sentences []string
	for _, t := range details {
		if t.Err != nil {
			sentences = append(sentences, t.Text+": "+t.Err.Error())
		}
	}
	return sentences
}

// Checker is a Fleet or source with additional checks for "hpad check --live", such as versions
// and permissions. Check returns the results as sentences. An error means that the fleet or
// source cannot be used.
type Checker interface {
	Check(ctx context.Context) ([]string, error)
}

// Discovered is one target with labels that begin with [LabelPrefix].
type Discovered struct {
	// Name is the target's name in a Ref.
	Name string
	// Aliases lists other names of the target. An autoscaler for one of these names has the same
	// target.
	Aliases []string
	// Labels contains the unparsed labels with LabelPrefix.
	Labels map[string]string
	// Problem describes why the labels are invalid, for example because the instances of a service
	// have different labels. It is empty if they are valid.
	Problem string
}

// LabelPrefix is the prefix of hpad's labels.
const LabelPrefix = "hpad."

// EnableLabel is the label that enables an autoscaler: "true" or "false"; the default is "false".
const EnableLabel = LabelPrefix + "enable"

// PartialDiscoveryError is the error for a discovery that could not read all targets.
type PartialDiscoveryError struct {
	// Unread reports whether a target could not be read, so that its previous labels still apply.
	Unread func(name string) bool
	// Err is the cause.
	Err error
}

func (e *PartialDiscoveryError) Error() string { return e.Err.Error() }

func (e *PartialDiscoveryError) Unwrap() error { return e.Err }
