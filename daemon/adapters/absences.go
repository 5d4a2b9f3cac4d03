package adapters

import (
	"context"
	"maps"
	"time"

	"github.com/hpad/hpad/daemon/config/query"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
)

const (
	// A query without a result is diagnosed at most once per diagnoseEvery. The cause expires after
	// causeLasts unless the query is diagnosed again.
	diagnoseEvery = time.Minute
	causeLasts    = 3 * diagnoseEvery
	// A round diagnoses at most diagnosesAtOnce queries per source, sequentially, and for at most
	// diagnoseTimeout.
	diagnosesAtOnce = 20
	diagnoseTimeout = 5 * time.Second
	// A sample age is measured at most once per ageEvery. The measurement takes at most
	// ageTimeout.
	ageEvery   = 10 * time.Second
	ageTimeout = time.Second
)

// sampleAge is the age of the newest samples of a query at the time of a measurement.
type sampleAge struct {
	since time.Time
	age   time.Duration
}

// absence is the cause of a missing result and the time of the diagnosis.
type absence struct {
	since time.Time
	cause string
}

func absenceKey(q *sources.Query) string { return q.Text + "\xff" + q.MaxAge.String() }

// Age returns the age of the newest samples that a query selects; 0 means unknown. If the query
// selects several series, Age returns the largest age. It measures at most once per ageEvery and
// takes at most ageTimeout.
func (s *Source) Age(q *sources.Query, at time.Time) time.Duration {
	key, now := absenceKey(q), time.Now()
	s.mu.Lock()
	maps.DeleteFunc(s.ages, func(_ string, known sampleAge) bool { return now.Sub(known.since) >= ageEvery })
	known, ok := s.ages[key]
	s.mu.Unlock()
	if ok || s.Problem.Exists() {
		return known.age
	}
	s.Uses.Begin()
	defer s.Uses.End()
	ctx, cancel := context.WithTimeout(context.Background(), ageTimeout)
	defer cancel()
	found := make(chan time.Duration, 2) // for the query and for its timeout
	s.measurements.Run(ctx, 1, func(ctx context.Context, _ int) {
		found <- AgeOf(ctx, s.Source, s.table, q, at)
	}, func(int, error) { found <- 0 })
	known = sampleAge{since: now, age: <-found}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages[key] = known
	return known.age
}

// AgeOf measures the age of the newest samples that a query selects at an instant; 0 means unknown. If
// the query selects several series, it returns the largest age. table is the source's configuration.
func AgeOf(ctx context.Context, source sources.Source, table any, q *sources.Query, at time.Time) (age time.Duration) {
	_, selects := table.(sources.Selector)
	measure, measurable := query.Age(q)
	if selects { // the values have their own times
		measure, measurable = *q, true
		measure.Diagnosis = true
	}
	if !measurable {
		return 0
	}
	_ = guard.Call(func() error {
		vector, err := source.Query(ctx, measure, at)
		defer vector.Release()
		if !selects {
			age = query.AgeIn(vector)
			return err
		}
		for _, series := range vector.Series {
			age = max(age, at.Sub(series.At))
		}
		return err
	})
	return age
}

// Cause returns the cause that the last Diagnose found for a missing result.
func (s *Source) Cause(q *sources.Query) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absences[absenceKey(q)].cause
}

// Answered deletes the stored cause of a query that has returned a result.
func (s *Source) Answered(q *sources.Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.absences) == 0 { // avoids building the key of every query
		return
	}
	if known, ok := s.absences[absenceKey(q)]; ok {
		s.absences[absenceKey(q)] = absence{since: known.since}
	}
}

// Diagnose finds the reasons why queries have no result at an instant. It takes at most
// diagnoseTimeout.
func (s *Source) Diagnose(ctx context.Context, queries []*sources.Query, at time.Time) {
	due := s.undiagnosed(queries, time.Now())
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	s.diagnoses.Run(ctx, len(due), func(ctx context.Context, i int) {
		cause := CauseOf(ctx, s.Source, due[i], at)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.absences[absenceKey(due[i])] = absence{time.Now(), cause}
	}, func(int, error) {})
}

// undiagnosed returns the queries to diagnose now, and deletes expired causes.
func (s *Source) undiagnosed(queries []*sources.Query, now time.Time) (due []*sources.Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.absences, func(_ string, known absence) bool { return now.Sub(known.since) >= causeLasts })
	for _, q := range queries {
		known, ok := s.absences[absenceKey(q)]
		if len(due) == diagnosesAtOnce || ok && now.Sub(known.since) < diagnoseEvery {
			continue
		}
		due = append(due, q)
		s.absences[absenceKey(q)] = absence{now, known.cause}
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
	_ = guard.Call(func() error {
		facts, err := source.Query(ctx, diagnosis.Query, at)
		if err == nil {
			cause = diagnosis.Cause(facts, at)
			facts.Release()
		}
		return err
	})
	return cause
}
