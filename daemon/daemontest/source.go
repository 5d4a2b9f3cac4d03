package daemontest

import (
	"context"
	"sync"
	"time"

	"github.com/hpad/hpad/sources"
)

// Source returns results that tests set.
type Source struct {
	mu      sync.Mutex
	results map[string]func(ctx context.Context, at time.Time) (sources.Vector, error)
	calls   map[string]int
	// labels maps each query to the labels of its last call.
	labels map[string][]string
	// diagnose returns the results of diagnoses. If it is nil, all results are empty.
	diagnose func(ctx context.Context, text string, at time.Time) (sources.Vector, error)
}

// NewSource returns a source whose queries return no series.
func NewSource() *Source {
	return &Source{results: map[string]func(context.Context, time.Time) (sources.Vector, error){}, calls: map[string]int{}, labels: map[string][]string{}}
}

// Query implements sources.Source.
func (s *Source) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	text := query.Text
	if query.MaxAge > 0 { // a different query
		text += " within " + query.MaxAge.String()
	}
	s.mu.Lock()
	s.calls[text]++
	s.labels[text] = query.Labels
	result, diagnose := s.results[text], s.diagnose
	s.mu.Unlock()
	if query.Diagnosis && diagnose != nil {
		return diagnose(ctx, query.Text, at)
	}
	if result == nil {
		return sources.Vector{}, nil
	}
	return result(ctx, at)
}

// SetDiagnose sets the results of diagnoses.
func (s *Source) SetDiagnose(diagnose func(ctx context.Context, text string, at time.Time) (sources.Vector, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.diagnose = diagnose
}

// Set sets the result of a query.
func (s *Source) Set(text string, result func(ctx context.Context, at time.Time) (sources.Vector, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[text] = result
}

// Value makes a query return one series.
func (s *Source) Value(text string, value float64) {
	s.Set(text, func(_ context.Context, at time.Time) (sources.Vector, error) { return Vector(value, at), nil })
}

// Hang blocks a query until its context ends.
func (s *Source) Hang(text string) {
	s.Set(text, func(ctx context.Context, _ time.Time) (sources.Vector, error) {
		<-ctx.Done()
		return sources.Vector{}, ctx.Err()
	})
}

// Count returns the number of calls with a query.
func (s *Source) Count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[text]
}

// Vector returns a vector with one series.
func Vector(value float64, at time.Time) sources.Vector {
	return sources.Vector{Series: []sources.Series{{Value: value, At: at}}}
}

// Part returns a series of a diagnosis result: the named part of the diagnosis, with labels.
func Part(name string, labels ...sources.Label) sources.Series {
	return sources.Series{Labels: append(sources.Labels{{Name: "hpad_part", Value: name}}, labels...), Value: 1}
}
