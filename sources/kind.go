package sources

import (
	"context"
	"regexp"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Kind describes one kind of source. Its package declares it as a variable named Kind, and package
// daemon/kinds lists it.
type Kind struct {
	// Name is the value of the key "kind" in a source's table.
	Name string
	// Config returns an empty source table, a pointer to a struct with toml tags.
	Config func() Config
}

// Config is the table of one source.
type Config interface {
	// SetDefaults sets missing values to their defaults.
	SetDefaults()
	// Validate returns all errors of a table with defaults applied. Field paths are relative to
	// the table.
	Validate() []settings.FieldError
	// Build builds the source from a valid table. It has no effect outside of the process.
	Build(name string, env Env) (Source, error)
}

// Evaluator is a Config for a source that scrapes endpoints and evaluates queries itself.
type Evaluator interface {
	// Scrapes returns the entries of the scrape table in order.
	Scrapes() []Scrape
	// ScrapeInterval returns the shortest interval of the matching jobs, or of all jobs if no
	// job matches. It returns 0 if there are no jobs.
	ScrapeInterval(ofJob func(job string) bool) time.Duration
}

// Selector is a Config for a source whose queries select values from a document. The queries of all
// other sources are PromQL.
type Selector interface {
	// CheckQuery returns an error if a query, which may be empty, is invalid. Otherwise it returns
	// a PromQL selector for the warnings about targets: its metric name contains the words of the
	// query. It returns "" if the query has no words.
	CheckQuery(text string) (selector string, err error)
}

// notInName matches the characters that the name of a metric cannot contain.
var notInName = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// SelectorOf returns a PromQL selector whose metric name contains the words of a text.
func SelectorOf(words string) string { return "_" + notInName.ReplaceAllString(words, "_") }

// Scrape is one entry of an Evaluator's scrape table.
type Scrape struct {
	// Field is the path of the entry in the source's table.
	Field string
	// Fleet and Target name a target. Fleet is empty if the entry has addresses.
	Fleet, Target string
}

// Env contains the daemon's resources for a source.
type Env struct {
	// StateDir is the daemon's state directory. A source uses a subdirectory of it.
	StateDir string
	// Clock is the daemon's clock, or nil.
	Clock *clock.Clock
	// Discover reads the instances of a target, for a source that scrapes them.
	Discover func(ctx context.Context, fleet, target string) (targets.Reading, error)
	// Answers limits the memory of all results. Samples limits the samples of all queries that
	// sources evaluate themselves. nil means no limit.
	Answers, Samples *Budget
}

// Source evaluates queries at one instant; the zero instant is the current time. It is safe for
// concurrent use. The Vector is the result for exactly that instant. Its series are distinct and contain at least the labels that
// the query names. The caller must release the Vector after use.
type Source interface {
	Query(ctx context.Context, query Query, at time.Time) (Vector, error)
}

// Lookbacker is a Source with its own lookback. Lookback returns the maximum age of a sample
// for queries without a MaxAge, or 0 if it is unknown.
type Lookbacker interface {
	Lookback() time.Duration
}

// Ranger is a Source that can evaluate a query at many past instants with few requests.
type Ranger interface {
	// QueryRange calls visit with the result of a query at n instants, in order, from an instant on and
	// a step apart. Each Vector is the one that Query returns, except that the warnings of several
	// instants are combined. It is only valid during the call.
	QueryRange(ctx context.Context, query Query, from time.Time, step time.Duration, n int, visit func(at time.Time, v *Vector)) error
}

// QueryError is an error that the query itself causes: it is invalid, or its result cannot be
// used.
type QueryError struct{ Err error }

func (e *QueryError) Error() string { return e.Err.Error() }

func (e *QueryError) Unwrap() error { return e.Err }
