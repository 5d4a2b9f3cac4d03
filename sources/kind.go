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
