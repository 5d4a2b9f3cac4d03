package monitoring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/systemd"
)

// rareConditions lists conditions that queries can use although no autoscaler in this test sets
// them.
var rareConditions = []string{
	string(round.EndpointsFailed), string(cloud.InsufficientCapacity), string(drain.ConditionDrainFailed),
	string(nomad.AllocationsFailing), string(compose.ContainersFailing), string(process.ProcessesFailing), string(swarm.TasksFailing),
	string(systemd.UnitsFailing), string(systemd.UnitsMissing), string(round.InstancesUnready),
}

// reporter is a *testing.T or a tally.
type reporter interface {
	Errorf(format string, arguments ...any)
	Helper()
}

// tally counts errors and stores the last one.
type tally struct {
	wrong int
	last  string
}

func (c *tally) Errorf(format string, arguments ...any) {
	c.wrong++
	c.last = fmt.Sprintf(format, arguments...)
}

func (*tally) Helper() {}

// checkQuery checks that a query is valid and that hpad exports its names, labels and values. It
// returns all labels in the query's selectors.
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
					t.Errorf("%s\ngroups by the unknown label %q, got %s", query, label, all)
				}
			}
		}
		return nil
	}
	parser.Inspect(expression, grouped)
	return all
}

// checkSelector checks a selector and adds its labels to all.
func checkSelector(t reporter, exported map[string]family, selector *parser.VectorSelector, all family) {
	t.Helper()
	known, ok := exported[selector.Name]
	if !ok {
		t.Errorf("%s: hpad does not export %q", selector, selector.Name)
		return
	}
	maps.Copy(all, known)
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		values, ok := known[matcher.Name]
		if !ok {
			t.Errorf("%s: unknown label %q, got %s", selector, matcher.Name, known)
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

// checkMentions checks that all labels in a text exist.
func checkMentions(t reporter, text string, pattern *regexp.Regexp, known family) {
	t.Helper()
	for _, mention := range pattern.FindAllStringSubmatch(text, -1) {
		if _, there := known[mention[1]]; !there {
			t.Errorf("%q: unknown label %q, got %s", text, mention[1], known)
		}
	}
}
