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

// Store keeps the state of a daemon. It is safe for concurrent use. Nothing
// outside of this package may assume that it is one file. All times in it are
// those of the daemon's own clock.
type Store interface {
	// Load returns everything that is known, with Memory brought up to the last
	// completed round. A value that cannot be used is a *DamagedError.
	Load(ctx context.Context) (Snapshot, error)
	// Commit writes all changes or none; once it returns nil a crash loses none
	// of them. Commits that are under way together share one transaction. A record
	// that the store does not accept is left out: the error is then a RejectedError,
	// and all other changes are written.
	Commit(ctx context.Context, changes Changes) error
	// Fleet returns the small store of the fleet of that name.
	Fleet(name string) targets.Store
	// History returns an autoscaler's entries, or with an empty name those of all,
	// from one time up to, and not with, another, oldest first; a zero time is no
	// bound. A limit above 0 keeps the newest ones.
	History(ctx context.Context, name string, from, to time.Time, limit int) ([]Entry, error)
	// Verify makes the decisions of history again, of an autoscaler or with an empty
	// name of all, from one time up to, and not with, another, and compares them with
	// those recorded. One call is at work at a time; the others wait.
	Verify(ctx context.Context, name string, from, to time.Time) (Verification, error)
	// Export writes everything as JSON Lines, and with history the history of decisions as
	// well, for [Import]. What is committed meanwhile is not in it.
	Export(ctx context.Context, to io.Writer, history bool) error
	// Losses returns what was lost of the state, now or at earlier starts, oldest
	// first: the newest 10. The caller must not change it.
	Losses() []Loss
	// Close ends the store after the commits under way.
	Close() error
}

// Snapshot is everything that is known at start.
type Snapshot struct {
	// LastRound is the last completed round; zero in a new store.
	LastRound   time.Time
	Autoscalers map[string]Record
	// Pauses has at most one of each scope, with times by the daemon's own clock.
	Pauses []policy.Pause
	// Removals are by the names of fleets.
	Removals map[string]Removals
	// Clock is what the last run's clock left behind; zero where that had none.
	Clock clock.State
}

// Changes are what one commit writes.
type Changes struct {
	// Records replace those of the same name.
	Records map[string]Record
	// Deleted are the names of autoscalers that are gone: their records go, their
	// history stays until its retention is over.
	Deleted []string
	// Pauses replace those of the same scope; nil ones end it.
	Pauses map[policy.Scope]*policy.Pause
	// Removals replace those of the same fleet; empty ones end.
	Removals map[string]Removals
	// LastRound becomes the last completed round when not zero.
	LastRound time.Time
	// Clock replaces what is kept of the daemon's clock, unless its Time is zero.
	Clock clock.State
	// Entries are added to the history.
	Entries []Entry
}

// RejectedError has the errors of records that a store rejects, mostly because of their size,
// by autoscaler. Records.Write returns it by key, before it writes any value.
type RejectedError map[string]error

// Error names the first record and the cause.
func (e RejectedError) Error() string {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		return fmt.Sprintf("the state store does not accept the record of %.100q: %v", name, e[name])
	}
	return "the state store does not accept a record"
}

// Record is what is kept of one autoscaler.
type Record struct {
	// Created is when the autoscaler was first seen.
	Created time.Time `json:"created"`
	// Memory is as it was after the pass at Through.
	Memory policy.Memory `json:"memory"`
	Status policy.Status `json:"status"`
	// Through is the tick of the last pass that Memory includes.
	Through time.Time `json:"through"`
	// Replay is what later passes did to Memory that were not written because
	// each did the same; nil when nothing may be assumed.
	Replay *Replay `json:"replay,omitempty"`
	// Intention is a write whose outcome is not known; nil when there is none.
	Intention *Intention `json:"intention,omitempty"`
	// Left is the count that the pass left the target with; nil when it is not
	// known. Another one at the next reading is somebody else's.
	Left *int32 `json:"left,omitempty"`
	// Restore is a count that somebody else changed and that is to be put back; nil
	// when there is none.
	Restore *Restoration `json:"restore,omitempty"`
	// Seen are the counts of the last reading of Target that was believed; nil when
	// none is known, as without a guard. Doubts is how many readings in a row were
	// not believed since.
	Seen   *Counts `json:"seen,omitempty"`
	Doubts int32   `json:"doubts,omitempty"`
	// Bounds are min and max of that pass; nil in records of earlier versions.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Hindrance is what was wrong then; nil when nothing was.
	Hindrance *Hindrance `json:"hindrance,omitempty"`
	// Target is the target that Memory is about.
	Target targets.Ref `json:"target"`
	// Labels are those by which Target asked for the autoscaler; nil for one of the
	// configuration, and for one whose target is gone.
	Labels map[string]string `json:"labels,omitempty"`
	// Fingerprint is that of the configuration that Memory grew under.
	Fingerprint string `json:"fingerprint"`
}

// Restoration is a count to put back, and the bounds of the autoscaler when it was
// changed: under others it is not put back.
type Restoration struct {
	policy.Restoration
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Counts are those of one reading.
type Counts struct {
	// Spec is the wanted count, Status the observed one, Instances how many
	// instances were listed that live.
	Spec      int32 `json:"spec"`
	Status    int32 `json:"status"`
	Instances int32 `json:"instances"`
}

// Bounds are those of an autoscaler's count.
type Bounds struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Hindrance is what keeps an autoscaler from its work, or what its platform says
// besides.
type Hindrance struct {
	// Cause identifies it, Since is when it began.
	Cause string    `json:"cause"`
	Since time.Time `json:"since"`
}

// Replay is that every pass after Record.Through recommended the same count,
// at each multiple of Period since the epoch up to the last completed round.
type Replay struct {
	Replicas int32              `json:"replicas"`
	Period   time.Duration      `json:"period"`
	Rules    policy.WindowRules `json:"rules"`
}

// Intention is a write that was about to be made.
type Intention struct {
	policy.Intention
	// ID names the write towards platforms that know request ids.
	ID string `json:"id"`
	// Version is what the target was read at.
	Version string `json:"version,omitempty"`
}

// Entry is one line of history: a decision worth keeping and what became of it, or a
// change of the configuration.
type Entry struct {
	Autoscaler string          `json:"autoscaler"`
	Time       time.Time       `json:"time"`
	Decision   policy.Decision `json:"decision,omitzero"`
	// Reload is a change of the configuration; nil for a decision.
	Reload *settings.Reload `json:"reload,omitempty"`
	// Written is the count that was written; nil when nothing was.
	Written *int32         `json:"written,omitempty"`
	Events  []policy.Event `json:"events,omitempty"`
	// Victims are those that the decision took, as far as hpad chose them.
	Victims []drain.Victim `json:"victims,omitempty"`
	Error   string         `json:"error,omitempty"`
	// Hold is why the platform did not take the count; nil when it was not asked, or
	// took it, and in entries of earlier versions.
	Hold *policy.Hold `json:"hold,omitempty"`
	// DryRun reports whether no count was to be written.
	DryRun bool `json:"dry_run,omitempty"`
	// Reason is the one word that the pass ended with, of docs/reasons.md; empty in
	// entries of earlier versions.
	Reason string `json:"reason,omitempty"`
	// Since is when what hinders the autoscaler began; zero when nothing does.
	Since time.Time `json:"since,omitzero"`
	// Untold are changes of that which have no entry of their own, between the entry
	// before and this one; nil when there were none.
	Untold *Untold `json:"untold,omitempty"`
	// Engine is the policy.Engine that decided.
	Engine int `json:"engine,omitempty"`
	// Inputs are those of the decision, for Verify. They are not changed after the decision,
	// and nil in entries of Store.History.
	Inputs *policy.Inputs `json:"-"`
}

// Untold counts changes that have one entry together, because causes took turns.
type Untold struct {
	Changes int `json:"changes"`
	// From is the first of them.
	From time.Time `json:"from"`
}
