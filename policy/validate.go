package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// The bounds of R19.
const (
	maxStabilizationWindowSeconds = 3600
	maxPolicyPeriodSeconds        = 1800
	maxTaskNameLength             = 63
)

// Validate returns the errors in a defaulted spec (R14 to R19), in the order of the fields. Paths
// are JSON names, such as "metrics[0].target.value". The number of metrics is not limited, and
// duplicates are valid (R20).
func Validate(spec Spec, scaleToZero bool) []settings.FieldError {
	var mistakes mistakes
	validateBounds(&mistakes, spec, scaleToZero)
	validateFormula(&mistakes, spec)
	for i, metric := range spec.Metrics {
		validateMetric(&mistakes, "metrics["+strconv.Itoa(i)+"]", metric, spec.MaxReplicas)
	}
	if spec.Behavior != nil {
		validateRules(&mistakes, "behavior.scale_up", spec.Behavior.ScaleUp)
		validateRules(&mistakes, "behavior.scale_down", spec.Behavior.ScaleDown)
	}
	return mistakes
}

type mistakes []settings.FieldError

func (m *mistakes) add(field string, value any, detail string) {
	text := ""
	if value != nil {
		text = fmt.Sprint(value)
	}
	*m = append(*m, settings.FieldError{Field: field, Value: text, Detail: detail})
}

func validateBounds(mistakes *mistakes, spec Spec, scaleToZero bool) {
	minReplicas := minReplicasOf(&spec)
	switch {
	case minReplicas < 0:
		mistakes.add("min_replicas", minReplicas, "must be at least 0")
	case minReplicas == 0 && !scaleToZero:
		mistakes.add("min_replicas", minReplicas, "must be at least 1, because scaling to zero is disabled")
	}
	switch {
	case spec.MaxReplicas < 1:
		mistakes.add("max_replicas", spec.MaxReplicas, "must be at least 1")
	case spec.MaxReplicas < minReplicas:
		mistakes.add("max_replicas", spec.MaxReplicas, "must be at least min_replicas, which is "+itoa(minReplicas))
	}
	if initial := spec.InitialReplicas; initial != nil && (*initial < 0 || *initial > spec.MaxReplicas) {
		mistakes.add("initial_replicas", *initial, "must be from 0 to max_replicas")
	}
	switch _, combined := inputsOf(&spec); {
	case minReplicas != 0 || hasWholeMetric(&spec):
	case combined:
		mistakes.add("metrics", nil, "must all be Object or External metrics, because min_replicas is 0 and only a formula of these metrics can be computed without instances")
	default:
		mistakes.add("metrics", nil, "must include an Object or External metric, because min_replicas is 0 and only these metrics can be read without instances")
	}
}

// validateMetric checks one metric (R17). most is max_replicas.
func validateMetric(mistakes *mistakes, path string, metric MetricSpec, most int32) {
	switch metric.Type {
	case ResourceMetric:
		if metric.Name == "" {
			mistakes.add(path+".name", nil, "is required: the resource, such as \"cpu\" or \"memory\"")
		}
	case ContainerResourceMetric:
		validateContainerResource(mistakes, path, metric)
	case ObjectMetric:
		validateSegment(mistakes, path+".name", metric.Name)
		validateObject(mistakes, path+".object", metric.Object)
	case InstancesMetric, ExternalMetric:
		validateSegment(mistakes, path+".name", metric.Name)
	default:
		mistakes.add(path+".type", quoted(string(metric.Type)), "must be Resource, ContainerResource, Instances, Object or External")
		return
	}
	validateTarget(mistakes, path+".target", metric)
	if activation := metric.ActivationMilli; activation != nil && *activation < 0 {
		mistakes.add(path+".activation", milliText(*activation), "must be at least 0")
	}
	validateOnMissing(mistakes, path+".on_missing", metric.OnMissing, most)
}

// validateFormula checks that the formula is the last metric, and that it uses all other metrics.
func validateFormula(mistakes *mistakes, spec Spec) {
	inputs, combined := inputsOf(&spec)
	for i := range inputs {
		if inputs[i].Formula != "" {
			mistakes.add("metrics["+strconv.Itoa(i)+"].formula", quoted(inputs[i].Formula), "is only valid for the last metric")
		}
	}
	if !combined {
		return
	}
	for i := range inputs {
		if inputs[i].Name == spec.Metrics[len(inputs)].Name {
			mistakes.add("metrics["+strconv.Itoa(i)+"].name", quoted(inputs[i].Name), "is the name of the result of the formula: choose another name")
		}
	}
	field := "metrics[" + strconv.Itoa(len(inputs)) + "].formula"
	text := spec.Metrics[len(inputs)].Formula
	parsed, err := checkFormula(text, inputs)
	if err != nil {
		mistakes.add(field, quoted(text), err.Error())
		return
	}
	for i := range inputs {
		if !slices.Contains(parsed.Names(), inputs[i].Name) {
			mistakes.add(field, quoted(text), "does not use the metric "+inputs[i].Name+": remove the metric, or use it")
		}
	}
}

func validateOnMissing(mistakes *mistakes, path string, missing *OnMissing, most int32) {
	if missing == nil {
		return
	}
	if missing.AfterSeconds < 1 {
		mistakes.add(path+".after_seconds", missing.AfterSeconds, "must be at least 1")
	}
	switch {
	case !slices.Contains([]MissingUse{UseHold, UseLast, UseMax, UseReplicas}, missing.Use):
		mistakes.add(path+".use", quoted(string(missing.Use)), "must be hold, last, max or replicas")
	case missing.Use != UseReplicas && missing.Replicas != 0:
		mistakes.add(path+".replicas", missing.Replicas, "is only valid with use = replicas")
	case missing.Use == UseReplicas && (missing.Replicas < 1 || missing.Replicas > max(1, most)):
		mistakes.add(path+".replicas", missing.Replicas, "must be from 1 to max_replicas, which is "+itoa(most))
	}
}

func validateContainerResource(mistakes *mistakes, path string, metric MetricSpec) {
	switch {
	case metric.Name == "":
		mistakes.add(path+".name", nil, "is required: the resource, such as \"cpu\" or \"memory\"")
	case !knownResource(metric.Name):
		mistakes.add(path+".name", quoted(metric.Name), "must be cpu, memory, ephemeral-storage, hugepages-SIZE or DOMAIN/NAME")
	}
	switch {
	case metric.Task == "":
		mistakes.add(path+".task", nil, "is required: the task whose resource is measured")
	case !isLabel(metric.Task):
		mistakes.add(path+".task", quoted(metric.Task), "must be lower-case letters, digits and \"-\", start and end with a letter or digit, and have at most 63 characters")
	}
}

func validateSegment(mistakes *mistakes, field, name string) {
	switch {
	case name == "":
		mistakes.add(field, nil, "is required")
	case !isPathSegment(name):
		mistakes.add(field, quoted(name), "must not be \".\" or \"..\" and must not contain \"/\" or \"%\"")
	}
}

func validateObject(mistakes *mistakes, field, object string) {
	if object == "" {
		mistakes.add(field, nil, "is required: the object that the metric describes, such as \"route/main\"")
		return
	}
	kind, name, found := strings.Cut(object, "/")
	if !found || kind == "" || name == "" || !isPathSegment(kind) || !isPathSegment(name) {
		mistakes.add(field, quoted(object), "must be KIND/NAME; neither part may be \".\" or \"..\" or contain \"/\" or \"%\"")
	}
}

func validateTarget(mistakes *mistakes, path string, metric MetricSpec) {
	target := metric.Target
	switch target.Type {
	case UtilizationTarget, ValueTarget, AverageValueTarget:
	case "":
		mistakes.add(path+".type", nil, "is required: Utilization, Value or AverageValue")
	default:
		mistakes.add(path+".type", quoted(string(target.Type)), "must be Utilization, Value or AverageValue")
	}
	if value := target.ValueMilli; value != nil && *value <= 0 {
		mistakes.add(path+".value", milliText(*value), "must be greater than 0")
	}
	if value := target.AverageValueMilli; value != nil && *value <= 0 {
		mistakes.add(path+".average_value", milliText(*value), "must be greater than 0")
	}
	if percent := target.AverageUtilization; percent != nil && *percent < 1 {
		mistakes.add(path+".average_utilization", *percent, "must be at least 1")
	}
	validateTargetFields(mistakes, path, metric)
}

func validateTargetFields(mistakes *mistakes, path string, metric MetricSpec) {
	value, average, percent := metric.Target.ValueMilli, metric.Target.AverageValueMilli, metric.Target.AverageUtilization
	switch metric.Type {
	case ResourceMetric, ContainerResourceMetric:
		switch {
		case percent == nil && average == nil:
			mistakes.add(path+".average_utilization", nil, "is required unless average_value is set")
		case percent != nil && average != nil:
			mistakes.add(path+".average_value", milliText(*average), "must not be given together with average_utilization")
		}
	case InstancesMetric:
		if average == nil {
			mistakes.add(path+".average_value", nil, "is required")
		}
	case ObjectMetric:
		if value == nil && average == nil {
			mistakes.add(path+".average_value", nil, "is required unless value is set; both are allowed")
		}
	case ExternalMetric:
		switch {
		case value == nil && average == nil && metric.Formula != "":
			mistakes.add(path+".average_value", nil, "is required unless value or utilization is set")
		case value == nil && average == nil:
			mistakes.add(path+".average_value", nil, "is required unless value is set")
		case value != nil && average != nil:
			mistakes.add(path+".value", milliText(*value), "must not be given together with average_value")
		}
	}
}

func validateRules(mistakes *mistakes, path string, rules *ScalingRules) {
	if rules == nil {
		return
	}
	if window := rules.StabilizationWindowSeconds; window != nil && (*window < 0 || *window > maxStabilizationWindowSeconds) {
		mistakes.add(path+".stabilization_window_seconds", *window, "must be from 0 to "+strconv.Itoa(maxStabilizationWindowSeconds))
	}
	if !slices.Contains([]SelectPolicy{MaxChange, MinChange, DisabledChange}, rules.SelectPolicy) {
		mistakes.add(path+".select_policy", quoted(string(rules.SelectPolicy)), "must be Max, Min or Disabled")
	}
	if len(rules.Policies) == 0 {
		mistakes.add(path+".policies", nil, "must contain at least one policy; omit the key to use the defaults")
	}
	for i, policy := range rules.Policies {
		validatePolicy(mistakes, path+".policies["+strconv.Itoa(i)+"]", policy)
	}
	if tolerance := rules.Tolerance; tolerance != nil && !(*tolerance >= 0) {
		mistakes.add(path+".tolerance", *tolerance, "must be at least 0")
	}
}

func validatePolicy(mistakes *mistakes, path string, policy ScalingPolicy) {
	if policy.Type != InstancesPolicy && policy.Type != PercentPolicy {
		mistakes.add(path+".type", quoted(string(policy.Type)), "must be Instances or Percent")
	}
	if policy.Value <= 0 {
		mistakes.add(path+".value", policy.Value, "must be greater than 0")
	}
	if policy.PeriodSeconds < 1 || policy.PeriodSeconds > maxPolicyPeriodSeconds {
		mistakes.add(path+".period_seconds", policy.PeriodSeconds, "must be from 1 to "+strconv.Itoa(maxPolicyPeriodSeconds))
	}
}

// isPathSegment reports whether a name obeys R16.
func isPathSegment(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// isLabel reports whether a name is a DNS label (R17).
func isLabel(name string) bool {
	if name == "" || len(name) > maxTaskNameLength || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// knownResource reports whether a resource may be measured for one task (R17).
func knownResource(name string) bool {
	switch name {
	case "cpu", "memory", "ephemeral-storage":
		return true
	}
	if strings.HasPrefix(name, hugePagesPrefix) {
		return true
	}
	domain, rest, found := strings.Cut(name, "/")
	return found && domain != "" && rest != "" && !strings.Contains(rest, "/")
}

func quoted(text string) any {
	if text == "" {
		return nil
	}
	return strconv.Quote(text)
}

func milliText(milli int64) string {
	text := strconv.FormatInt(milli/1000, 10)
	if milli < 0 && milli/1000 == 0 {
		text = "-" + text
	}
	if rest := milli % 1000; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", max(rest, -rest)), "0")
	}
	return text
}
