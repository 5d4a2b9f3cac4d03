package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// metricTable is one table of [[autoscalers.NAME.metrics]].
type metricTable struct {
	// Type is the metric type: "Resource", "ContainerResource", "Instances" (also "Pods"), "Object"
	// or "External".
	Type metricType `toml:"type" values:"Resource ContainerResource Instances Object External"`
	// Name is an identifier without slash and percent sign: required for "Object"
	// and "External"; the default for "Instances" is "metric-" and its position.
	Name string `toml:"name" of:"Instances Object External"`
	// Resource is "cpu", "memory" or another resource: required for "Resource" and
	// "ContainerResource".
	Resource string `toml:"resource" of:"Resource ContainerResource"`
	// Task is the name of the measured task on the platform: required for "ContainerResource".
	Task string `toml:"task" of:"ContainerResource"`
	// Object is the described object, such as "route/main": required for "Object".
	Object string `toml:"object" of:"Object"`
	// TargetType is the type of the target value: "Utilization", "Value" or "AverageValue";
	// required for "Object" with both Value and AverageValue, otherwise derived from the given
	// target.
	TargetType string `toml:"target_type"`
	// Value is the target for the metric as a whole, for "Object" and "External". The metric must
	// fall when instances are added; greater than 0.
	Value *quantity.OrNumber `toml:"value"`
	// AverageValue is the target per instance; greater than 0.
	AverageValue *quantity.OrNumber `toml:"average_value"`
	// AverageUtilization is the target as a percentage of the request, for "Resource" and
	// "ContainerResource"; at least 1.
	AverageUtilization *int32 `toml:"average_utilization"`
	// AverageUtilizationOf is "limit" if the percentage is relative to the limit of an instance
	// instead of its request; by default, "request". All metrics of a resource must agree. "limit"
	// is not allowed with compat = "strict".
	AverageUtilizationOf string `toml:"average_utilization_of" values:"request limit" of:"Resource" requires:"average_utilization"`
	// Activation is the value that the metric must exceed to start the first instance; at least 0.
	// At 0 replicas, the metric proposes 0 unless its value is above Activation. Above 0 replicas,
	// it has no effect. Not allowed with compat = "strict".
	Activation *quantity.OrNumber `toml:"activation" of:"Object External" strict:"any value above 0 starts the first instance of an HPA's target"`
	// Source is the name of a source: required for "Instances", "Object" and "External". Without
	// it, a "Resource" or "ContainerResource" metric is read from the fleet.
	Source string `toml:"source"`
	// Query is the expression that is sent to the source, or that selects values from its document;
	// required with a source, except with format = "number".
	Query string `toml:"query" requires:"source"`
	// Select selects the series with these label values.
	Select map[string]string `toml:"select" requires:"source"`
	// InstanceLabel is the label that identifies the instance of a series: required if a source
	// returns a value for each instance.
	InstanceLabel string `toml:"instance_label" of:"Resource ContainerResource Instances" requires:"source"`
	// Match is the content of InstanceLabel: "id", "name" or "address" of the instance; by default,
	// "id".
	Match Match `toml:"match" values:"id name address" of:"Resource ContainerResource Instances" requires:"source"`
	// Window is the period that each value covers, for "Resource" and "ContainerResource" with a
	// source; required for cpu.
	Window *time.Duration `toml:"window" min:"0s" of:"Resource ContainerResource" requires:"source"`
	// Valid is the lowest and the highest valid value of a series; any other value makes the metric
	// fail. Not with compat = "strict".
	Valid []quantity.OrNumber `toml:"valid" requires:"source" strict:"an HPA accepts every reading"`
	// MinSeries is the minimum number of series, for metrics per instance the minimum number of
	// instances with a series; fewer make the metric fail. At least 1. Not with compat = "strict".
	MinSeries *int `toml:"min_series" of:"Resource ContainerResource Instances External" requires:"source" min:"1" strict:"an HPA accepts every reading"`
	// MaxAge is the maximum age of a reading; an older reading makes the metric fail: whole
	// seconds, at least 1s. With a source it replaces the source's lookback and limits the age of
	// the newest sample of each series, but does not affect ranges in square brackets.
	MaxAge *time.Duration `toml:"max_age" min:"1s" whole:"1s" must:"whole seconds, such as \"90s\", and at least \"1s\""`
	// Empty is the meaning of a result without series: "zero"; by default, a failure. Not with
	// MaxAge, which makes a result with old series empty, with MinSeries, or with
	// compat = "strict".
	Empty string `toml:"empty" values:"zero" of:"Object External" requires:"source" excludes:"max_age min_series" strict:"for an HPA a result without series is a failure"`
	// OnMissing is the proposal of the metric after it has failed for a while; by default, it
	// proposes no count, and the target is not scaled down while it fails. Not with compat =
	// "strict".
	OnMissing *onMissingTable `toml:"on_missing" strict:"a failed metric of an HPA has no proposal"`
}

const emptyZero = "zero"

// podsAlias is the upstream name of Instances.
const podsAlias = "Pods"

// metricType is a policy.MetricType. It decodes podsAlias as Instances.
type metricType string

// UnmarshalText reads a type, which policy.Validate checks.
func (m *metricType) UnmarshalText(text []byte) error {
	if *m = metricType(text); *m == podsAlias {
		*m = metricType(policy.InstancesMetric)
	}
	return nil
}

// is reports whether the metric has one of the types.
func (m metricTable) is(types ...policy.MetricType) bool {
	return slices.Contains(types, policy.MetricType(m.Type))
}

func (m metricTable) ofResource() bool {
	return m.is(policy.ResourceMetric, policy.ContainerResourceMetric)
}

// ofInstances reports whether the metric has a value for each instance.
func (m metricTable) ofInstances() bool {
	return m.ofResource() || m.is(policy.InstancesMetric)
}

// spec converts the metric for package policy. An unnamed Instances metric is named after its
// position.
func (m metricTable) spec(i int) policy.MetricSpec {
	spec := policy.MetricSpec{
		Type:   policy.MetricType(m.Type),
		Name:   m.Name,
		Task:   m.Task,
		Object: m.Object,
		Target: policy.MetricTarget{
			Type:               m.targetType(),
			ValueMilli:         milliOf(m.Value),
			AverageValueMilli:  milliOf(m.AverageValue),
			AverageUtilization: m.AverageUtilization,
			UtilizationOf:      m.AverageUtilizationOf,
			Binary:             isBinary(m.Value) || isBinary(m.AverageValue),
		},
		ActivationMilli: milliOf(m.Activation),
		OnMissing:       m.OnMissing.spec(),
	}
	switch {
	case m.ofResource():
		spec.Name = m.Resource
	case m.is(policy.InstancesMetric) && m.Name == "":
		spec.Name = "metric-" + strconv.Itoa(i+1)
	}
	return spec
}

// targetType returns the given target type. If it is omitted, the type is derived from the only
// given target; an Object metric with two targets must set it (R40).
func (m metricTable) targetType() policy.TargetType {
	switch {
	case m.TargetType != "":
		return policy.TargetType(m.TargetType)
	case m.AverageUtilization != nil:
		return policy.UtilizationTarget
	case m.Value != nil && m.AverageValue != nil && m.is(policy.ObjectMetric):
		return ""
	case m.AverageValue != nil:
		return policy.AverageValueTarget
	case m.Value != nil:
		return policy.ValueTarget
	}
	return ""
}

// maxTaskName is the maximum length of the name of a task in bytes.
const maxTaskName = 128

// validate records the errors in keys that exist only in the file and that their tags do not cover.
func (m metricTable) validate(t *table, path string) {
	if m.is(policy.ObjectMetric) {
		m.validateObjectTarget(t, path)
	}
	if m.Source != "" && m.ofInstances() && m.InstanceLabel == "" {
		t.add(under(path, "instance_label"), "", "is required: the label that identifies the instance of a series")
	}
	if len(m.Task) > maxTaskName || strings.TrimSpace(m.Task) != m.Task || strings.ContainsFunc(m.Task, unicode.IsControl) {
		t.addWritten(under(path, "task"), fmt.Sprintf("must be the name of a task: at most %d bytes, without control characters and outer spaces", maxTaskName))
	}
	if m.Source != "" && m.Window == nil && m.ofResource() && m.Resource == "cpu" {
		t.add(under(path, "window"), "", `is required for cpu from a source: the period of each value, such as "1m" for a rate(…[1m])`)
	}
	switch {
	case m.Valid == nil:
	case len(m.Valid) != 2 || *milliOf(&m.Valid[0]) > *milliOf(&m.Valid[1]):
		t.addWritten(under(path, "valid"), "must be the lowest and the highest value, such as [0, 1e6]")
	case m.Empty != "" && (*milliOf(&m.Valid[0]) > 0 || *milliOf(&m.Valid[1]) < 0):
		t.addWritten(under(path, "empty"), "contradicts valid, which makes the metric fail for zero")
	}
	if use := m.OnMissing; use != nil && use.Use != "" && use.spec().Use == "" {
		t.addWritten(under(path, "on_missing.use"), "must be "+missingUses)
	}
}

// hasMistypedTarget reports whether the value of a target key, such as average_value, has the wrong
// type. path is the path of the metric, or "" for the formula.
func (t *table) hasMistypedTarget(path string) bool {
	return slices.ContainsFunc(t.misfits, func(key string) bool {
		parent, last := cutLast(key)
		return parent == path && slices.Contains([]string{"value", "average_value", "utilization", "average_utilization"}, last)
	})
}

// validateObjectTarget records an error if the target that target_type selects is missing. Every
// evaluation would fail (R40).
func (m metricTable) validateObjectTarget(t *table, path string) {
	key := under(path, "target_type")
	switch policy.TargetType(m.TargetType) {
	case "":
		if m.Value != nil && m.AverageValue != nil {
			t.add(key, "", "is required with both value and average_value: Value or AverageValue")
		}
	case policy.ValueTarget:
		if m.Value == nil {
			t.addWritten(key, "requires the key value")
		}
	case policy.AverageValueTarget:
		if m.AverageValue == nil {
			t.addWritten(key, "requires the key average_value")
		}
	case policy.UtilizationTarget:
		t.addWritten(key, "must be Value or AverageValue for a metric of type Object")
	}
}

// fileMetricKey returns the key in the metric's table for a field of its spec, or "" if the error
// is recorded under a different key.
func fileMetricKey(m metricTable, path, field string) string {
	if goal, ok := strings.CutPrefix(field, "target."); ok {
		if goal != "type" {
			return under(path, goal)
		}
		if m.TargetType == "" {
			return "" // no target is set, or validateObjectTarget recorded the error
		}
		return under(path, "target_type")
	}
	switch field {
	case "type":
		if m.Type != "" {
			return "" // the tag values records the error
		}
	case "task":
		if m.Task != "" {
			return "" // platforms allow other names than Kubernetes (R17), and validate checks them
		}
	case "on_missing.after_seconds", "on_missing.use":
		return "" // the tags record the error
	case "on_missing.replicas":
		return under(path, "on_missing.use")
	}
	if field == "name" && m.ofResource() {
		field = "resource"
	}
	return under(path, field)
}

// onMissingTable is the proposal of a metric after it has failed for a while.
type onMissingTable struct {
	// After is the required duration of the failure: whole seconds, at least the sync_period.
	After time.Duration `toml:"after" required:"the duration of the failure, such as \"3m\"" whole:"1s"`
	// Use is the proposal: "hold", the current count; "last", the last proposal; "max",
	// max_replicas; or "replicas:N".
	Use string `toml:"use" required:"the proposal of the metric: \"hold\", \"last\", \"max\" or \"replicas:N\""`
}

const missingUses = `"hold", "last", "max" or "replicas:N"`

// replicasUse is the prefix of a Use with a count.
const replicasUse = string(policy.UseReplicas) + ":"

// spec converts the setting for package policy. It returns nil for nil, and an empty Use if Use is
// invalid.
func (o *onMissingTable) spec() *policy.OnMissing {
	if o == nil {
		return nil
	}
	spec := &policy.OnMissing{AfterSeconds: int32(max(0, min(math.MaxInt32, (o.After+time.Second-1)/time.Second)))}
	switch use := policy.MissingUse(o.Use); use {
	case policy.UseHold, policy.UseLast, policy.UseMax:
		spec.Use = use
	}
	if count, ok := strings.CutPrefix(o.Use, replicasUse); ok {
		if n, err := strconv.ParseInt(count, 10, 32); err == nil {
			spec.Use, spec.Replicas = policy.UseReplicas, int32(n)
		}
	}
	return spec
}

// Tolerance is a number, which is used as written, or a quantity, which is converted by R6.
type Tolerance float64

// UnmarshalTOML reads a number or a quantity.
func (t *Tolerance) UnmarshalTOML(value any) error {
	var n quantity.OrNumber
	err := n.UnmarshalTOML(value)
	*t = Tolerance(n.Float())
	switch number := value.(type) {
	case float64:
		*t = Tolerance(number)
	case int64:
		*t = Tolerance(number)
	}
	return err
}

// ratio is a number or a quantity. Both are converted by R6.
type ratio float64

func (r *ratio) UnmarshalTOML(value any) error {
	var n quantity.OrNumber
	err := n.UnmarshalTOML(value)
	*r = ratio(n.Float())
	return err
}

func isBinary(n *quantity.OrNumber) bool { return n != nil && n.Binary() }

// milliOf converts an amount to milli-units (R2). It returns nil for nil.
func milliOf(n *quantity.OrNumber) *int64 {
	if n == nil {
		return nil
	}
	return new(n.Milli())
}
