package monitoring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/systemd"
)

// rareConditions are conditions that no autoscaler of the daemon has, but that a
// query may ask for.
var rareConditions = []string{
	string(cloud.InsufficientCapacity), string(drain.ConditionDrainFailed),
	string(nomad.AllocationsFailing), string(compose.ContainersFailing), string(process.ProcessesFailing), string(swarm.TasksFailing),
	string(systemd.UnitsFailing), string(systemd.UnitsMissing), string(systemd.UnitsStuck),
}

// reporter takes what is wrong: a test, or tally.
type reporter interface {
	Errorf(format string, arguments ...any)
	Helper()
}

// tally counts what is wrong, and keeps the last of it.
type tally struct {
	wrong int
	last  string
}

// Errorf counts.
func (c *tally) Errorf(format string, arguments ...any) {
	c.wrong++
	c.last = fmt.Sprintf(format, arguments...)
}

// Helper does nothing.
func (*tally) Helper() {}

// checkQuery holds a query against what is exported: that it can be parsed, and
// that every name, label and value there is. It returns the labels that what it
// reads has.
func checkQuery(t reporter, exported map[string]family, query string) family {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s\n%v", query, err)
		return nil
	}
	all := family{}
	check := func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			checkSelector(t, exported, selector, all)
		}
		return nil
	}
	parser.Inspect(expression, check)
	grouped := func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				if _, there := all[label]; !there {
					t.Errorf("%s\ngroups by %q, but there are %s", query, label, all)
				}
			}
		}
		return nil
	}
	parser.Inspect(expression, grouped)
	return all
}

// checkSelector holds one selector against what is exported, and adds its labels
// to all.
func checkSelector(t reporter, exported map[string]family, selector *parser.VectorSelector, all family) {
	t.Helper()
	known, ok := exported[selector.Name]
	if !ok {
		t.Errorf("%s: hpad exports no %q", selector, selector.Name)
		return
	}
	maps.Copy(all, known)
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		values, ok := known[matcher.Name]
		if !ok {
			t.Errorf("%s: there is no label %q but %s", selector, matcher.Name, known)
			continue
		}
		if values == nil || strings.ContainsAny(matcher.Value, ".*$") {
			continue
		}
		for value := range strings.SplitSeq(matcher.Value, "|") {
			if !values[value] && (matcher.Name != "condition" || !slices.Contains(rareConditions, value)) {
				t.Errorf("%s: %s is never %q", selector, matcher.Name, value)
			}
		}
	}
}

// checkMentions holds the labels that a text asks for against those there are.
func checkMentions(t reporter, text string, pattern *regexp.Regexp, known family) {
	t.Helper()
	for _, mention := range pattern.FindAllStringSubmatch(text, -1) {
		if _, there := known[mention[1]]; !there {
			t.Errorf("%q: there is no label %q but %s", text, mention[1], known)
		}
	}
}
