package adapters

import (
	"context"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/config/query"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/sources"
)

const (
	// A query without a result is diagnosed at most once per diagnoseEvery. The cause expires
	// after causeLasts unless the query is diagnosed again.
	diagnoseEvery = time.Minute
	causeLasts    = 3 * diagnoseEvery
	// A round diagnoses at most diagnosesAtOnce queries per source, one after the other, and
	// takes at most diagnoseTimeout.
	diagnosesAtOnce = 20
	diagnoseTimeout = 5 * time.Second
	// A sample age is measured at most once per ageEvery. The measurement takes at most
	// ageTimeout.
	ageEvery   = 10 * time.Second
	ageTimeout = time.Second
)

// absences stores the causes of missing results by query.
type absences struct {
	gate  Gate
	mu    sync.Mutex
	known map[string]absence
}

// ages stores the ages of the newest samples by query.
type ages struct {
	gate  Gate
	mu    sync.Mutex
	known map[string]sampleAge
}

type sampleAge struct {
	since time.Time
	age   time.Duration
}

// Age returns the age of the newest samples that a query selects. If the query selects several
// series, it is the highest of their ages. Age returns 0 if the age is unknown. It measures at
// most once per ageEvery, and takes at most ageTimeout.
func (s *Source) Age(q *sources.Query, at time.Time) time.Duration {
	key, now := absenceKey(q), time.Now()
	s.ages.mu.Lock()
	known, ok := s.ages.known[key]
	s.ages.mu.Unlock()
	measure, selects := query.Age(q)
	if ok && now.Sub(known.since) < ageEvery || !selects || s.Problem.Exists() {
		return known.age
	}
	s.Uses.Begin()
	defer s.Uses.End()
	ctx, cancel := context.WithTimeout(context.Background(), ageTimeout)
	defer cancel()
	found := make(chan time.Duration, 1)
	s.ages.gate.Run(ctx, 1, func(ctx context.Context, _ int) {
		var age time.Duration
		_ = problem.Guard(func() error {
			vector, err := s.Query(ctx, measure, at)
			age = query.AgeIn(vector)
			vector.Release()
			return err
		})
		found <- age
	}, func(int, error) {})
	measured := sampleAge{since: now}
	select {
	case measured.age = <-found:
	default: // the measurement takes longer than ageTimeout
	}
	s.ages.mu.Lock()
	defer s.ages.mu.Unlock()
	for key, known := range s.ages.known {
		if now.Sub(known.since) >= ageEvery {
			delete(s.ages.known, key)
		}
	}
	s.ages.known[key] = measured
	return measured.age
}

type absence struct {
	since time.Time
	cause string
}

func absenceKey(q *sources.Query) string { return q.Text + "\xff" + q.MaxAge.String() }

// Cause returns the cause that the last Diagnose found for a missing result.
func (s *Source) Cause(q *sources.Query) string {
	s.absences.mu.Lock()
	defer s.absences.mu.Unlock()
	return s.absences.known[absenceKey(q)].cause
}

// Answered deletes the cause for a query that has a result again.
func (s *Source) Answered(q *sources.Query) {
	s.absences.mu.Lock()
	defer s.absences.mu.Unlock()
	if len(s.absences.known) == 0 {
		return
	}
	if known, ok := s.absences.known[absenceKey(q)]; ok {
		s.absences.known[absenceKey(q)] = absence{since: known.since}
	}
}

// Diagnose finds the reasons why queries have no result at an instant. It takes at most
// diagnoseTimeout.
func (s *Source) Diagnose(ctx context.Context, queries []*sources.Query, at time.Time) {
	due := s.absences.due(queries, time.Now())
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	s.absences.gate.Run(ctx, len(due), func(ctx context.Context, i int) {
		cause := CauseOf(ctx, s.Source, due[i], at)
		s.absences.mu.Lock()
		defer s.absences.mu.Unlock()
		s.absences.known[absenceKey(due[i])] = absence{time.Now(), cause}
	}, func(int, error) {})
}

// due returns the queries to diagnose now, and deletes expired causes.
func (a *absences) due(queries []*sources.Query, now time.Time) (due []*sources.Query) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, known := range a.known {
		if now.Sub(known.since) >= causeLasts {
			delete(a.known, key)
		}
	}
	for _, q := range queries {
		known, ok := a.known[absenceKey(q)]
		if len(due) == diagnosesAtOnce || ok && now.Sub(known.since) < diagnoseEvery {
			continue
		}
		due = append(due, q)
		a.known[absenceKey(q)] = absence{now, known.cause}
	}
	return due
}

// CauseOf queries a source to find the reason why q has no result at an instant. It returns "" if
// the cause is unknown.
func CauseOf(ctx context.Context, source sources.Source, q *sources.Query, at time.Time) (cause string) {
	lookback := q.MaxAge
	if own, ok := source.(sources.Lookbacker); ok && lookback == 0 {
		lookback = own.Lookback()
	}
	diagnosis, ok := query.NewAbsence(q.Text, lookback)
	if !ok {
		return ""
	}
	_ = problem.Guard(func() error {
		facts, err := source.Query(ctx, diagnosis.Query, at)
		if err == nil {
			cause = diagnosis.Cause(facts, at)
			facts.Release()
		}
		return err
	})
	return cause
}
