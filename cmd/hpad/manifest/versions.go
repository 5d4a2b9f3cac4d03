package manifest

import (
	"bytes"
	"encoding/json"
	"errors"

	"go.yaml.in/yaml/v3"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hpad/hpad/settings/quantity"
)

// The annotations in which older versions carry what they have no fields for.
const (
	annotationPrefix       = "autoscaling.alpha.kubernetes.io/"
	metricsAnnotation      = annotationPrefix + "metrics"
	behaviorAnnotation     = annotationPrefix + "behavior"
	toleranceUpAnnotation  = annotationPrefix + "scale-up-tolerance"
	toleranceDwnAnnotation = annotationPrefix + "scale-down-tolerance"
)

// versions read the spec of an object in one version each.
var versions = map[string]func(*reader, *yaml.Node, json.RawMessage, map[string]string) autoscalingv2.HorizontalPodAutoscalerSpec{
	"v1":      (*reader).v1,
	"v2beta1": (*reader).v2beta1,
	"v2beta2": (*reader).v2beta2,
	"v2":      (*reader).v2,
}

func (r *reader) v2(node *yaml.Node, raw json.RawMessage, _ map[string]string) autoscalingv2.HorizontalPodAutoscalerSpec {
	var spec autoscalingv2.HorizontalPodAutoscalerSpec
	r.decode(node, raw, &spec)
	return spec
}

// v2beta2 has the fields of v2 but for the tolerance, which is in annotations.
func (r *reader) v2beta2(node *yaml.Node, raw json.RawMessage, annotations map[string]string) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := r.v2(node, raw, annotations)
	for _, rules := range []struct {
		annotation, field string
		of                func(*autoscalingv2.HorizontalPodAutoscalerBehavior) **autoscalingv2.HPAScalingRules
	}{
		{toleranceUpAnnotation, "scaleUp", func(b *autoscalingv2.HorizontalPodAutoscalerBehavior) **autoscalingv2.HPAScalingRules {
			return &b.ScaleUp
		}},
		{toleranceDwnAnnotation, "scaleDown", func(b *autoscalingv2.HorizontalPodAutoscalerBehavior) **autoscalingv2.HPAScalingRules {
			return &b.ScaleDown
		}},
	} {
		if spec.Behavior != nil && *rules.of(spec.Behavior) != nil && (*rules.of(spec.Behavior)).Tolerance != nil {
			path := "spec.behavior." + rules.field + ".tolerance"
			r.add(lineOf(node, path), "unknown field %q: autoscaling/v2 has it", path)
			continue
		}
		text, ok := annotations[rules.annotation]
		if !ok {
			continue
		}
		if _, err := quantity.Parse(text); err != nil {
			r.badAnnotation(node, rules.annotation, ": "+err.Error())
			continue
		}
		tolerance := resource.MustParse(text)
		if spec.Behavior == nil {
			spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
		}
		direction := rules.of(spec.Behavior)
		if *direction == nil {
			*direction = &autoscalingv2.HPAScalingRules{}
		}
		(*direction).Tolerance = &tolerance
	}
	return spec
}

// v2beta1 has the metrics that v1 has in an annotation.
func (r *reader) v2beta1(node *yaml.Node, raw json.RawMessage, annotations map[string]string) autoscalingv2.HorizontalPodAutoscalerSpec {
	var given struct {
		ScaleTargetRef autoscalingv1.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicas    *int32                                    `json:"minReplicas"`
		MaxReplicas    int32                                     `json:"maxReplicas"`
		Metrics        []autoscalingv1.MetricSpec                `json:"metrics"`
	}
	r.decode(node, raw, &given)
	spec := r.older(node, annotations, given.ScaleTargetRef, given.MinReplicas, given.MaxReplicas)
	spec.Metrics = modern(given.Metrics)
	return spec
}

// older returns what v1 and v2beta1 have in common.
func (r *reader) older(node *yaml.Node, annotations map[string]string, target autoscalingv1.CrossVersionObjectReference, least *int32, most int32) autoscalingv2.HorizontalPodAutoscalerSpec {
	return autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(target),
		MinReplicas:    least,
		MaxReplicas:    most,
		Behavior:       r.behavior(node, annotations),
	}
}

// v1 has only cpu; its other metrics are in an annotation, and come first.
func (r *reader) v1(node *yaml.Node, raw json.RawMessage, annotations map[string]string) autoscalingv2.HorizontalPodAutoscalerSpec {
	var given autoscalingv1.HorizontalPodAutoscalerSpec
	r.decode(node, raw, &given)
	spec := r.older(node, annotations, given.ScaleTargetRef, given.MinReplicas, given.MaxReplicas)
	if text, ok := annotations[metricsAnnotation]; ok {
		var metrics []autoscalingv1.MetricSpec
		r.decodeAnnotation(node, metricsAnnotation, text, &metrics)
		spec.Metrics = modern(metrics)
	}
	if percent := given.TargetCPUUtilizationPercentage; percent != nil {
		spec.Metrics = append(spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent},
			},
		})
	}
	return spec
}

// behavior returns the behavior of the annotation; nil when there is none. Its
// keys are in upper case, as Kubernetes writes it, and an empty one does not
// count.
func (r *reader) behavior(node *yaml.Node, annotations map[string]string) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	text, ok := annotations[behaviorAnnotation]
	if !ok {
		return nil
	}
	var behavior autoscalingv2.HorizontalPodAutoscalerBehavior
	r.decodeAnnotation(node, behaviorAnnotation, text, &behavior)
	if behavior.ScaleUp == nil && behavior.ScaleDown == nil {
		return nil
	}
	return &behavior
}

// decodeAnnotation decodes the JSON of an annotation, whatever the case of its keys.
func (r *reader) decodeAnnotation(node *yaml.Node, annotation, text string, to any) {
	err := decodeJSON([]byte(text), to)
	if err == nil {
		return
	}
	found := false
	invalidFields([]byte(text), "", to, decodeJSON, func(path, detail string) {
		found = true
		r.badAnnotation(node, annotation, ": "+path+detail)
	})
	if !found {
		r.badAnnotation(node, annotation, ": "+err.Error())
	}
}

func decodeJSON(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("something follows")
	}
	return nil
}

func (r *reader) badAnnotation(node *yaml.Node, annotation, detail string) {
	line := node.Line
	if meta := child(node, "metadata"); meta != nil {
		if annotations := child(meta, "annotations"); annotations != nil {
			if value := child(annotations, annotation); value != nil {
				line = value.Line
			}
		}
	}
	r.add(line, "annotation %s%s", annotation, detail)
}

// modern returns metrics of v1 as v2 has them.
func modern(metrics []autoscalingv1.MetricSpec) (all []autoscalingv2.MetricSpec) {
	for _, metric := range metrics {
		all = append(all, modernMetric(metric))
	}
	return all
}

// modernMetric returns a metric of v1 as v2 has it. As upstream converts it.
func modernMetric(metric autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	spec := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(metric.Type)}
	resourceTarget := func(percent *int32, average *resource.Quantity) autoscalingv2.MetricTarget {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: average, AverageUtilization: percent}
		if percent != nil {
			target.Type = autoscalingv2.UtilizationMetricType
		}
		return target
	}
	if m := metric.Resource; m != nil {
		spec.Resource = &autoscalingv2.ResourceMetricSource{Name: m.Name, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue)}
	}
	if m := metric.ContainerResource; m != nil {
		spec.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue),
		}
	}
	if m := metric.Pods; m != nil {
		spec.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &m.TargetAverageValue},
		}
	}
	if m := metric.Object; m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &m.TargetValue, AverageValue: m.AverageValue}
		if m.AverageValue != nil {
			target.Type = autoscalingv2.AverageValueMetricType
			if m.TargetValue.IsZero() { // the field is written even if it means nothing
				target.Value = nil
			}
		}
		spec.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target:          target,
		}
	}
	if m := metric.External; m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, Value: m.TargetValue, AverageValue: m.TargetAverageValue}
		if m.TargetValue != nil {
			target.Type = autoscalingv2.ValueMetricType
		}
		spec.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Target: target,
		}
	}
	return spec
}
