package query

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// labelSet contains the labels that the series of an expression can have: the names, or with except
// all labels other than the names.
type labelSet struct {
	except bool
	names  []string
}

func (s labelSet) has(name string) bool { return slices.Contains(s.names, name) != s.except }

// none reports whether the expression has at most one series, without labels.
func (s labelSet) none() bool { return !s.except && len(s.names) == 0 }

func (s labelSet) only(names []string) labelSet { return labelSet{names: filtered(names, s.has)} }

func (s labelSet) with(names ...string) labelSet {
	if s.except {
		return labelSet{except: true, names: filtered(s.names, func(name string) bool { return !slices.Contains(names, name) })}
	}
	return labelSet{names: slices.Concat(s.names, names)}
}

func (s labelSet) without(names ...string) labelSet {
	if s.except {
		return labelSet{except: true, names: slices.Concat(s.names, names)}
	}
	return labelSet{names: filtered(s.names, func(name string) bool { return !slices.Contains(names, name) })}
}

func (s labelSet) or(other labelSet) labelSet {
	switch {
	case !other.except:
		return s.with(other.names...)
	case !s.except:
		return other.with(s.names...)
	}
	return labelSet{except: true, names: filtered(s.names, func(name string) bool { return !other.has(name) })}
}

func filtered(names []string, keep func(name string) bool) (kept []string) {
	for _, name := range names {
		if keep(name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// aggregated returns the labels of an aggregation over series with the given labels.
func aggregated(e *parser.AggregateExpr, labels labelSet) labelSet {
	if e.Without {
		labels = labels.without(e.Grouping...)
	} else {
		labels = labels.only(e.Grouping)
	}
	if added, ok := e.Param.(*parser.StringLiteral); ok && e.Op == parser.COUNT_VALUES {
		return labels.with(added.Val)
	}
	return labels
}

// matched returns the labels of an operation on two operands.
func matched(e *parser.BinaryExpr, left, right labelSet) labelSet {
	matching := e.VectorMatching
	switch {
	case matching == nil || e.Op == parser.LOR: // a number and a vector, or the series of both operands
		return left.or(right)
	case e.Op == parser.LAND || e.Op == parser.LUNLESS:
		return left
	case matching.Card == parser.CardOneToMany:
		return right.with(matching.Include...)
	case matching.Card == parser.CardManyToOne:
		return left.with(matching.Include...)
	case matching.On:
		return left.only(right.only(matching.MatchingLabels).names)
	}
	return left.without(matching.MatchingLabels...)
}
