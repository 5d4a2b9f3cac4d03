// Package fleettest implements "hpad fleet-test": it runs the cases of package contract against an
// adapter and targets on its real platform.
package fleettest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/contract"
)

// Options selects an adapter, its targets and the tests.
type Options struct {
	// Build returns a fleet with a name and the adapter, which uses the store.
	Build func(name string, store targets.Store) (*adapter.Fleet, error)
	// Targets are the names of the targets, which are scaled together. At least one.
	Targets []string
	// Min and Max are the lowest and the highest count. If Max is 0, the run changes nothing.
	Min, Max int32
	// Only selects cases by name; nil selects all.
	Only *regexp.Regexp
	// Patience limits the time until the platform follows a change. Interval is the time between two
	// readings during that time.
	Patience, Interval time.Duration
}

// The outcomes of a case.
const (
	Kept    = "kept"
	Broken  = "broken"
	Skipped = "skipped"
)

// Result is the outcome of one case.
type Result struct {
	Promise string `json:"promise"`
	Outcome string `json:"outcome"`
	// Details are the violations, or the reason why the case was skipped.
	Details []string `json:"details,omitempty"`
}

// missing is the name of a target that does not exist.
const missing = "hpad-fleet-test-missing"

// notOfAdapters maps cases that test hpad itself, or that need many changes, to true.
var notOfAdapters = map[string]bool{
	"rejects a negative count": true, "is safe for concurrent use": true, "respects a canceled context": true,
}

// Runner runs the cases. It is not safe for concurrent use.
type Runner struct {
	options Options
	store   contract.Store
	// fleet prepares the cases, and is their external writer.
	fleet *adapter.Fleet
	refs  []targets.Ref
	// counts are the counts at the start.
	counts []int32
	kind   contract.Kind[*attempt]
}

// fleetName is the name of the fleet in references and messages.
const fleetName = "test"

// Open connects to the adapter and reads the targets.
func Open(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{options: o, kind: contract.Kind[*attempt]{Patience: o.Patience, Interval: o.Interval}}
	for _, name := range o.Targets {
		r.refs = append(r.refs, targets.Ref{Fleet: fleetName, Name: name})
	}
	var err error
	if r.fleet, err = o.Build(fleetName, &r.store); err != nil {
		return nil, err
	}
	described, err := r.fleet.Description(ctx)
	var readings map[targets.Ref]targets.Reading
	if err == nil {
		readings, err = r.fleet.Snapshot(ctx, r.refs)
	}
	for _, ref := range r.refs {
		reading := readings[ref]
		err = cmp.Or(err, reading.Err)
		r.counts, r.kind.Bare = append(r.counts, reading.SpecReplicas), r.kind.Bare || reading.Locations == nil
		if err == nil && o.Max > 0 && (reading.SpecReplicas < o.Min || reading.SpecReplicas > o.Max) {
			err = fmt.Errorf("target %q has the count %d, which is outside of the bounds %d-%d", ref.Name, reading.SpecReplicas, o.Min, o.Max)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.fleet.Close())
	}
	r.kind.Samples, r.kind.Removes = slices.Contains(described.Calls, adapter.Samples), slices.Contains(described.Calls, adapter.Remove)
	return r, nil
}

// Close closes the fleet.
func (r *Runner) Close() error { return r.fleet.Close() }

// Counts returns the counts of the targets at the start.
func (r *Runner) Counts() []int32 { return r.counts }

// Run runs all cases, reports each result, and restores the counts. An error means that the run could
// not be completed.
func (r *Runner) Run(ctx context.Context, report func(Result)) error {
	for _, c := range contract.Cases[*attempt]() {
		if notOfAdapters[c.Name] || r.options.Only != nil && !r.options.Only.MatchString(c.Name) {
			continue
		}
		if result := r.try(ctx, &c); result != nil {
			report(*result)
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, r.restore(context.WithoutCancel(ctx)))
		}
	}
	return r.restore(ctx)
}

// restore sets the counts of the start.
func (r *Runner) restore(ctx context.Context) error {
	if r.options.Max == 0 {
		return nil
	}
	return r.set(ctx, r.counts)
}

// set sets counts like an external writer.
func (r *Runner) set(ctx context.Context, counts []int32) error {
	for i, count := range counts {
		if err := r.fleet.SetReplicas(ctx, r.refs[i], count, "", "hpad fleet-test"); err != nil {
			return err
		}
	}
	return nil
}

// try runs one case. It returns nil for a case that cannot be tried with adapters.
func (r *Runner) try(ctx context.Context, c *contract.Case[*attempt]) *Result {
	a := &attempt{ctx: ctx}
	counts := c.Counts[:min(len(c.Counts), len(r.refs))]
	platform := r.platform(counts)
	switch {
	case !c.Possible(r.kind, platform):
		return nil
	case r.options.Max == 0 && !c.ReadOnly:
		return &Result{c.Name, Skipped, []string{"it changes the target; set --bounds"}}
	case r.options.Max == 0:
		platform.Counts = r.counts[:len(counts)]
	default:
		for _, count := range counts {
			if count < r.options.Min || count > r.options.Max {
				return &Result{c.Name, Skipped, []string{needs(count)}}
			}
		}
	}
	done := make(chan struct{})
	guard.Go(func() {
		defer close(done)
		defer a.cleanUp()
		if platform.Counts == nil {
			if err := r.set(ctx, counts); err != nil {
				a.Fatalf("cannot set the initial counts: %v", err)
			}
		}
		if err := guard.Call(func() error { c.Run(a, r.kind, platform); return nil }); err != nil {
			a.Error(err)
		}
	})
	<-done
	return a.result(c.Name)
}

func needs(count int32) string { return fmt.Sprintf("it needs the count %d", count) }

// platform returns the targets with the hooks that are possible on any platform.
func (r *Runner) platform(counts []int32) *contract.Platform[*attempt] {
	var rival func()
	return &contract.Platform[*attempt]{
		Refs: r.refs[:len(counts)], Missing: targets.Ref{Fleet: fleetName, Name: missing}, Survive: true,
		Open: func(a *attempt) targets.Fleet {
			fleet, err := r.options.Build(fleetName, &r.store)
			if err != nil {
				a.Fatal(err)
			}
			return &bounded{Fleet: fleet, attempt: a, options: &r.options, rival: &rival}
		},
		SetCount: func(a *attempt, ref targets.Ref, n int32) {
			a.within(&r.options, n)
			if err := r.fleet.SetReplicas(a.ctx, ref, n, "", "hpad fleet-test"); err != nil {
				a.Fatalf("an external write of the count %d: %v", n, err)
			}
		},
		Rival: func(_ *attempt, _ targets.Ref, act func()) { rival = act },
	}
}

// bounded is a fleet that ends a case before it sets a count outside of the bounds.
type bounded struct {
	*adapter.Fleet
	attempt *attempt
	options *Options
	// rival acts once, directly before the next write.
	rival *func()
}

// SetReplicas sets a count within the bounds.
func (b *bounded) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	b.attempt.within(b.options, n)
	if act := *b.rival; act != nil {
		*b.rival = nil
		act()
	}
	return b.Fleet.SetReplicas(ctx, ref, n, version, reason)
}

// Remove removes instances if the count remains within the bounds.
func (b *bounded) Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error {
	readings, err := b.Snapshot(ctx, []targets.Ref{ref})
	if err != nil {
		return err
	}
	b.attempt.within(b.options, readings[ref].SpecReplicas-int32(len(ids)))
	return b.Fleet.Remove(ctx, ref, ids, version, reason)
}
