package graph

import (
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// The columns of a pass.
const (
	replicas = iota
	desired
	minimum
	maximum
	observed
	ready
	reached
	passCase
	prevented
	passFlags
	command
	platformMin
	platformMax
	target
	passColumns
)

// The bits in passFlags.
const (
	outage = 1 << iota
	forced
)

// The columns of a metric.
const (
	proposal = iota
	unit
	readingFlags
	amount
	readyGroup
	unreadyGroup
	missingGroup
	ignoredGroup
	extraneousGroup
	readyRequest
	missingRequest
	unreadyRequest
	metricColumns
)

// The bits in readingFlags. Without hasReading, the pass did not read the metric.
const (
	hasReading = 1 << iota
	isMissing
	isPartial
	hasGroups
	hasRequests
)

// cases and directions are stored by index, so their order must not change.
var (
	cases = []policy.Case{
		"", policy.CaseUnreadable, policy.CaseDisabled, policy.CaseStopped, policy.CaseOff, policy.CaseAboveMax, policy.CaseBelowMin,
		policy.CaseRestored, policy.CaseCommanded, policy.CaseMetrics, policy.CaseMetricsFailed,
	}
	directions = []policy.Direction{"", policy.Up, policy.Down, policy.BothDirections}
)

// row returns the columns of a point.
func (p *Point) row(names []string) row {
	v := make([]int64, passColumns+metricColumns*len(p.Metrics))
	v[replicas], v[desired], v[minimum], v[maximum] = int64(p.Replicas), int64(p.Desired), int64(p.Min), int64(p.Max)
	v[observed], v[ready], v[reached] = int64(p.Observed), int64(p.Ready), optional(p.Reached)
	v[passCase], v[prevented] = int64(slices.Index(cases, p.Case)), int64(slices.Index(directions, p.Prevented))
	v[command], v[platformMin], v[platformMax], v[target] = int64(Unknown), optional(p.PlatformMin), optional(p.PlatformMax), int64(p.Target)
	v[passFlags] = flag(outage, p.Outage)
	if p.Command != nil {
		v[command] = int64(p.Command.Replicas)
		v[passFlags] |= flag(forced, p.Command.Force)
	}
	r := row{time: p.Time.UnixMilli(), metrics: names, values: v}
	for i := range p.Metrics {
		m := r.metric(i)
		m[proposal], m[unit], m[amount] = int64(p.Metrics[i].Proposal), int64(p.Metrics[i].Unit), p.Metrics[i].Formula
		if i < len(p.Readings) {
			putReading(m, &p.Readings[i])
		}
	}
	return r
}

func putReading(m []int64, reading *simulate.Reading) {
	m[amount] = reading.Milli
	m[readingFlags] = hasReading | flag(isMissing, reading.Missing) | flag(isPartial, reading.Partial)
	if g := reading.Groups; g != nil {
		m[readingFlags] |= hasGroups
		m[readyGroup], m[unreadyGroup], m[missingGroup] = int64(g.Ready), int64(g.Unready), int64(g.Missing)
		m[ignoredGroup], m[extraneousGroup] = int64(g.Ignored), int64(g.Extraneous)
	}
	if r := reading.Requests; r != nil {
		m[readingFlags] |= hasRequests
		m[readyRequest], m[missingRequest], m[unreadyRequest] = r.Ready, r.Missing, r.Unready
	}
}

// tick is the inverse of Point.row. recorded contains the indices of the metrics that have readings.
func (r *row) tick(recorded []int) simulate.Tick {
	v := r.values
	t := simulate.Tick{
		Time: time.UnixMilli(r.time), Replicas: int32(v[replicas]), Desired: int32(v[desired]), Reached: nullable(v[reached]),
		Observed: int32(v[observed]), Ready: int32(v[ready]), Case: at(cases, v[passCase]), Prevented: at(directions, v[prevented]),
		Outage: v[passFlags]&outage != 0, PlatformMin: nullable(v[platformMin]), PlatformMax: nullable(v[platformMax]),
	}
	if count := nullable(v[command]); count != nil {
		t.Command = &policy.Command{Replicas: *count, Force: v[passFlags]&forced != 0}
	}
	for _, i := range recorded {
		if r.metric(i)[readingFlags] != 0 {
			t.Readings = make([]simulate.Reading, len(recorded))
			break
		}
	}
	for at := range t.Readings {
		t.Readings[at] = readingOf(r.metric(recorded[at]))
	}
	return t
}

func readingOf(m []int64) simulate.Reading {
	bits := m[readingFlags]
	reading := simulate.Reading{Missing: bits&isMissing != 0 || bits == 0, Partial: bits&isPartial != 0, Milli: m[amount]}
	if bits&hasGroups != 0 {
		reading.Groups = &policy.Groups{
			Ready: int(m[readyGroup]), Unready: int(m[unreadyGroup]), Missing: int(m[missingGroup]),
			Ignored: int(m[ignoredGroup]), Extraneous: int(m[extraneousGroup]),
		}
	}
	if bits&hasRequests != 0 {
		reading.Requests = &policy.Requests{Ready: m[readyRequest], Missing: m[missingRequest], Unready: m[unreadyRequest]}
	}
	return reading
}

func flag(bit int64, set bool) int64 {
	if set {
		return bit
	}
	return 0
}

// at returns an element of a list that an index in a file refers to, or the zero value.
func at[T any](list []T, index int64) (found T) {
	if index >= 0 && index < int64(len(list)) {
		found = list[index]
	}
	return found
}

// optional returns the value of a count, or Unknown for nil. nullable is its inverse.
func optional(count *int32) int64 {
	if count == nil {
		return int64(Unknown)
	}
	return int64(*count)
}

func nullable(count int64) *int32 {
	if count == int64(Unknown) {
		return nil
	}
	return new(int32(count))
}
