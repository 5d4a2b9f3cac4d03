package query

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/sources"
)

const (
	// maxDiagnosed limits the number of selectors in a query that are diagnosed. maxExamples limits
	// the number of series that each part of the diagnosis query returns.
	maxDiagnosed = 3
	maxExamples  = 5
	// maxShownSeries and maxCause limit the lengths of a shown series and of the cause, in
	// characters.
	maxShownSeries = 200
	maxCause       = 600
	// defaultLookback is Prometheus' default lookback. Every diagnosis is evaluated with it.
	defaultLookback = 5 * time.Minute
	// partLabel is the label that identifies the part of the diagnosis query from which a series
	// comes. Results without the part wholePart are ignored.
	partLabel = "hpad_part"
	wholePart = "whole"
)

// Absence diagnoses why a query returned no result.
type Absence struct {
	// Query is a single query for the facts that Cause needs. It returns few series.
	Query     sources.Query
	lookback  time.Duration
	selectors []selector
}

// selector selects series in a query that returned no result.
type selector struct {
	// text is the selector as written. ranged is the selector with a range of one hour. name is the
	// metric name, or "" if the selector does not fix it.
	text, ranged, name string
	// others contains all matchers except the matcher for the metric name.
	others []*labels.Matcher
	// span is the range in square brackets, or 0 for an instant selector.
	span, offset time.Duration
}

// NewAbsence returns the diagnosis for a query without a result. It returns false if the query has
// no selector or is not PromQL. The argument lookback is the maximum age of a sample; 0 means
// Prometheus' default.
func NewAbsence(text string, lookback time.Duration) (*Absence, bool) {
	parsed, err := ParseFlagged(text)
	if err != nil {
		return nil, false
	}
	a := &Absence{lookback: cmp.Or(lookback, defaultLookback)}
	parts := []string{part(wholePart, "vector(1)")}
	parser.Inspect(parsed.expr, func(node parser.Node, path []parser.Node) error {
		found, ok := node.(*parser.VectorSelector)
		if !ok || len(a.selectors) == maxDiagnosed {
			return nil
		}
		s := newSelector(found, path)
		if !slices.ContainsFunc(a.selectors, func(other selector) bool { return other.text == s.text && other.span == s.span }) {
			parts = append(parts, s.parts(len(a.selectors))...)
			a.selectors = append(a.selectors, s)
		}
		return nil
	})
	a.Query = sources.Query{Text: strings.Join(parts, " or "), MaxAge: defaultLookback, Diagnosis: true}
	return a, len(a.selectors) > 0
}

// Age returns a query for the age in seconds of the newest samples that another query selects. For
// several series, the result is the largest age. Age returns false if the query has no selector.
func Age(q *sources.Query) (sources.Query, bool) {
	parsed, err := ParseFlagged(q.Text)
	if err != nil {
		return sources.Query{}, false
	}
	var ages []string
	parser.Inspect(parsed.expr, func(node parser.Node, _ []parser.Node) error {
		if found, ok := node.(*parser.VectorSelector); ok && len(ages) < maxDiagnosed {
			ages = append(ages, part(partName("age", len(ages)), "max(time() - timestamp("+found.String()+"))"))
		}
		return nil
	})
	text := part(wholePart, "max("+strings.Join(ages, " or ")+")")
	return sources.Query{Text: text, MaxAge: q.MaxAge, Diagnosis: true}, len(ages) > 0
}

// AgeIn returns the age from the result of an Age query, or 0 if the result is empty.
func AgeIn(result sources.Vector) time.Duration {
	if len(result.Series) != 1 || result.Series[0].Labels.Get(partLabel) != wholePart {
		return 0
	}
	return time.Duration(result.Series[0].Value * float64(time.Second))
}

func newSelector(found *parser.VectorSelector, path []parser.Node) selector {
	ranged := &parser.MatrixSelector{VectorSelector: found, Range: time.Hour}
	s := selector{text: found.String(), ranged: ranged.String(), offset: found.OriginalOffset}
	if len(path) > 0 {
		if matrix, ok := path[len(path)-1].(*parser.MatrixSelector); ok {
			s.span = matrix.Range
		}
	}
	for _, matcher := range found.LabelMatchers {
		switch {
		case matcher.Name != model.MetricNameLabel:
			s.others = append(s.others, matcher)
		case matcher.Type == labels.MatchEqual:
			s.name = matcher.Value
		}
	}
	return s
}

// parts returns the expressions for the facts about the selector: samples now, samples within an
// hour, the age of the last sample, series of the same name, and failing scrapes.
func (s *selector) parts(number int) []string {
	parts := []string{part(partName("alive", number), "count("+s.text+")")}
	if s.name == "" {
		return parts
	}
	var by, scraped []string
	for _, matcher := range s.others {
		if by = append(by, matcher.Name); !model.LegacyValidation.IsValidLabelName(matcher.Name) {
			by[len(by)-1] = strconv.Quote(matcher.Name)
		}
		if matcher.Name == model.JobLabel || matcher.Name == model.InstanceLabel {
			scraped = append(scraped, matcher.String())
		}
	}
	var last []string
	for _, steps := range []string{"[2m:1s]", "[1h:15s]", "[1d:5m]"} { // the step limits the accuracy for a series that has ended
		last = append(last, "max_over_time(timestamp("+s.text+")"+steps+")")
	}
	named := fmt.Sprintf("last_over_time({%s=%s}[1h])", model.MetricNameLabel, strconv.Quote(s.name))
	down := "up{" + strings.Join(scraped, ",") + "} == 0"
	return append(parts,
		part(partName("lately", number), "count(last_over_time("+s.ranged+"))"),
		part(partName("age", number), fmt.Sprintf("bottomk(%d, time() - max by (job, instance) (%s))", maxExamples, strings.Join(last, " or "))),
		part(partName("down", number), fmt.Sprintf("topk(%d, (%s) and on (job, instance) %s)", maxExamples, down, named)),
		part(partName("anydown", number), fmt.Sprintf("topk(%d, %s)", maxExamples, down)),
		part(partName("like", number), fmt.Sprintf("topk(%d, topk by (%s) (1, %s))", maxExamples, strings.Join(by, ", "), named)))
}

func partName(kind string, number int) string { return kind + strconv.Itoa(number) }

// part adds partLabel to the series of an expression, so that they can be identified in the
// result.
func part(name, expression string) string {
	return fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", expression, partLabel, name)
}

// Cause returns the cause of the missing result. The argument facts is the result of Query at the
// given instant. Cause returns "" if the facts are incomplete.
func (a *Absence) Cause(facts sources.Vector, at time.Time) string {
	found := map[string][]sources.Series{}
	for _, series := range facts.Series {
		name := series.Labels.Get(partLabel)
		found[name] = append(found[name], series)
	}
	if len(found[wholePart]) == 0 || facts.Partial() != "" {
		return ""
	}
	var causes []string
	for i := range a.selectors {
		facts := func(kind string) []sources.Series { return found[partName(kind, i)] }
		if cause := a.cause(&a.selectors[i], facts, at); cause != "" {
			causes = append(causes, cause)
		}
	}
	if len(causes) == 0 {
		return "its series exist, but its functions, comparisons or joins remove all of them"
	}
	return cut(strings.Join(causes, "; "), maxCause)
}

// cause returns the cause for one selector, or "" if the selector has samples. The function found
// returns the series of a part.
func (a *Absence) cause(s *selector, found func(part string) []sources.Series, at time.Time) string {
	text, last, age, down := cut(s.text, maxShownSeries), "", time.Duration(-1), scrapes(found("down"))
	for _, series := range found("age") {
		old := time.Duration(series.Value * float64(time.Second))
		if age < 0 || old-s.offset < age {
			age = max(0, old-s.offset)
			last = fmt.Sprintf("the last sample of %s is from %s", text, at.Add(-old).UTC().Format(time.RFC3339))
		}
	}
	if last == "" && len(found("lately")) > 0 {
		last = text + " had samples within the last hour"
	}
	limit, kind := a.lookback, "lookback"
	if s.span > 0 {
		limit, kind = s.span, "range"
	}
	named := fmt.Sprintf("there are series named %q, but ", s.name)
	switch alive := len(found("alive")) > 0; {
	case alive && age <= limit:
		return ""
	case last != "" && !alive && down != "":
		return down + "; " + last
	case last != "" && age > limit:
		return fmt.Sprintf("%s, older than the %s of %s", last, kind, model.Duration(limit))
	case last != "":
		return last + ", and then the series ended"
	case len(found("like")) > 0 && len(s.others) == 0:
		return named + text + " has no samples"
	case len(found("like")) > 0:
		var matchers []string
		for _, matcher := range s.others {
			matchers = append(matchers, matcher.String())
		}
		return join(named+"none with "+cut("{"+strings.Join(matchers, ", ")+"}", maxShownSeries)+"; there are "+shown(found("like"), nil), down)
	case s.name == "":
		return "no series matches " + text
	}
	return join(fmt.Sprintf("there is no series named %q", s.name), scrapes(found("anydown")))
}

func join(text, other string) string {
	if other == "" {
		return text
	}
	return text + "; " + other
}

func scrapes(failing []sources.Series) string {
	if len(failing) == 0 {
		return ""
	}
	return "the scrape of " + shown(failing, []string{model.JobLabel, model.InstanceLabel}) + " fails"
}

// shown formats the labels of series. If only is not nil, it limits the labels.
func shown(series []sources.Series, only []string) string {
	var texts []string
	for i := range series {
		kept := slices.DeleteFunc(slices.Clone(series[i].Labels), func(label sources.Label) bool {
			return label.Name == partLabel || label.Name == model.MetricNameLabel || only != nil && !slices.Contains(only, label.Name)
		})
		texts = append(texts, cut(kept.String(), maxShownSeries))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// cut truncates a text to a number of characters.
func cut(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}
