package adapters

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Adapter contains the common fields of fleets and sources.
type Adapter struct {
	Name, Kind string
	// Problem is the last error when the adapter started or was read.
	Problem problem.Problem
	Uses    UseCount

	// what is "fleet" or "source". table is the adapter's configuration.
	what  string
	table any
	built any
	// begun is closed when the adapter has started or its start is abandoned. over is closed when a
	// reload replaces the adapter. Reloads in quick succession use both channels to start and close
	// adapters in order.
	begun, over chan struct{}
}

func (a *Adapter) own() *Adapter { return a }

// subject returns the adapter's name for messages, such as "fleet web".
func (a *Adapter) subject() string { return a.what + " " + a.Name }

// Started reports whether the adapter has started.
func (a *Adapter) Started() bool {
	select {
	case <-a.begun:
		return true
	default:
		return false
	}
}

// same reports whether the adapter was built from the same kind and an equal table.
func (a *Adapter) same(kind string, table any) bool {
	return a.Kind == kind && reflect.DeepEqual(a.table, table)
}

func newAdapter(what, name, kind string, table, built any) Adapter {
	return Adapter{Name: name, Kind: kind, what: what, table: table, built: built, begun: make(chan struct{}), over: make(chan struct{})}
}

// ReadsAtOnce is the maximum number of concurrent reads of one kind per fleet. A round and an extra
// round between ticks need one read each, and earlier reads can hang.
const ReadsAtOnce = 4

// queriesAtOnce is the maximum number of concurrent queries per source. A source can set a lower
// limit.
const queriesAtOnce = 64

// Fleet is an active fleet.
type Fleet struct {
	Adapter
	// Fleet is ScaleIn, or Inner if ScaleIn is nil.
	targets.Fleet
	// Inner is the fleet that its configuration built.
	Inner targets.Fleet
	// ScaleIn chooses and drains instances. It is nil if only the platform can choose.
	ScaleIn *drain.Fleet
	// Sampler and Discoverer are nil if the fleet does not implement them.
	Sampler    targets.Sampler
	Discoverer targets.Discoverer
	// Timeout is the minimum timeout that the fleet requires for a read; 0 means no requirement.
	Timeout time.Duration
	// Snapshots, Samples and Discoveries limit concurrent reads. Writes limits concurrent writes to
	// concurrent_syncs, or to a higher limit of the platform.
	Snapshots            reads
	Samples, Discoveries Gate
	Writes               chan struct{}
	// Undiscovered is the error of discovering targets. Unsampled is the error of reading samples.
	Undiscovered, Unsampled problem.Problem

	mu sync.Mutex
	// latest contains the newest reading of each target for which Read was called.
	latest map[targets.Ref]targets.Reading
}

func newFleet(c config.Fleet, inner targets.Fleet, scaleIn *drain.Fleet, writes int) *Fleet {
	if limiter, ok := c.Config.(targets.WriteLimiter); ok {
		writes = max(writes, limiter.ConcurrentWrites())
	}
	f := &Fleet{
		Fleet: inner, Inner: inner, ScaleIn: scaleIn,
		Snapshots: reads{Gate: newGate(ReadsAtOnce)}, Samples: newGate(ReadsAtOnce), Discoveries: newGate(1),
		Writes: make(chan struct{}, writes),
		latest: map[targets.Ref]targets.Reading{},
	}
	if scaleIn != nil {
		f.Fleet = scaleIn
	}
	if limited, ok := c.Config.(targets.CallTimeouter); ok {
		f.Timeout = limited.CallTimeout()
	}
	f.Sampler, _ = inner.(targets.Sampler)
	f.Discoverer, _ = inner.(targets.Discoverer)
	f.Adapter = newAdapter("fleet", c.Name, c.Kind, c.Config, f.Fleet)
	return f
}

// Keep stores the readings of targets for which Read was called.
func (f *Fleet) Keep(readings map[targets.Ref]targets.Reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref := range f.latest {
		if reading, ok := readings[ref]; ok && reading.Err == nil {
			f.latest[ref] = reading
		}
	}
}

// Read returns a reading of the target that is at most age old. It uses a stored reading if
// possible.
func (f *Fleet) Read(ctx context.Context, ref targets.Ref, age time.Duration) (targets.Reading, error) {
	f.mu.Lock()
	reading, ok := f.latest[ref]
	f.mu.Unlock()
	if ok && time.Since(reading.Observed) <= age {
		return reading, nil
	}
	var readings map[targets.Ref]targets.Reading
	err := guard.Call(func() (err error) {
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

// Source is an active source.
type Source struct {
	Adapter
	sources.Source
	// Queries limits concurrent queries. diagnoses and measurements each allow one additional query
	// at a time, for absences and ages.
	Queries, diagnoses, measurements Gate

	mu sync.Mutex
	// warned is the set of logged warnings, each with its query. absences maps queries to the
	// causes of missing results, and ages maps queries to the ages of the newest samples.
	warned   map[string]bool
	absences map[string]absence
	ages     map[string]sampleAge
}

func newSource(c config.Source, source sources.Source) *Source {
	return &Source{
		Adapter: newAdapter("source", c.Name, c.Kind, c.Config, source), Source: source,
		Queries: newGate(queriesAtOnce), diagnoses: newGate(1), measurements: newGate(1),
		warned: map[string]bool{}, absences: map[string]absence{}, ages: map[string]sampleAge{},
	}
}

// keptWarnings is the maximum number of distinct warnings stored per source.
const keptWarnings = 1000

// NewWarnings returns the warnings of a query that no earlier call returned.
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
		s.warned[key] = true
		fresh = append(fresh, warning)
	}
	return fresh
}

// Close closes an adapter if it is an io.Closer.
func Close(adapter any) error {
	closer, ok := adapter.(io.Closer)
	if !ok {
		return nil
	}
	return guard.Call(closer.Close)
}
