package daemon

import (
	"context"
	"io"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/cloud"
)

// Kinds are the kinds of fleets and sources that a configuration may name, each
// with its constructor. Constructing has no effect outside of the process.
type Kinds struct {
	Fleets  map[string]func(config.Fleet, FleetEnv) (targets.Fleet, error)
	Sources map[string]func(config.Source, SourceEnv) (sources.Source, error)
}

// FleetEnv is what the daemon lends a fleet.
type FleetEnv struct {
	// Store is the fleet's own small store.
	Store targets.Store
	// Earlier returns the count that a target of that name had before the state was
	// lost, for kinds that keep counts in Store; false where nothing was lost, or
	// nothing else is known of the count.
	Earlier func(target string) (int32, bool)
	// Meter counts the fleet's calls to a platform that limits them.
	Meter targets.Meter
	// Accounts are those of platforms that limit their callers, which all fleets of the
	// process share.
	Accounts *cloud.Accounts
	// Output answers where the output of an instance that the fleet itself runs
	// goes.
	Output func(service, instance string) io.Writer
	// Now is the daemon's clock, which nobody sets, also across restarts.
	Now func() time.Time
	// DryRun says that the fleet is to change nothing of its own accord.
	DryRun bool
}

// SourceEnv is what the daemon lends a source.
type SourceEnv struct {
	// StateDir is the daemon's; a source keeps its files below it.
	StateDir string
	// Clock is the daemon's; nil where there is no daemon.
	Clock *clock.Clock
	// Discover answers the instances of a target, for a source that scrapes them.
	Discover func(ctx context.Context, fleet, target string) (targets.Reading, error)
	// Answers bounds the memory that the answers of all sources take together, Samples
	// the samples that all queries hold of sources which evaluate them here; nil bounds
	// nothing.
	Answers, Samples *sources.Budget
}
