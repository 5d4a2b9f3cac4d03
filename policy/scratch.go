package policy

// Scratch is the memory that decisions are made in, one after the other: each is good
// until the next one is made in the same. The zero Scratch has none yet.
type Scratch struct {
	numbers         decisionNumbers
	results         []MetricResult
	metrics         []metricNumbers
	statuses        []MetricStatus
	recommendations []Recommendation
}

// decisionNumbers are the parts of a decision that may be absent, but rarely are.
type decisionNumbers struct {
	raw, recommendation, rate int32
	winner                    int
	stabilization             Stabilization
	limit                     Limit
}

// useNumbers has the decision point to numbers of its scratch, which are zero.
func (p *pass) useNumbers() {
	p.numbers = &p.scratch.numbers
	*p.numbers = decisionNumbers{}
}

// recommend has the decision remember a recommendation.
func (p *pass) recommend(rules WindowRules, recommended int32) {
	list := &p.decision.Memory.Recommendations
	*list = remember(&p.scratch.recommendations, rules, *list, recommended, p.now)
}

// zeroed returns a list of so many zero values, in room that is there or, where it is too
// little, is made. It is never nil.
func zeroed[E any](room *[]E, n int) []E {
	if *room == nil || cap(*room) < n {
		*room = make([]E, n)
	}
	list := (*room)[:n:n]
	clear(list)
	return list
}
