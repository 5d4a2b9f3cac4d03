package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings/formula"
	"github.com/hpad/hpad/simulate"
)

// Condition compares two formulas of the values of a row, such as "shortage > 0.5%". The values of the
// first row have the prefix "active_".
type Condition struct {
	text        string
	left, right *formula.Formula
	holds       func(a, b float64) bool
}

var (
	comparison  = regexp.MustCompile(`^([^<>=]+)(<=|>=|<|>)([^<>=]+)$`)
	percentages = regexp.MustCompile(`([0-9.]+)\s*%`)
	comparisons = map[string]func(a, b float64) bool{
		"<": func(a, b float64) bool { return a < b }, "<=": func(a, b float64) bool { return a <= b },
		">": func(a, b float64) bool { return a > b }, ">=": func(a, b float64) bool { return a >= b },
	}
)

// activePrefix is the prefix of the values of the first row.
const activePrefix = "active_"

// ParseCondition parses a condition. The error explains the form.
func ParseCondition(text string) (*Condition, error) {
	parts := comparison.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%q is not a comparison, such as \"shortage > 0.5%%\" or \"instance_hours > 1.1 * active_instance_hours\"", text)
	}
	c := &Condition{text: strings.TrimSpace(text), holds: comparisons[parts[2]]}
	known := valuesOf(&simulate.Score{}, "")
	maps.Copy(known, valuesOf(&simulate.Score{}, activePrefix))
	for _, side := range []struct {
		to   **formula.Formula
		text string
	}{{&c.left, parts[1]}, {&c.right, parts[3]}} {
		parsed, err := formula.Parse(strings.TrimSpace(percentages.ReplaceAllString(side.text, "($1 / 100)")))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		for _, name := range parsed.Names() {
			if _, ok := known[name]; !ok {
				return nil, fmt.Errorf("%q: there is no value %q; the values are %s", text, name,
					strings.Join(slices.Sorted(maps.Keys(valuesOf(&simulate.Score{}, ""))), ", "))
			}
		}
		*side.to = parsed
	}
	return c, nil
}

// UsesCost reports whether the condition compares costs, which need a price.
func (c *Condition) UsesCost() bool {
	return slices.ContainsFunc(c.names(), func(name string) bool { return strings.TrimPrefix(name, activePrefix) == "cost" })
}

func (c *Condition) names() []string { return slices.Concat(c.left.Names(), c.right.Names()) }

// Failing returns the labels of the rows for which the condition holds: all rows but the first one, or
// the first one if there is no other.
func (c *Condition) Failing(result *simulate.Result) (labels []string, err error) {
	rows := result.Rows
	if len(rows) > 1 {
		rows = rows[1:]
	}
	for i := range rows {
		values := valuesOf(&rows[i].Score, "")
		maps.Copy(values, valuesOf(&result.Rows[0].Score, activePrefix))
		for _, name := range c.names() {
			if _, ok := values[name]; !ok {
				return nil, fmt.Errorf("%q: the data do not contain %s of %s", c.text, name, rows[i].Label)
			}
		}
		left, err := c.left.Evaluate(values)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", c.text, err)
		}
		right, err := c.right.Evaluate(values)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", c.text, err)
		}
		if c.holds(left, right) {
			labels = append(labels, rows[i].Label)
		}
	}
	return labels, nil
}

func (c *Condition) String() string { return c.text }

// valuesOf returns the numbers of a score by their names in JSON.
func valuesOf(score *simulate.Score, prefix string) map[string]float64 {
	values, named := map[string]float64{}, map[string]float64{}
	if text, err := json.Marshal(score); err == nil {
		_ = json.Unmarshal(text, &values)
	}
	for name, value := range values {
		named[prefix+name] = value
	}
	return named
}
