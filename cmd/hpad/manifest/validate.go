package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// validate adds errors for missing parts that the conversion needs. Invalid values are reported by
// "hpad check" after the conversion.
func (r *reader) validate(node *yaml.Node, object *Object) {
	if ref := object.Spec.ScaleTargetRef; ref.Kind == "" || ref.Name == "" {
		r.add(lineOf(node, "spec.scaleTargetRef"), "spec.scaleTargetRef needs a kind and a name")
	}
	for i := range object.Spec.Metrics {
		metric, path := &object.Spec.Metrics[i], "spec.metrics["+strconv.Itoa(i)+"]"
		missing, others := sources(metric)
		for _, name := range others {
			r.add(lineOf(node, path+"."+name), "%s.%s must not be set for a metric of type %s", path, name, metric.Type)
		}
		if missing != "" {
			r.add(lineOf(node, path), "%s.%s is required for a metric of type %s", path, missing, metric.Type)
		}
	}
}

// sources returns the part that a metric of this type needs but lacks, and the parts that belong to
// other types (R17). For an unknown type it returns nothing.
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
		name := strings.ToLower(string(source.metricType[:1])) + string(source.metricType[1:])
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

// objectOf returns the object that an Object metric describes as "kind/name".
func objectOf(ref autoscalingv2.CrossVersionObjectReference) string { return ref.Kind + "/" + ref.Name }
