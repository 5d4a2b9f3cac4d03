package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// The bounds of a check: how long one call may take, and how many calls are under
// way at once to one fleet or source.
const (
	callTimeout = 30 * time.Second
	concurrency = 8
)

// Finding is one thing that was found out.
type Finding struct {
	// Key is the path of what it is about, as "autoscalers.checkout.metrics[1]".
	Key string
	// Text says what came back, or what is wrong, without what may be secret.
	Text string
	// Problem is set when an autoscaler would not work as it is configured.
	Problem bool
}

// Running is the hpad that runs on the machine.
type Running interface {
	// EachBriefly returns what it has of its autoscalers. An error is the last to come.
	EachBriefly(ctx context.Context) iter.Seq2[api.Autoscaler, error]
}

// Check connects to every fleet and source of a configuration, reads every
// target, asks every distinct query once and says what came back: fleets first,
// then sources, then autoscalers, each in name order, then autoscalers whose targets
// turned out to be one. It ends early, with what it
// has, when ctx ends. Of what only the hpad that runs knows it asks that; nil is none.
func Check(ctx context.Context, c *config.Config, running Running) []Finding {
	checker := &checker{
		running:  running,
		run:      map[string]api.Autoscaler{},
		file:     c,
		config:   c,
		labels:   discovery.New(zap.NewNop()),
		fleets:   map[string]targets.Fleet{},
		readings: map[string]snapshot{},
		answers:  map[question]answer{},
		clock:    clock.New(clock.System{}),
	}
	defer checker.close()
	checker.askRunning(ctx)
	checker.checkFleets(ctx)
	checker.checkSources(ctx)
	for _, name := range slices.Sorted(maps.Keys(checker.config.Autoscalers)) {
		checker.checkAutoscaler(checker.config.Autoscalers[name])
	}
	checker.checkTwins()
	return checker.findings
}

// checker is one check.
type checker struct {
	// file is the configuration of files, labels what targets ask for by theirs, and
	// config both together.
	file, config *config.Config
	labels       *discovery.Labels
	running      Running
	// run are the autoscalers that the hpad that runs has, by name, where one is asked.
	run      map[string]api.Autoscaler
	fleets   map[string]targets.Fleet
	closers  []io.Closer
	readings map[string]snapshot
	answers  map[question]answer
	clock    *clock.Clock
	findings []Finding
}

// snapshot is what came of reading a fleet's targets.
type snapshot struct {
	readings map[targets.Ref]targets.Reading
	err      error
}

func (c *checker) note(key, text string) {
	c.findings = append(c.findings, Finding{Key: key, Text: redact.Text(text)})
}

// problem adds what is wrong, on one line: errors that were joined have several.
func (c *checker) problem(key, text string) {
	c.findings = append(c.findings, Finding{Key: key, Text: redact.Text(strings.ReplaceAll(text, "\n", "; ")), Problem: true})
}

// opened remembers what has to be closed in the end.
func (c *checker) opened(built any) {
	if closer, ok := built.(io.Closer); ok {
		c.closers = append(c.closers, closer)
	}
}

// close closes what was built. Nothing was started, so that nothing can be lost.
func (c *checker) close() {
	for _, closer := range c.closers {
		_ = closer.Close()
	}
}

// askRunning asks the hpad that runs, once, where a fleet's instances are its own. Without an
// answer it runs none of them, as far as is known.
func (c *checker) askRunning(ctx context.Context) {
	hosted := slices.ContainsFunc(slices.Collect(maps.Values(c.config.Fleets)), func(fleet config.Fleet) bool { return kinds.Fleets[fleet.Kind].Hosted })
	if c.running == nil || !hosted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for view, err := range c.running.EachBriefly(ctx) {
		if err == nil {
			c.run[view.Name] = view
		}
	}
}

// checkFleets builds every fleet, has it discover where it does, asks it what it
// makes of itself and reads the targets of its autoscalers.
func (c *checker) checkFleets(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(c.config.Fleets)) {
		key := "fleets." + name
		fleet, err := c.buildFleet(c.config.Fleets[name])
		if err != nil {
			c.problem(key, err.Error())
			c.readings[name] = snapshot{err: err}
			continue
		}
		c.opened(fleet)
		c.fleets[name] = fleet
		c.discoverTargets(ctx, key, c.config.Fleets[name], fleet)
		refs := c.targetsOf(name)
		// Read first: a fleet may then find more, in what it has read.
		c.readings[name] = c.read(ctx, fleet, refs)
		c.setReach(name, fleet)
		c.selfCheck(ctx, key, fleet, c.readings[name].err)
		if err := c.readings[name].err; err != nil {
			c.problem(key, err.Error())
			continue
		}
		c.note(key, fmt.Sprintf("reads %s", explain.Plural(len(refs), "target")))
	}
}

// targetsOf returns the targets of a fleet's autoscalers, in the order of the
// autoscalers' names.
func (c *checker) targetsOf(fleet string) []targets.Ref {
	var refs []targets.Ref
	for _, name := range slices.Sorted(maps.Keys(c.config.Autoscalers)) {
		if target := c.config.Autoscalers[name].Target; target.Fleet == fleet {
			refs = append(refs, target)
		}
	}
	return refs
}

// setReach gives a fleet how far its targets may grow, where it wants to know.
func (c *checker) setReach(name string, fleet targets.Fleet) {
	reacher, ok := fleet.(targets.Reacher)
	if !ok {
		return
	}
	for _, a := range c.config.Autoscalers {
		if a.Target.Fleet == name {
			reacher.Reaches(a.Target, a.Spec.MaxReplicas)
		}
	}
}

// buildFleet constructs a fleet with a store that begins empty and is forgotten.
func (c *checker) buildFleet(fleet config.Fleet) (targets.Fleet, error) {
	return fleet.Config.Build(fleet.Name, targets.Env{
		Store:  newStore(),
		Meter:  metrics.New(nil).Platform(fleet.Name),
		Output: func(string, string) io.Writer { return io.Discard },
	})
}

// read reads targets of a fleet.
func (c *checker) read(ctx context.Context, fleet targets.Fleet, refs []targets.Ref) snapshot {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	readings, err := fleet.Snapshot(ctx, refs)
	return snapshot{readings: readings, err: err}
}

// selfCheck finds what a fleet or source makes of itself, where it can. Read is why it
// could not be read: that it cannot be reached is told once.
func (c *checker) selfCheck(ctx context.Context, key string, built any, read error) {
	able, ok := built.(targets.Checker)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sentences, err := able.Check(ctx)
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

// checkSources builds every source, asks it what it makes of itself and then the
// queries of all autoscalers.
func (c *checker) checkSources(ctx context.Context) {
	queries := c.queries()
	for _, name := range slices.Sorted(maps.Keys(c.config.Sources)) {
		key := "sources." + name
		source, err := c.buildSource(c.config.Sources[name])
		if err != nil {
			c.problem(key, err.Error())
			for _, query := range queries[name] {
				c.answers[question{name, query.Text, query.MaxAge}] = answer{err: err}
			}
			continue
		}
		c.opened(source)
		c.selfCheck(ctx, key, source, nil)
		c.ask(ctx, name, source, queries[name])
	}
}

// queries returns the distinct queries of each source, in order, with the labels that
// any of its readers looks at, and those that count the samples in their ranges.
func (c *checker) queries() map[string][]sources.Query {
	labels := map[question]map[string]bool{}
	ask := func(asked question) map[string]bool {
		if labels[asked] == nil {
			labels[asked] = map[string]bool{}
		}
		return labels[asked]
	}
	for _, a := range c.config.Autoscalers {
		for _, in := range a.Inputs {
			if in.Source == "" {
				continue
			}
			named := ask(question{in.Source, in.Query, in.MaxAge})
			for _, picked := range in.Select {
				named[picked.Label] = true
			}
			if in.InstanceLabel != "" {
				named[in.InstanceLabel] = true
			}
			if _, evaluated := c.config.Sources[in.Source].Config.(sources.Evaluator); evaluated {
				continue // told by the configuration alone
			}
			for _, r := range rangesOf(in.Query) {
				ask(question{source: in.Source, text: r.Count(countedRanges)})
			}
		}
	}
	queries := map[string][]sources.Query{}
	for asked, named := range labels {
		queries[asked.source] = append(queries[asked.source], sources.Query{Text: asked.text, Labels: slices.Sorted(maps.Keys(named)), MaxAge: asked.maxAge})
	}
	for _, of := range queries {
		slices.SortFunc(of, func(a, b sources.Query) int {
			return cmp.Or(strings.Compare(a.Text, b.Text), cmp.Compare(a.MaxAge, b.MaxAge))
		})
	}
	return queries
}

// buildSource constructs a source that finds instances through the fleets of the
// check.
func (c *checker) buildSource(source config.Source) (sources.Source, error) {
	return source.Config.Build(source.Name, sources.Env{
		StateDir: c.config.Daemon.StateDir, Discover: c.discover, Answers: daemon.AnswerBudget(c.config.Daemon),
	})
}

// discover reads one target for a source that scrapes its instances.
func (c *checker) discover(ctx context.Context, fleet, target string) (targets.Reading, error) {
	built, ok := c.fleets[fleet]
	if !ok {
		return targets.Reading{}, fmt.Errorf("fleet %q cannot be used", fleet)
	}
	ref := targets.Ref{Fleet: fleet, Name: target}
	answered := c.read(ctx, built, []targets.Ref{ref})
	if answered.err != nil {
		return targets.Reading{}, answered.err
	}
	reading, ok := answered.readings[ref]
	if !ok {
		return reading, fmt.Errorf("read target %s: the fleet's answer does not mention it", ref)
	}
	return reading, reading.Err
}

// ask asks a source its queries, a few at a time.
func (c *checker) ask(ctx context.Context, name string, source sources.Source, queries []sources.Query) {
	now := time.Now()
	answers := make([]answer, len(queries))
	var group errgroup.Group
	group.SetLimit(concurrency)
	for i, query := range queries {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			var vector sources.Vector
			vector, answers[i].err = source.Query(ctx, query, now)
			vector.Release() // it is kept, and yet leaves the budget to the next one
			answers[i].found = &observe.Answer{Vector: sources.Vector{Series: vector.Series, Warnings: vector.Warnings, Infos: vector.Infos}}
			if answers[i].err == nil && len(vector.Series) == 0 {
				answers[i].found.Absence = adapters.CauseOf(ctx, source, &query, now)
			}
			return nil
		})
	}
	_ = group.Wait() // each answer has its own error
	untried := 0
	for i, query := range queries {
		if errors.Is(answers[i].err, embedded.ErrNotStarted) {
			answers[i].untried = true
			untried++
		}
		c.answers[question{name, query.Text, query.MaxAge}] = answers[i]
	}
	if untried > 0 {
		c.note("sources."+name, explain.Plural(untried, "query")+" not asked: the samples are hpad's own, and only \"hpad run\" gathers them")
	}
}
