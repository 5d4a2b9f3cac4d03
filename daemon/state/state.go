package state

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// Store stores the state of a daemon. It is safe for concurrent use. All times are those of the
// daemon's own clock.
type Store interface {
	// Load returns the stored state, with Memory as of the last completed round. The error is a
	// *DamagedError if a value cannot be used.
	Load(ctx context.Context) (Snapshot, error)
	// Commit writes all changes or none, durably. Concurrent commits share one transaction.
	// Invalid records are skipped: the error is then a RejectedError, and all other changes are
	// written.
	Commit(ctx context.Context, changes Changes) error
	// Fleet returns the small store of a fleet.
	Fleet(name string) targets.Store
	// History returns the entries of an autoscaler, or of all if name is empty, with from <=
	// time < to, oldest first. A zero time means no limit. A limit above 0 returns the newest
	// entries.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Entry, error)
	// Verify makes the decisions in the history again and compares them. The parameters are
	// those of History. Only one call runs at a time.
	Verify(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// Export writes the state as JSON Lines for [Import], optionally with the history.
	Export(ctx context.Context, to io.Writer, history bool) error
	// Losses returns the newest 10 losses, oldest first. The caller must not change them.
	Losses() []Loss
	// Close closes the store after the active commits.
	Close() error
}

// Snapshot is the state at start.
type Snapshot struct {
	// LastRound is the last completed round; zero in a new store.
	LastRound   time.Time
	Autoscalers map[string]Record
	// Pauses has at most one pause of each scope.
	Pauses []policy.Pause
	// Removals has the removals by fleet.
	Removals map[string]Removals
	// Clock is the last stored clock; zero if there is none.
	Clock clock.State
}

// Changes are the content of one commit.
type Changes struct {
	// Records are written by name.
	Records map[string]Record
	// Deleted are the names of removed autoscalers. Their history stays until its retention is
	// over.
	Deleted []string
	// Pauses are written by scope; nil removes a pause.
	Pauses map[policy.Scope]*policy.Pause
	// Removals are written by fleet; empty ones are removed.
	Removals map[string]Removals
	// LastRound is written unless it is zero.
	LastRound time.Time
	// Clock is written unless its Time is zero.
	Clock clock.State
	// Entries are added to the history.
	Entries []Entry
}

// RejectedError has the errors of rejected records by autoscaler. Records.Write returns it by
// key, before it writes any value.
type RejectedError map[string]error

func (e RejectedError) Error() string {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		return fmt.Sprintf("the state store rejects the record of %.100q: %v", name, e[name])
	}
	return "the state store rejects a record"
}

// Record is the stored state of one autoscaler.
type Record struct {
	Created time.Time `json:"created"`
	// Memory is the memory after the pass at Through.
	Memory policy.Memory `json:"memory"`
	Status policy.Status `json:"status"`
	// Through is the tick of the last pass in Memory.
	Through time.Time `json:"through"`
	// Replay describes later passes that are not in Memory; nil if there are none.
	Replay *Replay `json:"replay,omitempty"`
	// Intention is a write without a known outcome; nil if there is none.
	Intention *Intention `json:"intention,omitempty"`
	// Left is the count after the last pass; nil if unknown. A different count at the next
	// reading is a manual change.
	Left *int32 `json:"left,omitempty"`
	// Restore is a manual change to revert; nil if there is none.
	Restore *Restoration `json:"restore,omitempty"`
	// Seen are the counts of the last accepted reading of Target; nil if unknown. Doubts is the
	// number of suspect readings since then.
	Seen   *Counts `json:"seen,omitempty"`
	Doubts int32   `json:"doubts,omitempty"`
	// Bounds are the bounds of the last pass.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Hindrance is the problem at the last pass; nil if there was none.
	Hindrance *Hindrance `json:"hindrance,omitempty"`
	// Target is the target of Memory.
	Target targets.Ref `json:"target"`
	// Labels are the labels of the target that define the autoscaler; nil if it comes from the
	// configuration, or if the target is gone.
	Labels map[string]string `json:"labels,omitempty"`
	// Fingerprint identifies the configuration of Memory.
	Fingerprint string `json:"fingerprint"`
}

// Restoration is a count to restore and the bounds at the time of the change. It is dropped
// when the bounds change.
type Restoration struct {
	policy.Restoration
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Counts are the counts of one reading.
type Counts struct {
	// Spec is the desired count, Status the observed one, and Instances the number of listed
	// live instances.
	Spec      int32 `json:"spec"`
	Status    int32 `json:"status"`
	Instances int32 `json:"instances"`
}

// Bounds are the bounds of a count.
type Bounds struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Hindrance is a problem that prevents scaling, or a notice of the platform.
type Hindrance struct {
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
}

// Replay means that every pass after Record.Through, at each multiple of Period since the epoch
// up to the last completed round, recommended the same count.
type Replay struct {
	Replicas int32              `json:"replicas"`
	Period   time.Duration      `json:"period"`
	Rules    policy.WindowRules `json:"rules"`
}

// Intention is a write that is about to be made.
type Intention struct {
	policy.Intention
	// ID is the request ID for platforms that support one.
	ID string `json:"id"`
	// Version is the version of the target that was read.
	Version string `json:"version,omitempty"`
}

// Entry is one entry of the history: a decision and its result, or a change of the
// configuration.
type Entry struct {
	Autoscaler string          `json:"autoscaler"`
	Time       time.Time       `json:"time"`
	Decision   policy.Decision `json:"decision,omitzero"`
	// Reload is a change of the configuration; nil for a decision.
	Reload *settings.Reload `json:"reload,omitempty"`
	// Written is the count that was written; nil if there was no write.
	Written *int32         `json:"written,omitempty"`
	Events  []policy.Event `json:"events,omitempty"`
	// Victims are the removed instances that hpad chose.
	Victims []drain.Victim `json:"victims,omitempty"`
	Error   string         `json:"error,omitempty"`
	// Hold is the reason why the platform was not scaled; nil if it was, or if there was no
	// write.
	Hold   *policy.Hold `json:"hold,omitempty"`
	DryRun bool         `json:"dry_run,omitempty"`
	// Reason is the reason code of the pass; see docs/reasons.md.
	Reason string `json:"reason,omitempty"`
	// Since is when the current problem began; zero if there is none.
	Since time.Time `json:"since,omitzero"`
	// Unreported counts changes since the previous entry that have no entry of their own; nil if
	// there are none.
	Unreported *Unreported `json:"unreported,omitempty"`
	// Engine is the policy.Engine of the decision.
	Engine int `json:"engine,omitempty"`
	// Inputs are the inputs of the decision, for Verify. They must not be changed, and are nil
	// in the results of Store.History.
	Inputs *policy.Inputs `json:"-"`
}

// Unreported counts alternating causes that share one entry.
type Unreported struct {
	Changes int `json:"changes"`
	// From is the time of the first change.
	From time.Time `json:"from"`
}
