package live

import (
	"fmt"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/config/query"
)

// countedRanges is over how many ranges samples are counted, so that one scrape more
// or less makes no difference.
const countedRanges = 10

// rangesOf returns the ranges of a query; none of what is no PromQL.
func rangesOf(text string) []query.Range {
	q, err := query.Parse(text)
	if err != nil {
		return nil
	}
	return q.Ranges()
}

// checkRanges finds ranges that have fewer samples than their functions need. It
// is no problem by itself: the series may be younger than what was counted.
func (c *checker) checkRanges(key string, in config.Input) {
	for _, r := range rangesOf(in.Query) {
		counted := c.answers[question{source: in.Source, text: r.Count(countedRanges)}]
		if counted.untried || counted.err != nil || len(counted.found.Vector.Series) != 1 {
			continue
		}
		found := counted.found.Vector.Series[0].Value / countedRanges
		if found < 0.9*float64(r.Samples) { // scrapes are not on the dot
			c.note(key, fmt.Sprintf("%s over %s needs %d in that time, and has %.1f samples there on average: use a longer range, better four times the interval of the samples",
				r.Function, r.Span, r.Samples, found))
		}
	}
}
