package document

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/sources"
)

// maxSelector is the maximum length of a selector in bytes.
const maxSelector = 16 << 10

// parseSelector parses a plain selector with the name of a metric.
func parseSelector(text string) (*parser.VectorSelector, error) {
	if len(text) > maxSelector {
		return nil, fmt.Errorf("has %d bytes, and a selector can have at most %d", len(text), maxSelector)
	}
	const form = `must be a plain selector, such as queue_length{queue="work"}`
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", form, err)
	}
	selector, ok := expr.(*parser.VectorSelector)
	switch {
	case !ok || selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0:
		return nil, errors.New(form + ", because the document has only current values: for functions, use a source of kind \"embedded\" or \"prometheus\"")
	case nameOf(selector) == "":
		return nil, errors.New(form + ", with the name of a metric")
	}
	return selector, nil
}

func nameOf(selector *parser.VectorSelector) string {
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel && matcher.Type == labels.MatchEqual {
			return matcher.Value
		}
	}
	return ""
}

// exposition contains the samples of a document by metric name.
type exposition map[string][]sample

type sample struct {
	labels labels.Labels
	value  float64
	// at is the timestamp, or zero.
	at time.Time
}

func parseExposition(page Page) (document, error) {
	text := page.Text
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, errors.New("the document is incomplete: its last line has no end")
	}
	p, err := textparse.New(text, page.Type, labels.NewSymbolTable(), textparse.ParserOptions{FallbackContentType: "text/plain"})
	if p == nil {
		return nil, fmt.Errorf("content type %q: %w", sources.Shorten(page.Type, maxShownQuery), err)
	}
	found := exposition{}
	for {
		entry, err := p.Next()
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("the document%s is not in the text format of metrics: %s", page.ofType(), sources.Shorten(err.Error(), maxShownText))
		case entry != textparse.EntrySeries:
			continue
		}
		var s sample
		var at *int64 // belongs to the parser
		if _, at, s.value = p.Series(); at != nil {
			s.at = time.UnixMilli(*at)
		}
		p.Labels(&s.labels)
		name := s.labels.Get(model.MetricNameLabel)
		found[name] = append(found[name], s)
	}
}

func (e exposition) collect(query sources.Query, at, oldest time.Time, c *sources.Collector) (string, error) {
	selector, err := parseSelector(query.Text)
	if err != nil {
		return "", err
	}
	name, absence := nameOf(selector), ""
	for _, s := range e[name] {
		if !selects(selector, s.labels) {
			continue
		}
		when := at
		if !s.at.IsZero() && s.at.Before(at) {
			when = s.at
		}
		if when.Before(oldest) {
			absence = fmt.Sprintf("the last sample of %s is from %s, which is older than max_age", name, when.UTC().Format(time.RFC3339))
			continue
		}
		var err error
		s.labels.Range(func(label labels.Label) {
			err = errors.Join(err, c.Label([]byte(label.Name), []byte(label.Value)))
		})
		if err = errors.Join(err, c.Add(s.value, when)); err != nil {
			return "", err
		}
	}
	switch {
	case absence != "":
		return absence, nil
	case len(e[name]) == 0:
		return fmt.Sprintf("there is no metric %q", name), nil
	}
	return fmt.Sprintf("there are %d series named %q, such as %s, but none matches", len(e[name]), name, sources.Shorten(e[name][0].labels.String(), maxShownQuery)), nil
}

func selects(selector *parser.VectorSelector, series labels.Labels) bool {
	for _, matcher := range selector.LabelMatchers {
		if !matcher.Matches(series.Get(matcher.Name)) {
			return false
		}
	}
	return true
}
