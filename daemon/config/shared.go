package config

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// texts has one copy of each text of the files, so that the files themselves, of whose
// bytes the parser's texts are parts, are not held.
type texts map[string]any

// kept returns the text's copy, which is a string.
func (t texts) kept(text string) any {
	if one, ok := t[text]; ok {
		return one
	}
	own := strings.Clone(text)
	t[own] = own
	return t[own]
}

// shared has one copy of what many autoscalers say alike, which is never changed. The
// zero shared has nothing yet.
type shared struct {
	counts     map[int32]*int32
	metrics    lists[metricKey, policy.MetricSpec]
	inputs     lists[inputKey, Input]
	amounts    lists[policy.Amount, policy.Amount]
	policies   lists[policy.ScalingPolicy, policy.ScalingPolicy]
	directions map[rulesKey]*policy.ScalingRules
	behaviors  map[policy.Behavior]*policy.Behavior
}

// share has an autoscaler hold the shared copies of what it says.
func (s *shared) share(a *Autoscaler) {
	if least := a.Spec.MinReplicas; least != nil {
		a.Spec.MinReplicas = one(&s.counts, *least, least)
	}
	a.Spec.Metrics = s.metrics.of(a.Spec.Metrics, metricKeyOf)
	if b := a.Spec.Behavior; b != nil {
		own := policy.Behavior{ScaleUp: s.direction(b.ScaleUp), ScaleDown: s.direction(b.ScaleDown)}
		a.Spec.Behavior = one(&s.behaviors, own, &own)
	}
	a.Requests = s.amounts.of(a.Requests, func(amount policy.Amount) policy.Amount { return amount })
	if !slices.ContainsFunc(a.Inputs, func(in Input) bool { return in.Select != nil }) { // nearly each its own
		a.Inputs = s.inputs.of(a.Inputs, inputKeyOf)
	}
}

// direction returns the shared copy of one direction's rules, and nil for nil.
func (s *shared) direction(rules *policy.ScalingRules) *policy.ScalingRules {
	if rules == nil {
		return nil
	}
	own := *rules
	own.Policies = s.policies.of(own.Policies, func(p policy.ScalingPolicy) policy.ScalingPolicy { return p })
	key := rulesKey{window: optional(own.StabilizationWindowSeconds), selected: own.SelectPolicy, tolerance: optional(own.Tolerance)}
	if len(own.Policies) > 0 {
		key.policies = &own.Policies[0]
	}
	return one(&s.directions, key, &own)
}

// one returns what is known by a key, which is the value where nothing was.
func one[K comparable, V any](known *map[K]V, key K, value V) V {
	if other, ok := (*known)[key]; ok {
		return other
	}
	if *known == nil {
		*known = map[K]V{}
	}
	(*known)[key] = value
	return value
}

// lists has one copy of each list, found an element at a time.
type lists[K comparable, E any] struct {
	// next numbers the lists, of which 0 is the empty one.
	next map[step[K]]int
	all  map[int][]E
}

// step leads from the list of a number to that with one element more.
type step[K comparable] struct {
	from int
	key  K
}

// of returns the copy of a list, whose elements are the same iff their keys are.
func (l *lists[K, E]) of(list []E, keyOf func(E) K) []E {
	if len(list) == 0 {
		return list
	}
	at := 0
	for _, element := range list {
		at = one(&l.next, step[K]{at, keyOf(element)}, len(l.next)+1)
	}
	return one(&l.all, at, list)
}

// perhaps is a value or none.
type perhaps[T comparable] struct {
	given bool
	value T
}

func optional[T comparable](value *T) perhaps[T] {
	if value == nil {
		return perhaps[T]{}
	}
	return perhaps[T]{true, *value}
}

// metricKey is a metric without its pointers.
type metricKey struct {
	kind               policy.MetricType
	name, task, object string
	goal               policy.TargetType
	value, average     perhaps[int64]
	utilization        perhaps[int32]
	missing            perhaps[policy.OnMissing]
}

func metricKeyOf(m policy.MetricSpec) metricKey {
	return metricKey{
		m.Type, m.Name, m.Task, m.Object, m.Target.Type,
		optional(m.Target.ValueMilli), optional(m.Target.AverageValueMilli), optional(m.Target.AverageUtilization), optional(m.OnMissing),
	}
}

// rulesKey is one direction's rules without pointers but for that to the shared
// policies.
type rulesKey struct {
	window    perhaps[int32]
	selected  policy.SelectPolicy
	policies  *policy.ScalingPolicy
	tolerance perhaps[float64]
}

// inputKey is an input that selects nothing.
type inputKey struct {
	source, query, instanceLabel string
	match                        Match
	window                       time.Duration
	valid                        perhaps[Range]
	minSeries                    int
	emptyZero                    bool
	maxAge                       time.Duration
}

func inputKeyOf(in Input) inputKey {
	return inputKey{in.Source, in.Query, in.InstanceLabel, in.Match, in.Window, optional(in.Valid), in.MinSeries, in.EmptyZero, in.MaxAge}
}
