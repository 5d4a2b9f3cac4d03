// Package live implements "hpad check --live". It connects to the fleets and sources in a
// configuration without starting, storing or changing anything.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// callTimeout limits one call. concurrency limits the number of concurrent queries to one source.
const (
	callTimeout = 30 * time.Second
	concurrency = 8
)

// Finding is a result of a check.
type Finding struct {
	// Key is a path in the configuration, for example "autoscalers.checkout.metrics[1]".
	Key string
	// Text does not contain secrets.
	Text string
	// Problem is set if an autoscaler cannot work as configured.
	Problem bool
}

// Check connects to every fleet and source in a configuration, reads every target and runs every
// distinct query once. It returns the findings about fleets, sources and autoscalers in this order,
// each sorted by name.
func Check(ctx context.Context, c *config.Config) []Finding {
	checker := &checker{
		file:      c,
		config:    c,
		labels:    discovery.New(zap.NewNop()),
		fleets:    map[string]targets.Fleet{},
		snapshots: map[string]snapshot{},
		results:   map[queryKey]queryResult{},
		clock:     clock.New(clock.System{}),
	}
	defer checker.close()
	checker.checkFleets(ctx)
	checker.checkSources(ctx)
	for _, name := range slices.Sorted(maps.Keys(checker.config.Autoscalers)) {
		checker.checkAutoscaler(checker.config.Autoscalers[name])
	}
	return checker.findings
}

type checker struct {
	// file is the configuration from files. config also contains the autoscalers from labels.
	file, config *config.Config
	labels       *discovery.Labels
	fleets       map[string]targets.Fleet
	closers      []io.Closer
	snapshots    map[string]snapshot
	results      map[queryKey]queryResult
	clock        *clock.Clock
	findings     []Finding
}

// snapshot is the result of reading a fleet.
type snapshot struct {
	readings map[targets.Ref]targets.Reading
	err      error
}

// summary returns the number of targets that were read, such as "2 targets" or "1 of 2 targets".
func (s snapshot) summary(refs []targets.Ref) string {
	read := 0
	for _, ref := range refs {
		if reading, ok := s.readings[ref]; ok && reading.Err == nil {
			read++
		}
	}
	all := explain.Plural(len(refs), "target")
	if read < len(refs) {
		return fmt.Sprintf("%d of %s", read, all)
	}
	return all
}

func (c *checker) note(key, text string) {
	c.findings = append(c.findings, Finding{Key: key, Text: redact.Text(text)})
}

// problem adds a problem. The text is written on one line.
func (c *checker) problem(key, text string) {
	c.findings = append(c.findings, Finding{Key: key, Text: redact.Text(strings.ReplaceAll(text, "\n", "; ")), Problem: true})
}

// opened registers a fleet or source to be closed when the check ends.
func (c *checker) opened(built any) {
	if closer, ok := built.(io.Closer); ok {
		c.closers = append(c.closers, closer)
	}
}

func (c *checker) close() {
	for _, closer := range c.closers {
		_ = closer.Close()
	}
}

// checkFleets builds every fleet, discovers and reads its targets, and runs the fleet's self-check.
func (c *checker) checkFleets(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(c.config.Fleets)) {
		key := "fleets." + name
		fleet, err := c.buildFleet(c.config.Fleets[name])
		if err != nil {
			c.problem(key, err.Error())
			c.snapshots[name] = snapshot{err: err}
			continue
		}
		c.opened(fleet)
		c.fleets[name] = fleet
		c.discoverTargets(ctx, key, c.config.Fleets[name], fleet)
		refs := c.targetsOf(name)
		// The self-check may depend on the fleet's readings.
		c.snapshots[name] = c.read(ctx, fleet, refs)
		c.selfCheck(ctx, key, fleet, c.snapshots[name].err)
		if err := c.snapshots[name].err; err != nil {
			c.problem(key, err.Error())
			continue
		}
		if len(refs) == 0 {
			c.note(key, "no target was read, because the fleet has no autoscaler")
			continue
		}
		c.note(key, "reads "+c.snapshots[name].summary(refs))
	}
}

// targetsOf returns the targets of a fleet's autoscalers, sorted by autoscaler.
func (c *checker) targetsOf(fleet string) []targets.Ref {
	var refs []targets.Ref
	for _, name := range slices.Sorted(maps.Keys(c.config.Autoscalers)) {
		if target := c.config.Autoscalers[name].Target; target.Fleet == fleet {
			refs = append(refs, target)
		}
	}
	return refs
}

// buildFleet builds a fleet that does not store anything.
func (c *checker) buildFleet(fleet config.Fleet) (targets.Fleet, error) {
	return fleet.Config.Build(fleet.Name, targets.Env{
		Store:  noStore{},
		Meter:  metrics.New(nil).Platform(fleet.Name),
		Output: func(string, string) io.Writer { return io.Discard },
	})
}

func (c *checker) read(ctx context.Context, fleet targets.Fleet, refs []targets.Ref) snapshot {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	readings, err := fleet.Snapshot(ctx, refs)
	return snapshot{readings: readings, err: err}
}

// selfCheck runs the self-check of a fleet or source. The parameter read is the error from reading
// the fleet. If a fleet cannot be reached, only one problem is reported.
func (c *checker) selfCheck(ctx context.Context, key string, built any, read error) {
	own, ok := built.(targets.Checker)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sentences, err := own.Check(ctx)
	for _, sentence := range sentences {
		if err == nil || !strings.Contains(err.Error(), sentence) {
			c.note(key, sentence)
		}
	}
	unreached := len(sentences) == 0 && errors.Is(err, targets.ErrTransient) && errors.Is(read, targets.ErrTransient)
	if err != nil && !unreached {
		c.problem(key, err.Error())
	}
}

// checkSources builds every source, runs its self-check, and runs the queries of all autoscalers.
func (c *checker) checkSources(ctx context.Context) {
	queries := c.queries()
	for _, name := range slices.Sorted(maps.Keys(c.config.Sources)) {
		key := "sources." + name
		source, err := c.buildSource(c.config.Sources[name])
		if err != nil {
			c.problem(key, err.Error())
			for _, query := range queries[name] {
				c.results[queryKey{name, query.Text, query.MaxAge}] = queryResult{err: err}
			}
			continue
		}
		c.opened(source)
		c.selfCheck(ctx, key, source, nil)
		c.query(ctx, name, source, queries[name])
	}
}

// queries returns the distinct queries to each source, sorted. Each query contains all labels that
// any of its autoscalers uses.
func (c *checker) queries() map[string][]sources.Query {
	labels := map[queryKey]map[string]bool{}
	for _, a := range c.config.Autoscalers {
		for _, in := range a.Inputs {
			if in.Source == "" {
				continue
			}
			key := queryKey{in.Source, in.Query, in.MaxAge}
			if labels[key] == nil {
				labels[key] = map[string]bool{}
			}
			for _, label := range in.Select {
				labels[key][label.Name] = true
			}
			if in.InstanceLabel != "" {
				labels[key][in.InstanceLabel] = true
			}
		}
	}
	queries := map[string][]sources.Query{}
	for key, used := range labels {
		queries[key.source] = append(queries[key.source], sources.Query{Text: key.text, Labels: slices.Sorted(maps.Keys(used)), MaxAge: key.maxAge})
	}
	for _, all := range queries {
		slices.SortFunc(all, func(a, b sources.Query) int {
			return cmp.Or(strings.Compare(a.Text, b.Text), cmp.Compare(a.MaxAge, b.MaxAge))
		})
	}
	return queries
}

// buildSource builds a source that discovers instances through the fleets that the check has built.
func (c *checker) buildSource(source config.Source) (sources.Source, error) {
	return source.Config.Build(source.Name, sources.Env{
		StateDir: c.config.Daemon.StateDir, Discover: c.discover, Answers: daemon.AnswerBudget(c.config.Daemon),
	})
}

// discover reads a target for a source that scrapes the target's instances.
func (c *checker) discover(ctx context.Context, fleet, target string) (targets.Reading, error) {
	built, ok := c.fleets[fleet]
	if !ok {
		return targets.Reading{}, fmt.Errorf("fleet %q is not available", fleet)
	}
	ref := targets.Ref{Fleet: fleet, Name: target}
	result := c.read(ctx, built, []targets.Ref{ref})
	if result.err != nil {
		return targets.Reading{}, result.err
	}
	reading, ok := result.readings[ref]
	if !ok {
		return reading, fmt.Errorf("read target %s: the fleet did not return it", ref)
	}
	return reading, reading.Err
}

// query runs the queries to a source with limited concurrency.
func (c *checker) query(ctx context.Context, name string, source sources.Source, queries []sources.Query) {
	now := time.Now()
	results := make([]queryResult, len(queries))
	var group guard.Group
	group.SetLimit(concurrency)
	for i, query := range queries {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			vector, err := source.Query(ctx, query, now)
			vector.Release() // the result is stored, and the next query needs the budget
			r := queryResult{err: err}
			r.found = &observe.Response{Vector: sources.Vector{Series: vector.Series, Warnings: vector.Warnings, Infos: vector.Infos}}
			if err == nil && len(vector.Series) == 0 {
				r.found.Absence = cmp.Or(vector.Absence, adapters.CauseOf(ctx, source, &query, now))
			} else if err == nil {
				r.age = adapters.AgeOf(ctx, source, c.config.Sources[name].Config, &query, now)
			}
			results[i] = r
			return nil
		})
	}
	_ = group.Wait() // each result contains its own error
	for i, query := range queries {
		c.results[queryKey{name, query.Text, query.MaxAge}] = results[i]
	}
}

// noStore is a store that discards all values.
type noStore struct{}

func (noStore) Load(context.Context, string) ([]byte, error)            { return nil, nil }
func (noStore) Save(context.Context, string, []byte) error              { return nil }
func (noStore) Delete(context.Context, string) error                    { return nil }
func (noStore) List(context.Context, string) (map[string][]byte, error) { return nil, nil }
