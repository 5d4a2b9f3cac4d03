package manifest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// annotationPrefix is the prefix of annotations in which older versions store fields of
// autoscaling/v2. The annotations in statusAnnotations contain no fields of the spec.
const annotationPrefix = "autoscaling.alpha.kubernetes.io/"

var statusAnnotations = []string{"conditions", "current-metrics"}

// useV2 is the hint for fields that exist only in autoscaling/v2.
const useV2 = "convert the object in the version autoscaling/v2 (kubectl get hpa.v2.autoscaling -o yaml)"

// versions maps each API version to the decoder of its spec.
var versions = map[string]func(*reader, *yaml.Node, json.RawMessage) autoscalingv2.HorizontalPodAutoscalerSpec{
	"autoscaling/v1":      (*reader).v1,
	"autoscaling/v2":      (*reader).v2,
	"autoscaling/v2beta2": (*reader).v2, // has the same fields
}

func (r *reader) v2(node *yaml.Node, raw json.RawMessage) autoscalingv2.HorizontalPodAutoscalerSpec {
	var spec autoscalingv2.HorizontalPodAutoscalerSpec
	r.decode(node, raw, &spec)
	return spec
}

// v1 decodes the spec of autoscaling/v1, which supports only the metric cpu.
func (r *reader) v1(node *yaml.Node, raw json.RawMessage) autoscalingv2.HorizontalPodAutoscalerSpec {
	var given autoscalingv1.HorizontalPodAutoscalerSpec
	r.decode(node, raw, &given)
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(given.ScaleTargetRef),
		MinReplicas:    given.MinReplicas,
		MaxReplicas:    given.MaxReplicas,
	}
	if percent := given.TargetCPUUtilizationPercentage; percent != nil {
		spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent},
			},
		}}
	}
	return spec
}

// checkAnnotations adds errors for annotations that contain fields of the spec.
func (r *reader) checkAnnotations(node *yaml.Node, annotations map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		field, ok := strings.CutPrefix(name, annotationPrefix)
		if !ok || slices.Contains(statusAnnotations, field) {
			continue
		}
		line := node.Line
		if value := child(child(child(node, "metadata"), "annotations"), name); value != nil {
			line = value.Line
		}
		r.add(line, "annotation %s cannot be converted: %s", name, useV2)
	}
}
