package manifest

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
)

// Meaning returns what the object asks for, defaulted (R9 to R12).
func (o *Object) Meaning() (policy.Spec, error) {
	spec := policy.Spec{MinReplicas: o.Spec.MinReplicas, MaxReplicas: o.Spec.MaxReplicas}
	for i := range o.Spec.Metrics {
		metric, err := meaningOf(&o.Spec.Metrics[i])
		if err != nil {
			return policy.Spec{}, within("metrics["+strconv.Itoa(i)+"].target", err)
		}
		spec.Metrics = append(spec.Metrics, metric)
	}
	if given := o.Spec.Behavior; given != nil {
		spec.Behavior = &policy.Behavior{}
		var err error
		if spec.Behavior.ScaleUp, err = rulesOf(given.ScaleUp); err != nil {
			return policy.Spec{}, within("behavior.scale_up", err)
		}
		if spec.Behavior.ScaleDown, err = rulesOf(given.ScaleDown); err != nil {
			return policy.Spec{}, within("behavior.scale_down", err)
		}
	}
	return policy.Default(spec), nil
}

// meaningOf returns a metric for policy; one that lacks the part that its type
// names has no name and no goal.
func meaningOf(given *autoscalingv2.MetricSpec) (policy.MetricSpec, error) {
	metric := policy.MetricSpec{Type: policy.MetricType(given.Type)}
	var target autoscalingv2.MetricTarget
	switch given.Type {
	case autoscalingv2.ResourceMetricSourceType:
		if m := given.Resource; m != nil {
			metric.Name, target = string(m.Name), m.Target
		}
	case autoscalingv2.ContainerResourceMetricSourceType:
		if m := given.ContainerResource; m != nil {
			metric.Name, metric.Task, target = string(m.Name), m.Container, m.Target
		}
	case autoscalingv2.PodsMetricSourceType:
		metric.Type = policy.InstancesMetric
		if m := given.Pods; m != nil {
			metric.Name, target = m.Metric.Name, m.Target
		}
	case autoscalingv2.ObjectMetricSourceType:
		if m := given.Object; m != nil {
			metric.Name, metric.Object, target = m.Metric.Name, objectOf(m.DescribedObject), m.Target
		}
	case autoscalingv2.ExternalMetricSourceType:
		if m := given.External; m != nil {
			metric.Name, target = m.Metric.Name, m.Target
		}
	}
	metric.Target = policy.MetricTarget{Type: policy.TargetType(target.Type), AverageUtilization: target.AverageUtilization}
	var err error
	if metric.Target.ValueMilli, err = milli(target.Value); err != nil {
		return metric, within("value", err)
	}
	if metric.Target.AverageValueMilli, err = milli(target.AverageValue); err != nil {
		return metric, within("average_value", err)
	}
	return metric, nil
}

// within returns an error of a field as a settings.FieldError, or adds the path of the
// table that has the field.
func within(path string, err error) error {
	if inner, ok := errors.AsType[settings.FieldError](err); ok {
		return settings.FieldError{Field: path + "." + inner.Field, Detail: inner.Detail}
	}
	return settings.FieldError{Field: path, Detail: err.Error()}
}

// objectOf returns what an Object metric describes, as "kind/name".
func objectOf(ref autoscalingv2.CrossVersionObjectReference) string { return ref.Kind + "/" + ref.Name }

// milli returns a quantity in milli-units (R2), and nil for nil.
func milli(given *resource.Quantity) (*int64, error) {
	if given == nil {
		return nil, nil
	}
	parsed, err := quantity.Parse(given.String())
	if err != nil {
		return nil, err
	}
	return new(parsed.Milli()), nil
}

// rulesOf returns one direction's rules for policy, and nil for nil.
func rulesOf(given *autoscalingv2.HPAScalingRules) (*policy.ScalingRules, error) {
	if given == nil {
		return nil, nil
	}
	rules := &policy.ScalingRules{StabilizationWindowSeconds: given.StabilizationWindowSeconds}
	if given.SelectPolicy != nil {
		rules.SelectPolicy = policy.SelectPolicy(*given.SelectPolicy)
	}
	if given.Policies != nil {
		rules.Policies = []policy.ScalingPolicy{}
	}
	for _, p := range given.Policies {
		policyType := policy.PolicyType(p.Type)
		if p.Type == autoscalingv2.PodsScalingPolicy {
			policyType = policy.InstancesPolicy
		}
		rules.Policies = append(rules.Policies, policy.ScalingPolicy{Type: policyType, Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	if given.Tolerance != nil {
		parsed, err := quantity.Parse(given.Tolerance.String())
		if err != nil {
			return nil, within("tolerance", err)
		}
		rules.Tolerance = new(parsed.Float())
	}
	return rules, nil
}

// validate records what Kubernetes would refuse too.
func (r *reader) validate(node *yaml.Node, object *Object) {
	if ref := object.Spec.ScaleTargetRef; ref.Kind == "" || ref.Name == "" {
		r.add(lineOf(node, "spec.scaleTargetRef"), "spec.scaleTargetRef needs a kind and a name")
	}
	for i := range object.Spec.Metrics {
		metric, path := &object.Spec.Metrics[i], "spec.metrics["+strconv.Itoa(i)+"]"
		own, others := sources(metric)
		for _, name := range others {
			r.add(lineOf(node, path+"."+name), "%s.%s must not be given for a metric of type %s", path, name, metric.Type)
		}
		if own != "" {
			r.add(lineOf(node, path), "%s.%s is required for a metric of type %s", path, own, metric.Type)
			return
		}
	}
	spec, err := object.Meaning()
	invalid := policy.Validate(spec, true)
	if field, ok := errors.AsType[settings.FieldError](err); ok {
		invalid = []settings.FieldError{field}
	}
	for _, mistake := range invalid {
		path := upstreamPath(object, mistake.Field)
		text := path
		if mistake.Value != "" {
			text += " = " + mistake.Value
		}
		text += ": " + upstreamWords.Replace(mistake.Detail)
		if object.Kind == kindScaledObject {
			path, text = kedaFields.Replace(path), kedaFields.Replace(text)
		}
		r.add(lineOf(node, path), "%s", text)
	}
}

// upstreamWords turns the words of a configuration into those of a manifest.
var upstreamWords = strings.NewReplacer(
	"min_replicas", "minReplicas", "average_value", "averageValue", "average_utilization", "averageUtilization", "Instances", "Pods",
)

// sources returns the part of a metric that its type wants and that is missing,
// and those that are other types' (R17); nothing for an unknown type.
func sources(metric *autoscalingv2.MetricSpec) (missing string, others []string) {
	known := false
	for _, source := range []struct {
		metricType autoscalingv2.MetricSourceType
		given      bool
	}{
		{autoscalingv2.ResourceMetricSourceType, metric.Resource != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, metric.ContainerResource != nil},
		{autoscalingv2.PodsMetricSourceType, metric.Pods != nil},
		{autoscalingv2.ObjectMetricSourceType, metric.Object != nil},
		{autoscalingv2.ExternalMetricSourceType, metric.External != nil},
	} {
		name, _, _ := strings.Cut(metricField(source.metricType, ""), ".")
		own := source.metricType == metric.Type
		known = known || own
		switch {
		case own && !source.given:
			missing = name
		case !own && source.given:
			others = append(others, name)
		}
	}
	if !known {
		return "", nil
	}
	return missing, others
}

// upstreamPath returns the field of a manifest for a field of a spec, as
// "spec.metrics[0].pods.target.averageValue".
func upstreamPath(object *Object, field string) string {
	words := strings.Split(field, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	path := strings.Join(words, "")
	if rest, ok := strings.CutPrefix(path, "metrics["); ok {
		index, field, _ := strings.Cut(rest, "].")
		if i, err := strconv.Atoi(index); err == nil && i < len(object.Spec.Metrics) && field != "" && field != "type" {
			path = "metrics[" + index + "]." + metricField(object.Spec.Metrics[i].Type, field)
		}
	}
	return "spec." + path
}

// metricField returns the field of a metric for one of a spec's.
func metricField(metricType autoscalingv2.MetricSourceType, field string) string {
	ofResource := metricType == autoscalingv2.ResourceMetricSourceType || metricType == autoscalingv2.ContainerResourceMetricSourceType
	switch {
	case field == "name" && !ofResource:
		field = "metric.name"
	case field == "task":
		field = "container"
	case field == "object":
		field = "describedObject"
	}
	name := string(metricType)
	return strings.ToLower(name[:1]) + name[1:] + "." + field
}
