package sources

import (
	"context"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Kind is a kind of source, declared by its package as the variable Kind and listed
// in package daemon/kinds.
type Kind struct {
	// Name is what a source of the configuration has as its kind.
	Name string
	// Config returns the empty table of a source, a pointer to a struct with toml tags.
	Config func() Config
}

// Config is the table of one source, of one kind.
type Config interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate returns every mistake of a defaulted table, with paths relative to it.
	Validate() []settings.FieldError
	// Build makes the source of a valid table, with no effect outside of the process.
	Build(name string, env Env) (Source, error)
}

// Evaluator is a Config of a kind which scrapes, and evaluates queries itself.
type Evaluator interface {
	// Scrapes returns what is scraped, in the order of the table.
	Scrapes() []Scrape
	// ScrapeInterval returns the shortest interval in which a job is scraped of which
	// ofJob is true, or any job where there is none; 0 where nothing is scraped.
	ScrapeInterval(ofJob func(job string) bool) time.Duration
}

// Scrape is one entry of what an Evaluator scrapes.
type Scrape struct {
	// Field is the path of the entry in the source's table.
	Field string
	// Fleet and Target name a target; an empty Fleet means that the entry names
	// addresses instead.
	Fleet, Target string
}

// Env is what a source is lent by the daemon.
type Env struct {
	// StateDir is the daemon's; a source keeps its files below it.
	StateDir string
	// Clock is the daemon's; nil where there is no daemon.
	Clock *clock.Clock
	// Discover reads the instances of a target, for a source that scrapes them.
	Discover func(ctx context.Context, fleet, target string) (targets.Reading, error)
	// Answers bounds the memory that the results of all sources take together, Samples
	// the samples that all queries hold of sources which evaluate them here; nil bounds
	// nothing.
	Answers, Samples *Budget
}

// Source evaluates queries at one instant. It is safe for concurrent use. The Vector
// is of that instant and no other, each of its series has other labels, and it has
// at least the labels that the query names. It is Released once nobody reads it any
// more.
type Source interface {
	Query(ctx context.Context, query Query, at time.Time) (Vector, error)
}

// Lookbacker is a Source with a lookback of its own. Lookback returns the maximum age
// of a sample for queries without a MaxAge; 0 if it is unknown.
type Lookbacker interface {
	Lookback() time.Duration
}

// QueryError means that the source works, and the query cannot be used: its text has
// a mistake, or its result is nothing to decide on.
type QueryError struct{ Err error }

// Error returns the text of the source's own error.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the source's own error.
func (e *QueryError) Unwrap() error { return e.Err }
