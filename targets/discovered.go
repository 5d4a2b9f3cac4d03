package targets

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
