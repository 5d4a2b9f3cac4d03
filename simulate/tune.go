package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Purpose is the improvement of a suggestion.
type Purpose string

// The purposes.
const (
	Cheaper      Purpose = "cheaper at the same shortage"
	LessShortage Purpose = "less shortage at the same cost"
	FewerChanges Purpose = "fewer changes at the same cost and shortage"
)

// Suggestion is a change of the configuration that was better than the active policy in both halves of
// the data.
type Suggestion struct {
	Purpose  Purpose   `json:"purpose"`
	Settings []Setting `json:"settings"`
	// TOML is the table of the autoscaler with the settings, if the caller of Tune adds it.
	TOML string `json:"toml,omitempty"`
	// Row is the result in the second half. Its moments are differences from the active policy.
	Row Row `json:"row"`
}

// Tuning is the result of a search.
type Tuning struct {
	// Result has the active policy in the second half of the data as its only row.
	Result
	// Candidates is the number of policies that were compared.
	Candidates  int          `json:"candidates"`
	Suggestions []Suggestion `json:"suggestions"`
}

const (
	// halves is the number of the longest windows that a recording must exceed: one before the first
	// half, and one in each half.
	halves = 3
	// keep is the reciprocal of the part of the candidates that remains after each round.
	keep = 3
	// tested is the number of candidates for each purpose that the second half tests.
	tested = 5
	// negligible is a difference of a share of time that does not matter.
	negligible = 0.0005
)

// rungs are the parts of the first half that successive rounds of the search use.
var rungs = []float64{0.25, 0.5, 1}

// Tune searches better settings for the active policy. It compares n candidates by successive halving
// on the first half of the data, and tests the best candidates on the second half. each calls a
// function for 0 to n-1, possibly concurrently, and returns the first error.
func Tune(ctx context.Context, recording *Recording, active Policy, assume Assumptions, n int, each func(n int, f func(i int) error) error) (*Tuning, error) {
	if len(recording.Ticks) == 0 {
		return nil, errors.New("there is no data in the period")
	}
	first, last := recording.Ticks[0].Time, recording.Ticks[len(recording.Ticks)-1].Time
	span := last.Sub(first)
	if span <= halves*active.memory() {
		return nil, fmt.Errorf("too little data: a search needs more than %s, which is %d times the longest window of the active configuration, and the recording covers %s",
			halves*active.memory(), halves, span)
	}
	all := candidates(&active, n, span)
	policies := []Policy{active}
	for i := range all {
		policies = append(policies, all[i].policy)
	}
	t := &tuner{ctx: ctx, recording: recording, active: active, assume: assume, each: each}
	for i := range policies {
		t.memory = max(t.memory, policies[i].memory())
	}
	first = first.Add(t.memory)
	half := last.Sub(first) / 2
	left := all
	for i, part := range rungs {
		scored, err := t.score(left, first, first.Add(time.Duration(float64(half)*part)))
		if err != nil {
			return nil, err
		}
		wanted := len(left) / keep
		if i == len(rungs)-1 {
			wanted = tested * len(purposes)
		}
		left = scored.best(wanted)
		t.first = scored
	}
	return t.test(left, first.Add(half), last, len(all))
}

// tuner is the state of a search.
type tuner struct {
	ctx       context.Context
	recording *Recording
	active    Policy
	assume    Assumptions
	each      func(n int, f func(i int) error) error
	// memory is the longest window of all candidates.
	memory time.Duration
	// first contains the scores in the whole first half.
	first *scored
}

// scored contains candidates with their rows in the same period.
type scored struct {
	candidates []candidate
	rows       []*Row
	active     *Row
	result     *Result
}

// score simulates candidates in a period. The ticks before it are the warm-up.
func (t *tuner) score(list []candidate, from, until time.Time) (*scored, error) {
	part := *t.recording
	part.Ticks = slices.DeleteFunc(slices.Clone(part.Ticks), func(tick Tick) bool { return tick.Time.Before(from.Add(-t.memory)) || tick.Time.After(until) })
	s, err := prepare(&part, []Policy{t.active}, t.assume)
	if err != nil {
		return nil, err
	}
	s.from = slices.IndexFunc(part.Ticks, func(tick Tick) bool { return !tick.Time.Before(from) })
	if s.from < 0 {
		return nil, errors.New("there is no data in a half of the period")
	}
	out := &scored{candidates: list, rows: make([]*Row, len(list)), result: s.result()}
	out.active, out.result.Demand, err = s.run(t.ctx, &t.active, nil)
	if err != nil {
		return nil, err
	}
	out.result.Rows = []Row{*out.active}
	err = t.each(len(list), func(i int) error {
		row, _, err := s.run(t.ctx, &list[i].policy, out.active.Replicas)
		out.rows[i] = row
		return err
	})
	return out, err
}

// purposes determine the value to lower for each purpose, and the required difference. A candidate must
// not be worse in the other values.
var purposes = []struct {
	purpose Purpose
	value   func(*Score) float64
	// The value must fall by at least the part least of the active policy's value, and by atLeast.
	least, atLeast   float64
	hours, shortages bool
}{
	{Cheaper, func(s *Score) float64 { return s.InstanceHours }, 0.02, 0, false, true},
	{LessShortage, func(s *Score) float64 { return float64(s.Shortage) }, 0.1, negligible, true, false},
	{FewerChanges, func(s *Score) float64 { return s.ChangesPerDay }, 0.1, 1, true, true},
}

// sameHours is the largest ratio of the instance-hours that is the same cost.
const sameHours = 1.005

// excess returns the sum of the increases of values that must not rise.
func (s *scored) excess(i, purpose int) float64 {
	p, row, active := &purposes[purpose], &s.rows[i].Score, &s.active.Score
	sum := 0.0
	if p.hours {
		sum += max(0, row.InstanceHours/active.InstanceHours-sameHours)
	}
	if p.shortages {
		sum += max(0, float64(row.Shortage-active.Shortage)-negligible/5)
		sum += max(0, float64(row.Shortage*row.ShortageDepth-active.Shortage*active.ShortageDepth)-negligible/5)
	}
	return sum
}

// improves reports whether a candidate is better for a purpose.
func (s *scored) improves(i, purpose int) bool {
	p := &purposes[purpose]
	was, is := p.value(&s.active.Score), p.value(&s.rows[i].Score)
	return s.excess(i, purpose) == 0 && was-is >= max(p.least*was, p.atLeast) && was > is
}

// eachSetting is the improvement that justifies one more changed setting.
const eachSetting = 0.005

// rank returns the value of a candidate for a purpose, raised for each changed setting.
func (s *scored) rank(i, purpose int) float64 {
	return purposes[purpose].value(&s.rows[i].Score) * (1 + eachSetting*float64(len(s.candidates[i].settings)))
}

// ranked returns the candidates in the order of a purpose, the best first.
func (s *scored) ranked(purpose int) []int {
	order := make([]int, len(s.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.excess(a, purpose), s.excess(b, purpose)),
			cmp.Compare(s.rank(a, purpose), s.rank(b, purpose)))
	})
	return order
}

// best returns the best candidates of all purposes, about n in total.
func (s *scored) best(n int) (best []candidate) {
	chosen := map[int]bool{}
	for purpose := range purposes {
		for _, i := range s.ranked(purpose)[:min(len(s.rows), n/len(purposes)+1)] {
			if !chosen[i] {
				chosen[i] = true
				best = append(best, s.candidates[i])
			}
		}
	}
	return best
}

// test returns the candidates that improve both halves, at most one for each purpose.
func (t *tuner) test(left []candidate, from, until time.Time, candidates int) (*Tuning, error) {
	second, err := t.score(left, from, until)
	if err != nil {
		return nil, err
	}
	tuning := &Tuning{Result: *second.result, Candidates: candidates, Suggestions: []Suggestion{}}
	for purpose := range purposes {
		for _, i := range t.first.ranked(purpose) {
			label := t.first.candidates[i].policy.Label
			at := slices.IndexFunc(left, func(c candidate) bool { return c.policy.Label == label })
			known := slices.ContainsFunc(tuning.Suggestions, func(s Suggestion) bool { return s.Row.Label == label })
			if at < 0 || known || !t.first.improves(i, purpose) || !second.improves(at, purpose) {
				continue
			}
			tuning.Suggestions = append(tuning.Suggestions, Suggestion{Purpose: purposes[purpose].purpose, Settings: left[at].settings, Row: *second.rows[at]})
			break
		}
	}
	return tuning, nil
}

func label(settings []Setting) string {
	texts := make([]string, len(settings))
	for i := range settings {
		texts[i] = settings[i].String()
	}
	return strings.Join(texts, " ")
}
