package daemon

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// fleetHandle is a fleet in use, with what the daemon keeps about it.
type fleetHandle struct {
	name   string
	kind   string
	config targets.Config
	// fleet is what is read and scaled: scaleIn where that is there, else the adapter.
	fleet targets.Fleet
	// adapter is what the kind made.
	adapter targets.Fleet
	// scaleIn chooses and drains instances; nil where the platform alone can choose.
	scaleIn *drain.Fleet
	// sampler and discoverer are nil when the fleet is none.
	sampler    targets.Sampler
	discoverer targets.Discoverer
	// snapshots, samples and discoveries bound the reads under way, writes the
	// writes, by concurrent_syncs.
	snapshots, samples, discoveries gate
	writes                          chan struct{}
	uses                            uses
	life                            life
	problem                         trouble.Problem
	// undiscovered is why targets cannot be discovered, unsampled why samples cannot
	// be read.
	undiscovered, unsampled trouble.Problem

	mu sync.Mutex
	// latest is the newest reading of each target that discovery has asked about.
	latest map[targets.Ref]targets.Reading
}

// sourceHandle is a source in use, with what the daemon keeps about it.
type sourceHandle struct {
	name    string
	kind    string
	config  sources.Config
	source  sources.Source
	queries gate
	uses    uses
	life    life
	problem trouble.Problem

	mu sync.Mutex
	// warned are the warnings that were logged, with their queries.
	warned map[string]bool
}

func newFleetHandle(c config.Fleet, adapter targets.Fleet, scaleIn *drain.Fleet, writes int) *fleetHandle {
	h := &fleetHandle{
		name: c.Name, kind: c.Kind, config: c.Config, fleet: adapter, adapter: adapter, scaleIn: scaleIn,
		snapshots: newGate(readsAtOnce), samples: newGate(readsAtOnce), discoveries: newGate(1),
		writes: make(chan struct{}, writes),
		life:   newLife(),
		latest: map[targets.Ref]targets.Reading{},
	}
	if scaleIn != nil {
		h.fleet = scaleIn
	}
	h.sampler, _ = adapter.(targets.Sampler)
	h.discoverer, _ = adapter.(targets.Discoverer)
	return h
}

func newSourceHandle(c config.Source, source sources.Source) *sourceHandle {
	return &sourceHandle{name: c.Name, kind: c.Kind, config: c.Config, source: source, queries: newGate(queriesAtOnce), life: newLife()}
}

// same says whether a configuration is the one the handle was built from.
func (h *fleetHandle) same(c config.Fleet) bool {
	return h.kind == c.Kind && reflect.DeepEqual(h.config, c.Config)
}

// same says whether a configuration is the one the handle was built from.
func (h *sourceHandle) same(c config.Source) bool {
	return h.kind == c.Kind && reflect.DeepEqual(h.config, c.Config)
}

// remember keeps the readings of a snapshot that discovery has asked about.
func (h *fleetHandle) remember(readings map[targets.Ref]targets.Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ref := range h.latest {
		if reading, ok := readings[ref]; ok && reading.Err == nil {
			h.latest[ref] = reading
		}
	}
}

// reading answers a reading of the target that is not older than age, from the
// rounds when they have one.
func (h *fleetHandle) reading(ctx context.Context, ref targets.Ref, age time.Duration) (targets.Reading, error) {
	h.mu.Lock()
	reading, ok := h.latest[ref]
	h.mu.Unlock()
	if ok && time.Since(reading.Observed) <= age {
		return reading, nil
	}
	var readings map[targets.Ref]targets.Reading
	err := trouble.Guard(func() (err error) {
		readings, err = h.fleet.Snapshot(ctx, []targets.Ref{ref})
		return err
	})
	if err != nil {
		return targets.Reading{}, err
	}
	reading = readings[ref]
	if reading.Err != nil {
		return targets.Reading{}, fmt.Errorf("read target %s: %w", ref, reading.Err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latest[ref] = reading
	return reading, nil
}

// uses counts who is using an adapter, so that one a reload replaced is closed
// when the last of them is through. The zero value is ready to use.
type uses struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count falls to 0 after release was asked for
}

func (u *uses) begin() {
	u.mu.Lock()
	u.count++
	u.mu.Unlock()
}

func (u *uses) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	if u.count == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// wait returns when nobody uses the adapter, or when ctx ends.
func (u *uses) wait(ctx context.Context) {
	u.mu.Lock()
	if u.count == 0 {
		u.mu.Unlock()
		return
	}
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// gate bounds the calls into an adapter that are under way at once, also those
// that an earlier round gave up waiting for.
type gate struct{ places chan struct{} }

func newGate(limit int) gate { return gate{places: make(chan struct{}, limit)} }

// run makes n calls as the gate admits them, and returns when each has been told
// of: by itself, or by expire once ctx has ended. It never waits for a call that
// does not heed its context; such a call keeps its place until it returns. Both
// do and expire may be called for the same i, in either order; the first one
// counts.
func (g gate) run(ctx context.Context, n int, do func(ctx context.Context, i int), expire func(i int, err error)) {
	var next atomic.Int32
	var running sync.WaitGroup
	finished := make(chan struct{})
	for range min(cap(g.places), n) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && g.enter(ctx); i = int(next.Add(1)) - 1 {
				do(ctx, i)
				<-g.places
			}
		})
	}
	go func() {
		running.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		grace := time.NewTimer(callGrace)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
		}
	}
	if ctx.Err() != nil {
		err := context.Cause(ctx)
		if hung := len(g.places); hung == cap(g.places) {
			err = fmt.Errorf("%d earlier calls have not returned yet: %w", hung, err)
		}
		for i := range n {
			expire(i, err)
		}
	}
}

// enter takes a place; false when ctx ended first.
func (g gate) enter(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case g.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// callGrace is how long a call may take to notice that its context has ended.
const callGrace = 50 * time.Millisecond

// closeAdapter closes what can be closed.
func closeAdapter(adapter any) error {
	closer, ok := adapter.(io.Closer)
	if !ok {
		return nil
	}
	return trouble.Guard(closer.Close)
}
