// Package cloud is the common part of the fleet kinds for cloud instance groups. A [Fleet] reads
// and writes groups through a [Platform], which each kind implements. It lists groups and their
// instances, stores records of instances in a [Memory], and adds accepted writes that the
// platform does not report yet to its readings. A [Limiter] limits the rate of calls, and
// classifies their errors by the rules in [Errors].
package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const (
	// callsAtOnce limits the concurrent calls of one kind in a snapshot or check.
	callsAtOnce = 16
	// extraTimeout is the time limit for optional details of a reading.
	extraTimeout = 3 * time.Second
	// factsRetry is the pause after a failed facts query.
	factsRetry = time.Minute
)

// Fleet is the common part of all kinds of instance groups. A kind embeds it, sets the exported
// fields and implements Platform. It is safe for concurrent use.
type Fleet[N comparable, G, C any] struct {
	targets.Base[N]
	Connection[C]
	Platform Platform[N, G, C]
	Memory   *Memory
	// Limiter limits the calls that list members.
	Limiter *Limiter
	// Noun is the term for a group: "scale set".
	Noun string
	// DeletesAtOnce is the maximum number of instances in one call of Delete.
	DeletesAtOnce int
	// FactsProblem is a sentence that describes the effect of a failed facts query.
	FactsProblem string
	// Missing returns further missing details for Problems; it may be nil.
	Missing func() targets.MissingDetail

	mu     sync.Mutex
	groups map[N]*groupState
	// factsErr is the error of the last facts query. factsDue is the time of the next query.
	factsErr error
	factsDue time.Time
}

// Close closes the fleet and drops its client.
func (f *Fleet[N, G, C]) Close() error {
	if f.MarkClosed() {
		f.Memory.Close()
		f.Connection.Close()
	}
	return nil
}

// call makes a call with the current client. If the platform rejects its credentials, the next call
// reads them again.
func call[R any, N comparable, G, C any](ctx context.Context, f *Fleet[N, G, C], do func(c *C) (R, error)) (result R, err error) {
	if err := f.Limiter.refusal(); err != nil {
		return result, err
	}
	client, err := f.Client(ctx)
	if client == nil {
		return result, err
	}
	if result, err = do(client); errors.Is(err, ErrCredentials) {
		f.Forget(client)
	}
	return result, err
}

// Snapshot reads the given groups, and lists the instances of the groups that are due.
func (f *Fleet[N, G, C]) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.Base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet[N, G, C]) snapshot(ctx context.Context, refs map[targets.Ref]N) (map[targets.Ref]targets.Reading, error) {
	now := time.Now()
	f.Memory.Load(now)
	names := slices.Collect(maps.Values(refs))
	groups, err := call(ctx, f, func(c *C) (map[N]*Group[G], error) { return f.Platform.List(ctx, c, names) })
	if err != nil {
		return nil, err
	}
	for name, group := range groups {
		f.locked(name, func(s *groupState) { group.apply(s.unseen(group.version(), now)) })
	}
	f.listMembers(ctx, groups, now)
	extra, cancel := context.WithTimeout(ctx, extraTimeout)
	defer cancel()
	found := f.lookUp(extra, groups)
	f.explain(extra, groups)
	observed := time.Now()
	readings := make(map[targets.Ref]targets.Reading, len(refs))
	for ref, name := range refs {
		readings[ref] = f.reading(name, groups[name], found, now, observed)
	}
	f.Memory.Save(observed)
	return readings, nil
}

func (f *Fleet[N, G, C]) explain(ctx context.Context, groups map[N]*Group[G]) {
	now := time.Now()
	var short []N
	for name, group := range groups {
		due := false
		if group.Err == nil {
			f.locked(name, func(s *groupState) { due = s.lacks(group.Listing.there() < group.Size, now) })
		}
		if due && group.Listing.Notice == nil {
			short = append(short, name)
		}
	}
	guard.Each(callsAtOnce, short, func(_ int, name N) error { // after an error, the next snapshot tries again
		notice, err := call(ctx, f, func(c *C) (*policy.Notice, error) { return f.Platform.Explain(ctx, c, name, groups[name]) })
		if err == nil {
			f.locked(name, func(s *groupState) { s.notice, s.explainedAt = notice, now })
		}
		return err
	})
}

// lookUp reads the facts of running instances whose facts are unknown. It drops the facts of
// instances that are not running, because facts may change while an instance is stopped.
func (f *Fleet[N, G, C]) lookUp(ctx context.Context, groups map[N]*Group[G]) map[string]*Found {
	unknown := map[N]Unknown[G]{}
	for name, group := range groups {
		if group.Err != nil {
			continue
		}
		for _, m := range group.Listing.Members {
			record, known := f.Memory.Recall(m.key())
			switch {
			case m.Deleting:
			case known && record.Facts != nil && !m.running():
				f.Memory.learn(m.key(), time.Time{}, nil)
			case m.running() && record.Facts == nil:
				if unknown[name].Members == nil {
					unknown[name] = Unknown[G]{group, map[string]Member{}}
				}
				unknown[name].Members[m.key()] = m
			}
		}
	}
	f.mu.Lock()
	due := !time.Now().Before(f.factsDue)
	f.mu.Unlock()
	if len(unknown) == 0 || !due {
		return nil
	}
	found, err := call(ctx, f, func(c *C) (map[string]*Found, error) { return f.Platform.Facts(ctx, c, unknown) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.factsErr = err; err != nil {
		f.factsDue = time.Now().Add(factsRetry)
	}
	return found
}

func (f *Fleet[N, G, C]) reading(name N, g *Group[G], found map[string]*Found, observed, now time.Time) targets.Reading {
	if g.Err != nil {
		return targets.Reading{Err: g.Err}
	}
	r := targets.Reading{
		SpecReplicas: g.Size, StatusReplicas: g.Listing.there(), Min: g.Min, Max: g.Max, Version: g.version(), Observed: observed,
		Hold: f.Platform.Hold(name, g, g.Listing), Notices: slices.Clone(g.Notices),
	}
	notice := g.Listing.Notice
	if notice == nil {
		f.locked(name, func(s *groupState) { notice = s.notice })
	}
	if notice != nil {
		r.Notices = append(r.Notices, *notice)
	}
	var locations targets.LocationList
	for i := range g.Listing.Members {
		m := &g.Listing.Members[i]
		record := f.see(m, found[m.key()], now)
		r.Instances = append(r.Instances, policy.Instance{
			ID: m.ID, Phase: m.Phase, Deleting: m.Deleting,
			Readiness: record.Readiness, ReadinessChanged: record.Changed, StartedAt: record.Started(),
		})
		location := m.location(record.Facts)
		if !m.running() || record.Readiness == policy.ReadinessFalse || record.Readiness == policy.ReadinessUnknown {
			location.UnreadyReason = targets.Phrase(cmp.Or(m.State, "the platform reports no state"))
		}
		locations = append(locations, location)
	}
	r.Locations = locations
	return r
}

func (f *Fleet[N, G, C]) see(m *Member, found *Found, now time.Time) Record {
	seen := *m
	if found != nil && !found.Launched.IsZero() {
		seen.Launched = found.Launched
	}
	if m.running() && seen.Since.IsZero() {
		before, _ := f.Memory.Recall(m.key())
		seen.Since = before.Launched
		if seen.Launched.After(before.Launched) {
			seen.Since = seen.Launched
		}
	}
	record := f.Memory.Update(&seen, now)
	if found != nil {
		f.Memory.learn(m.key(), found.Launched, &found.Facts)
		record.Facts = &found.Facts
	}
	return record
}

func (m *Member) location(facts *Facts) targets.Location {
	l := targets.Location{Name: m.Name, Protected: m.Protected, Labels: m.Labels}
	if facts == nil {
		return l
	}
	l.Name, l.Addresses = cmp.Or(facts.Name, m.Name), facts.Addresses
	if len(m.Labels) == 0 {
		l.Labels = facts.Labels
	} else if len(facts.Labels) > 0 {
		l.Labels = maps.Clone(facts.Labels)
		maps.Copy(l.Labels, m.Labels)
	}
	return l
}

// Problems returns sentences that describe the missing details and their causes.
func (f *Fleet[N, G, C]) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing targets.MissingDetail
	if f.Missing != nil {
		missing = f.Missing()
	}
	return targets.ProblemTexts(
		missing,
		targets.MissingDetail{Text: "changed credentials are unusable, so hpad still uses the previous ones", Err: f.filesError()},
		targets.MissingDetail{Text: f.FactsProblem, Err: f.factsErr},
		targets.MissingDetail{Text: "records of instances cannot be stored", Err: f.Memory.Failure()},
	)
}

// NotFound returns the error for a group that does not exist.
func NotFound(reason, noun string, name any) error {
	return WithReason(reason, fmt.Errorf("%w: there is no %s %q", targets.ErrTargetNotFound, noun, fmt.Sprint(name)))
}

// WithReason gives an error a condition reason.
func WithReason(reason string, err error) error {
	return &targets.ReasonError{Reason: reason, Err: err}
}
