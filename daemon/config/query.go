package config

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/config/query"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
)

// assumedInterval is the scrape interval assumed for servers with an unknown interval. It is
// shorter than usual intervals, to avoid false warnings.
const assumedInterval = 5 * time.Second

// checkAge warns if max_age does not apply to the query.
func (t *table) checkAge(path string, m metricTable) {
	if m.MaxAge == nil {
		return
	}
	if q, err := query.Parse(m.Query); err == nil && !q.Latest() {
		t.warn(under(path, "max_age"), "has no effect on the query: all its samples are from ranges in square brackets, which limit their age")
	}
}

// checkQuery records an error if a metric's query cannot return one value per series. It warns
// about queries that are probably wrong.
func (t *table) checkQuery(c *Config, path string, m metricTable) {
	source, ok := c.Sources[m.Source]
	if !ok || m.Query == "" {
		return // the error is already recorded
	}
	evaluator, evaluated := source.Config.(sources.Evaluator)
	q, unfit := parseFor(m.Query, evaluated)
	switch {
	case unfit == "":
	case evaluated:
		t.addWritten(under(path, "query"), unfit)
		return
	default:
		t.warn(under(path, "query"), unfit+"; hpad sends it anyway, because some servers extend PromQL")
		return
	}
	for _, r := range q.Ranges() {
		if !evaluated {
			if least := least(r, assumedInterval); r.Span < least {
				t.warn(under(path, "query"), fmt.Sprintf("%s over %s requires %s in that period, and few servers scrape every %s; use at least %s, or better four times the server's scrape_interval",
					r.Function, settings.Span(r.Span), samples(r), settings.Span(assumedInterval), settings.Span(least)))
			}
			continue
		}
		interval := evaluator.ScrapeInterval(r.OfJob)
		if least := least(r, interval); r.Span < least {
			t.addWritten(under(path, "query"), fmt.Sprintf("%s over %s requires %s in that period, and source %q scrapes every %s: use at least %s, or better %s",
				r.Function, settings.Span(r.Span), samples(r), m.Source, settings.Span(interval), settings.Span(least), settings.Span(4*interval)))
			return
		}
	}
	ofValue := m.metricType() == policy.ExternalMetric || m.metricType() == policy.ObjectMetric
	if ofValue && m.targetType() == policy.ValueTarget && q.Total() {
		t.warn(under(path, "value"), "the query is a total, which does not fall when instances are added: its ratio to value multiplies the count again in every evaluation; use average_value, the share that one instance can handle")
	}
}

// parseFor parses a query that hpad evaluates itself if evaluated is true, and otherwise sends to a
// server. unfit is the reason why the query cannot return one value per series, or empty.
func parseFor(text string, evaluated bool) (q query.Query, unfit string) {
	parse := query.ParseFlagged
	if evaluated {
		parse = query.Parse
	}
	q, err := parse(text)
	if err != nil {
		return q, "cannot be parsed: " + err.Error()
	}
	return q, q.Unfit()
}

// least returns the minimum length of a range that contains enough samples at a scrape interval.
func least(r query.Range, interval time.Duration) time.Duration {
	return time.Duration(r.Samples) * interval
}

func samples(r query.Range) string {
	if r.Samples == 1 {
		return "a sample"
	}
	return fmt.Sprintf("%d samples", r.Samples)
}
