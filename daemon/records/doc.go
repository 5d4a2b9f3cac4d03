// Package records writes the results of the passes to the state store.
//
// [Recorder] combines the records of many passes into one commit. [Pauses] and [Breakers] contain
// the state that several autoscalers share, and record each change to it. The other functions
// compute and compare parts of a [state.Record].
package records
