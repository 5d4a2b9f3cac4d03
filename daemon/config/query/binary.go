package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// binary returns the meaning of an operation on two operands.
func (a *analysis) binary(e *parser.BinaryExpr) meaning {
	left, right := a.of(e.LHS), a.of(e.RHS)
	var m meaning
	switch {
	case e.Op == parser.LOR:
		if m = left; left.kind == constant {
			m = right
		}
		m.counters = merged(left.counters, right.counters)
	case e.Op == parser.LAND || e.Op == parser.LUNLESS:
		m = left
	case e.Op.IsComparisonOperator():
		if m = left; left.kind == constant {
			m = right
		}
		if e.ReturnBool {
			m = meaning{kind: truth, scale: 1, size: 1, health: m.health}
		}
	case left.kind == constant && right.kind == constant:
		m = number(folded(e.Op, left.offset, right.offset))
	case right.kind == constant:
		m = left.withConstant(e.Op, right.offset)
	case left.kind == constant:
		m = right.ofConstant(e.Op, left.offset)
	case e.Op == parser.ADD && right.scale < 0:
		m = combined(parser.SUB, left, right)
	case e.Op == parser.ADD && left.scale < 0:
		m = combined(parser.SUB, right, left)
	default:
		m = combined(e.Op, left, right)
	}
	m.labels, m.gap = matched(e, left.labels, right.labels), binaryGap(e, left, right)
	m.health = (left.health || left.kind == constant) && (right.health || right.kind == constant)
	return m
}

func folded(op parser.ItemType, left, right float64) float64 {
	switch op {
	case parser.ADD:
		return left + right
	case parser.SUB:
		return left - right
	case parser.MUL:
		return left * right
	case parser.DIV:
		return left / right
	case parser.MOD:
		return math.Mod(left, right)
	case parser.POW:
		return math.Pow(left, right)
	}
	return math.NaN()
}

// withConstant returns the meaning of an arithmetic operation with a constant on the right.
func (m meaning) withConstant(op parser.ItemType, value float64) meaning {
	switch op {
	case parser.ADD:
		return m.linear(1, value)
	case parser.SUB:
		return m.linear(1, -value)
	case parser.MUL:
		return m.linear(value, 0)
	case parser.DIV:
		return m.linear(1/value, 0)
	case parser.POW:
		m.unit = ""
		return m
	}
	return meaning{scale: 1, size: 1}
}

// ofConstant returns the meaning of an arithmetic operation with a constant on the left.
func (m meaning) ofConstant(op parser.ItemType, value float64) meaning {
	switch op {
	case parser.ADD:
		return m.linear(1, value)
	case parser.SUB:
		return m.linear(-1, value)
	case parser.MUL:
		return m.linear(value, 0)
	}
	inverse := meaning{scale: 1, size: 1, counters: m.counters}
	if op == parser.DIV && (m.kind == share || m.kind == average) {
		inverse.kind = m.kind
	}
	return inverse
}

// combined returns the meaning of an arithmetic operation on two operands that are not constant.
func combined(op parser.ItemType, left, right meaning) meaning {
	m := meaning{scale: 1, size: 1, words: left.words, matchers: left.matchers, past: left.past, changes: left.changes || right.changes, summed: left.summed || right.summed}
	same := left.kind == right.kind
	switch op {
	case parser.ADD:
		m.counters = merged(left.counters, right.counters)
		switch {
		case left.grows() && right.adds() || right.grows() && left.adds():
			m.kind = total
		case same:
			m.kind = left.kind
		}
	case parser.SUB:
		switch {
		case same && left.kind != truth && left.remains(right):
			m.kind = left.kind
		case left.changes && right.changes && left.isWork() && right.isWork() && !left.growsAgainst(right):
			m.kind = difference
		}
	case parser.MUL:
		m.counters, m.buckets = left.counters, left.buckets
		switch {
		case right.kind == truth:
			m.kind = left.kind
		case left.kind == truth:
			m.kind, m.words, m.matchers = right.kind, right.words, right.matchers
		case left.kind == average && right.grows() || right.kind == average && left.grows():
			m.kind = total
		case same && left.kind != total && left.kind != backlog:
			m.kind = left.kind
		}
	case parser.DIV:
		m.counters, m.kind, m.observed = left.counters, share, left.isSumOf(right)
		if right.kind == total || right.kind == backlog && right.summed {
			m.kind = average
		}
	}
	switch {
	case (op == parser.ADD || op == parser.SUB) && left.unit == right.unit, (op == parser.DIV || op == parser.MUL) && right.unit == "":
		m.unit, m.size = left.unit, left.size
	}
	return m
}

// The words of series whose difference from others is a remainder or a part.
var (
	limitWords = []string{"allocatable", "capacity", "desired", "limit", "limits", "max", "maximum", "quota", "size", "slots", "spec", "total"}
	freeWords  = []string{"available", "free", "idle", "unused"}
	usedWords  = []string{"active", "allocated", "assigned", "busy", "inuse", "occupied", "running", "used"}
	partWords  = []string{
		"aborted", "blocked", "bot", "bots", "cached", "canceled", "cancelled", "denied", "dropped", "error", "errors", "failed", "failure", "failures", "health",
		"healthcheck", "healthchecks", "hits", "ignored", "invalid", "misses", "probe", "probes", "redirects", "rejected", "retried", "retries", "skipped", "static",
		"throttled", "timeout", "timeouts",
	}
	entryWords = []string{
		"accepted", "add", "added", "arrivals", "arrived", "created", "enqueued", "generated", "in", "incoming", "ingress", "input", "inserted", "new", "opened",
		"produced", "published", "queued", "receive", "received", "rx", "scheduled", "started", "submitted",
	}
	exitWords = []string{
		"acked", "acknowledged", "acks", "answered", "cleared", "closed", "completed", "completions", "consumed", "deleted", "delivered", "dequeued", "done",
		"drained", "egress", "ended", "executed", "exited", "expired", "finished", "handled", "out", "outgoing", "output", "popped", "processed", "removed",
		"resolved", "responses", "sent", "served", "succeeded", "success", "successful", "transmit", "transmitted", "tx",
	}
)

// remains reports whether the difference to another value of the same kind has this kind, too. It is
// false for a difference that falls when instances are added, such as the growth of a queue or the
// remainder of a limit, and if this is unknown.
func (m meaning) remains(part meaning) bool {
	switch {
	case m.kind == share || m.kind == average:
		return !m.changes && !part.changes
	case m.changes != part.changes || m.health || part.health:
		return false
	case m.changes:
		return m.kind != backlog && (m.includes(part) || containsAny(part.words, partWords) || m.qualifiedBy(part) && !containsAny(part.words, exitWords))
	case len(m.counters) > 0 && len(part.counters) > 0:
		return true // such as started and finished requests
	case containsAny(m.words, limitWords):
		return containsAny(part.words, freeWords)
	}
	return !containsAny(part.words, usedWords) || containsAny(m.words, usedWords)
}

// isWork reports whether the value, or its sum, is an amount of work.
func (m meaning) isWork() bool { return m.grows() || m.kind == level || m.kind == peak }

// growsAgainst reports whether the difference of two rates is certainly not a total, but the growth of
// a backlog, or the difference of two parts of one metric.
func (m meaning) growsAgainst(part meaning) bool {
	return m.health || part.health || containsAny(m.words, entryWords) || containsAny(part.words, exitWords) || slices.Equal(m.words, part.words)
}

// isSumOf reports whether the value is the sum of a histogram or summary with the given count.
func (m meaning) isSumOf(count meaning) bool {
	last := len(m.words) - 1
	return last > 0 && len(count.words) == last+1 && m.words[last] == "sum" && count.words[last] == "count" && slices.Equal(m.words[:last], count.words[:last])
}

// qualifiedBy reports whether another name adds words to this one, such as requests_static_total.
func (m meaning) qualifiedBy(part meaning) bool {
	missing := slices.ContainsFunc(m.words, func(word string) bool { return !slices.Contains(part.words, word) })
	return len(m.words) > 0 && len(part.words) > len(m.words) && !missing
}

// includes reports whether each series of another selector is also selected by this one.
func (m meaning) includes(part meaning) bool {
	if len(m.matchers) == 0 || !slices.Equal(m.words, part.words) || m.past != part.past {
		return false
	}
	selects := map[string]bool{}
	for _, matcher := range part.matchers {
		selects[matcher.String()] = true
	}
	return !slices.ContainsFunc(m.matchers, func(matcher *labels.Matcher) bool { return !selects[matcher.String()] })
}

// grows reports whether the value is a total of work, and adds whether its sum with a total is one.
func (m meaning) grows() bool { return m.kind == total || m.kind == backlog }

func (m meaning) adds() bool { return m.isWork() || m.kind == truth }

// merged returns the counters of two operands, at most maxCounters.
func merged(left, right []string) []string {
	return append(left[:len(left):len(left)], right[:min(len(right), maxCounters-len(left))]...)
}

// maxCounters limits the number of counters that are reported for one query.
const maxCounters = 3

// mirrored maps a comparison operator to the operator that is equivalent after the operands are
// swapped or negated.
var mirrored = map[parser.ItemType]parser.ItemType{parser.LSS: parser.GTR, parser.LTE: parser.GTE, parser.GTR: parser.LSS, parser.GTE: parser.LTE}

// binaryGap returns the part of an operation that removes all series in ordinary operation.
func binaryGap(e *parser.BinaryExpr, left, right meaning) string {
	switch e.Op {
	case parser.LOR:
		if right.gap == "" {
			return ""
		}
		return left.gap
	case parser.LUNLESS:
		return cmp.Or(left.gap, complement(e))
	case parser.DIV:
		return left.gap // a comparison in the divisor prevents a division by zero
	}
	if gap := cmp.Or(left.gap, right.gap); gap != "" || !e.Op.IsComparisonOperator() || e.ReturnBool {
		return gap
	}
	vector, limit, op := left, right, e.Op
	if left.kind == constant {
		vector, limit, op = right, left, cmp.Or(mirrored[op], op)
	}
	if vector.health || vector.kind == constant {
		return ""
	}
	if limit.kind != constant {
		if op == parser.GTR || op == parser.GTE {
			return op.String() + " …"
		}
		return ""
	}
	value, shown := (limit.offset-vector.offset)/vector.scale, fmt.Sprintf("%s %v", op, limit.offset)
	if vector.scale < 0 {
		op = cmp.Or(mirrored[op], op)
	}
	switch {
	case op == parser.GTR && value >= 0, op == parser.GTE && value > 0, op == parser.EQLC, op == parser.NEQ && value == 0:
		return shown
	}
	return ""
}

// complement returns the comparison in "x unless x < 5", which is "x >= 5" in a different spelling.
func complement(e *parser.BinaryExpr) string {
	removed, ok := bare(e.RHS).(*parser.BinaryExpr)
	if !ok || removed.ReturnBool || removed.Op != parser.LSS && removed.Op != parser.LTE && removed.Op != parser.EQLC {
		return ""
	}
	limit, ok := bare(removed.RHS).(*parser.NumberLiteral)
	left, other := bare(e.LHS), bare(removed.LHS)
	at, otherAt := left.PositionRange(), other.PositionRange()
	// The comparison of lengths makes the cost of a long chain linear.
	if !ok || at.End-at.Start != otherAt.End-otherAt.Start || left.String() != other.String() {
		return ""
	}
	return fmt.Sprintf("unless … %s %v", removed.Op, limit.Val)
}
