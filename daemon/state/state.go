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

// Store stores the state of a daemon. It is safe for concurrent use. All times are monotonic times
// (see package clock).
type Store interface {
	// Load returns the stored state, with each Memory as of the last completed round. The error
	// is a *damagedError if a value is invalid.
	Load(ctx context.Context) (Snapshot, error)
	// Commit durably writes all changes or none. If some records are invalid, Commit writes all
	// other changes and returns a RejectedError. If it cannot write the history, it writes all
	// other changes and returns a *HistoryError. An error can contain both.
	Commit(ctx context.Context, changes Changes) error
	// Fleet returns the small store that belongs to a fleet.
	Fleet(name string) targets.Store
	// History returns the entries of an autoscaler with from <= time < to, oldest first. An empty
	// name selects all autoscalers. A zero time means no bound. If limit is positive, History
	// returns only the newest limit entries.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Entry, error)
	// Verify recomputes the decisions in the history and compares the results. It has the same
	// parameters as History. Only one call runs at a time.
	Verify(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// Export writes the state as JSON Lines for [Import], optionally with the history.
	Export(ctx context.Context, to io.Writer, history bool) error
	// Losses returns the newest 10 losses, oldest first. The caller must not change them.
	Losses() []Loss
	// Close waits for the commits in progress and closes the store.
	Close() error
}

// Snapshot is the state that a daemon loads at startup.
type Snapshot struct {
	// LastRound is the time of the last completed round, or zero in a new store.
	LastRound   time.Time
	Autoscalers map[string]Record
	// Pauses contains at most one pause per scope.
	Pauses []policy.Pause
	// Removals maps fleets to their recent removals.
	Removals map[string]Removals
	// Clock is the last stored clock; zero in a new store.
	Clock clock.State
}

// Changes is the content of one commit.
type Changes struct {
	// Records maps autoscaler names to the records to write.
	Records map[string]Record
	// Deleted lists the names of removed autoscalers. Their history is retained until it expires.
	Deleted []string
	// Pauses maps scopes to the pauses to write. A nil value removes the pause.
	Pauses map[policy.Scope]*policy.Pause
	// Removals maps fleets to the removals to write. An empty value deletes the stored one.
	Removals map[string]Removals
	// LastRound is written unless it is zero.
	LastRound time.Time
	// Clock is written unless its Time is zero.
	Clock clock.State
	// Entries are added to the history.
	Entries []Entry
}

// RejectedError maps the names of autoscalers to the reasons why their records were rejected. If
// Records.Write returns it, it maps keys instead of names, and no value was written.
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
	// Memory is the autoscaler's memory after the pass at Through.
	Memory policy.Memory `json:"memory"`
	Status policy.Status `json:"status"`
	// Through is the tick of the last pass in Memory.
	Through time.Time `json:"through"`
	// Replay describes later passes that are not included in Memory; nil if there are
	// no such passes.
	Replay *Replay `json:"replay,omitempty"`
	// Intention is the write whose outcome is not known yet, or nil. It is set before each write
	// and cleared when the outcome is known.
	Intention *policy.Intention `json:"intention,omitempty"`
	// ExpectedReplicas is the count after the last pass, or nil if unknown. If the next reading has
	// a different count, an external writer changed it.
	ExpectedReplicas *int32 `json:"left,omitempty"`
	// NeverStarted reports whether every accepted reading of Target had 0 replicas, and no operator
	// has set the count. It is false in records of older versions.
	NeverStarted bool `json:"never_started,omitempty"`
	// Restore is a manual change to revert, or nil.
	Restore *policy.PendingRestoration `json:"restore,omitempty"`
	// LastCounts contains the counts from the last accepted reading of Target, or nil if unknown.
	// ImplausibleReadings is the number of suspect readings since then.
	LastCounts          *Counts `json:"seen,omitempty"`
	ImplausibleReadings int32   `json:"doubts,omitempty"`
	// Bounds applied in the last pass.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Obstacle is the problem that the last pass found, or nil.
	Obstacle *Obstacle `json:"hindrance,omitempty"`
	// Target identifies the fleet's object that Memory belongs to.
	Target targets.Ref `json:"target"`
	// Labels contains the target's labels that define the autoscaler. It is nil if the
	// configuration defines the autoscaler, or if the target no longer exists.
	Labels map[string]string `json:"labels,omitempty"`
	// Fingerprint identifies the configuration that Memory belongs to.
	Fingerprint string `json:"fingerprint"`
	// Digest is a hash of each part of the written configuration that the last pass used, or empty
	// in records of older versions. See [config.Config.Digests].
	Digest string `json:"digest,omitempty"`
}

// Counts comes from one reading of a target.
type Counts struct {
	// Spec is the desired count, Status is the observed count, and Instances is the number of
	// live instances in the list.
	Spec      int32 `json:"spec"`
	Status    int32 `json:"status"`
	Instances int32 `json:"instances"`
}

// Bounds limits the count of a target.
type Bounds struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Obstacle is a problem that prevents scaling, or a notice of the platform.
type Obstacle struct {
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
}

// Replay means that every pass after Record.Through, at each multiple of Period since the epoch
// up to the last completed round, recommended the same count.
type Replay struct {
	Replicas int32 `json:"replicas"`
	// Held is the field of policy.Recommendation.
	Held   bool               `json:"held,omitempty"`
	Period time.Duration      `json:"period"`
	Rules  policy.WindowRules `json:"rules"`
}

// Entry is one entry in the history: a decision and its result, or a change to the configuration.
type Entry struct {
	Autoscaler string          `json:"autoscaler"`
	Time       time.Time       `json:"time"`
	Decision   policy.Decision `json:"decision,omitzero"`
	// Reload is a change to the configuration, or nil for a decision.
	Reload *settings.Reload `json:"reload,omitempty"`
	// Written is the count that was written, or nil if there was no write.
	Written *int32         `json:"written,omitempty"`
	Events  []policy.Event `json:"events,omitempty"`
	// Victims lists the removed instances if hpad chose them.
	Victims []drain.Victim `json:"victims,omitempty"`
	Error   string         `json:"error,omitempty"`
	// Hold is the platform's reason for not accepting the write; nil if the write was accepted or
	// there was no write.
	Hold   *policy.Hold `json:"hold,omitempty"`
	DryRun bool         `json:"dry_run,omitempty"`
	// Reason is a code from docs/reasons.md that explains the pass.
	Reason string `json:"reason,omitempty"`
	// Since is the start time of the current problem, or zero without a problem.
	Since time.Time `json:"since,omitzero"`
	// Unreported counts the changes since the previous entry that have no entry of their own. It is
	// nil if there are none.
	Unreported *Unreported `json:"unreported,omitempty"`
	// Engine is the value of policy.Engine in the version of hpad that made the decision.
	Engine int `json:"engine,omitempty"`
	// Inputs contains everything that the decision depends on, for Verify. It must not be modified,
	// and it is nil in the results of Store.History.
	Inputs *policy.Inputs `json:"-"`
}

// Unreported counts alternating causes that share one entry.
type Unreported struct {
	Changes int `json:"changes"`
	// From is the time of the first change.
	From time.Time `json:"from"`
}
