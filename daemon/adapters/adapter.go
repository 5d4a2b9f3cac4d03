package adapters

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Adapter is what fleets and sources in use have in common.
type Adapter struct {
	Name, Kind string
	// Problem is why it cannot be started or read; empty while it can.
	Problem trouble.Problem
	Uses    Uses

	// what is "fleet" or "source", table its configuration.
	what  string
	table any
	// built is what is started and closed.
	built any
	// begun is closed once it has started, or will not be any more, and over when a
	// reload replaced it: reloads in quick succession do with each adapter one thing
	// after the other.
	begun, over chan struct{}
}

func (a *Adapter) own() *Adapter { return a }

// Subject returns what the adapter is called in messages.
func (a *Adapter) Subject() string { return a.what + " " + a.Name }

// same reports whether the adapter was built from such a table.
func (a *Adapter) same(kind string, table any) bool {
	return a.Kind == kind && reflect.DeepEqual(a.table, table)
}

func newAdapter(what, name, kind string, table, built any) Adapter {
	return Adapter{Name: name, Kind: kind, what: what, table: table, built: built, begun: make(chan struct{}), over: make(chan struct{})}
}

// ReadsAtOnce bounds the reads of one sort under way at one fleet: a round makes
// one, a round out of turn may make another, and some may hang.
const ReadsAtOnce = 4

// QueriesAtOnce bounds the queries under way at one source; a source may have a
// lower bound of its own.
const QueriesAtOnce = 64

// Fleet is a fleet in use.
type Fleet struct {
	Adapter
	// Fleet is what is read and scaled: ScaleIn where that is there, else Inner.
	targets.Fleet
	// Inner is what the kind built.
	Inner targets.Fleet
	// ScaleIn chooses and drains instances; nil where the platform alone can choose.
	ScaleIn *drain.Fleet
	// Sampler and Discoverer are nil where the fleet is none.
	Sampler    targets.Sampler
	Discoverer targets.Discoverer
	// Timeout is the fleet's own limit of a call, which a read of its targets gets at
	// least; 0 where its kind has none.
	Timeout time.Duration
	// Snapshots, Samples and Discoveries bound the reads under way, Writes the writes,
	// by concurrent_syncs.
	Snapshots            Reads
	Samples, Discoveries Gate
	Writes               chan struct{}
	// Undiscovered is why targets cannot be discovered, Unsampled why samples cannot
	// be read.
	Undiscovered, Unsampled trouble.Problem

	mu sync.Mutex
	// latest is the newest reading of each target that Read was called for.
	latest map[targets.Ref]targets.Reading
}

func newFleet(c config.Fleet, inner targets.Fleet, scaleIn *drain.Fleet, writes int) *Fleet {
	f := &Fleet{
		Fleet: inner, Inner: inner, ScaleIn: scaleIn,
		Snapshots: Reads{Gate: newGate(ReadsAtOnce)}, Samples: newGate(ReadsAtOnce), Discoveries: newGate(1),
		Writes: make(chan struct{}, writes),
		latest: map[targets.Ref]targets.Reading{},
	}
	if scaleIn != nil {
		f.Fleet = scaleIn
	}
	if limited, ok := c.Config.(targets.Limited); ok {
		f.Timeout = limited.CallTimeout()
	}
	f.Sampler, _ = inner.(targets.Sampler)
	f.Discoverer, _ = inner.(targets.Discoverer)
	f.Adapter = newAdapter("fleet", c.Name, c.Kind, c.Config, f.Fleet)
	return f
}

// Keep keeps the readings of a snapshot of targets that Read was called for.
func (f *Fleet) Keep(readings map[targets.Ref]targets.Reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref := range f.latest {
		if reading, ok := readings[ref]; ok && reading.Err == nil {
			f.latest[ref] = reading
		}
	}
}

// Read returns a reading of the target that is not older than age, a kept one where
// there is one.
func (f *Fleet) Read(ctx context.Context, ref targets.Ref, age time.Duration) (targets.Reading, error) {
	f.mu.Lock()
	reading, ok := f.latest[ref]
	f.mu.Unlock()
	if ok && time.Since(reading.Observed) <= age {
		return reading, nil
	}
	var readings map[targets.Ref]targets.Reading
	err := trouble.Guard(func() (err error) {
		readings, err = f.Snapshot(ctx, []targets.Ref{ref})
		return err
	})
	if err != nil {
		return targets.Reading{}, err
	}
	reading = readings[ref]
	if reading.Err != nil {
		return targets.Reading{}, fmt.Errorf("read target %s: %w", ref, reading.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest[ref] = reading
	return reading, nil
}

// Source is a source in use.
type Source struct {
	Adapter
	sources.Source
	// Queries bounds the queries under way.
	Queries Gate

	mu sync.Mutex
	// warned are the warnings that were logged, with their queries.
	warned map[string]bool

	absences absences
	ages     ages
}

func newSource(c config.Source, source sources.Source) *Source {
	return &Source{
		Adapter: newAdapter("source", c.Name, c.Kind, c.Config, source), Source: source, Queries: newGate(QueriesAtOnce),
		absences: absences{gate: newGate(1), known: map[string]absence{}},
		ages:     ages{gate: newGate(1), known: map[string]sampleAge{}},
	}
}

// keptWarnings bounds how many warnings of a source are told apart.
const keptWarnings = 1000

// NewWarnings returns those of the warnings that came with an answer to a query which
// did not come with one before.
func (s *Source) NewWarnings(query string, warnings []string) []string {
	if len(warnings) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []string
	for _, warning := range warnings {
		key := query + "\xff" + warning
		if s.warned[key] || len(s.warned) >= keptWarnings {
			continue
		}
		if s.warned == nil {
			s.warned = map[string]bool{}
		}
		s.warned[key] = true
		fresh = append(fresh, warning)
	}
	return fresh
}

// Close closes what can be closed.
func Close(adapter any) error {
	closer, ok := adapter.(io.Closer)
	if !ok {
		return nil
	}
	return trouble.Guard(closer.Close)
}
