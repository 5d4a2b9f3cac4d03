package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hpad/hpad/settings/quantity"
)

const (
	kindScaledObject    = "ScaledObject"
	versionScaledObject = "keda.sh/v1alpha1"
	// kedaLabel is a label that KEDA adds to the HPAs that it creates and to their External
	// metrics. It contains the name of the ScaledObject.
	kedaLabel = "scaledobject.keda.sh/name"
)

// The defaults of KEDA.
const (
	kedaMaxReplicas     = 100
	kedaPollingInterval = 30 // seconds
)

// Trigger is a KEDA trigger from which an External metric is created.
type Trigger struct {
	// Path is the field in the manifest that identifies the trigger.
	Path string
	// Query is the PromQL query, and Server is the address of the server. Query is empty if the
	// manifest is an HPA, because HPAs do not contain it.
	Query, Server string
	// Remedy describes the next step if Query is empty.
	Remedy string
	// Empty is the value of the autoscaler's key empty. OnMissing is the value of on_missing in
	// TOML. Each is "" if its key is omitted.
	Empty, OnMissing string
}

// kedaMetric matches the name of an External metric that KEDA created: the index of the trigger,
// followed by its type.
var kedaMetric = regexp.MustCompile(`^s(\d+)-(.+)$`)

// kedaTriggers returns the triggers of the External metrics in an HPA that KEDA created, by the
// index of the metric.
func kedaTriggers(object *Object, meta metadata) map[int]Trigger {
	triggers := map[int]Trigger{}
	for i, metric := range object.Spec.Metrics {
		if metric.External == nil {
			continue
		}
		identifier := metric.External.Metric
		scaledObject := meta.Labels[kedaLabel]
		if identifier.Selector != nil {
			scaledObject = cmp.Or(identifier.Selector.MatchLabels[kedaLabel], scaledObject)
		}
		name := kedaMetric.FindStringSubmatch(identifier.Name)
		if name == nil && scaledObject == "" {
			continue
		}
		trigger := "the trigger"
		if name != nil {
			trigger = "spec.triggers[" + name[1] + "]"
		}
		triggers[i] = Trigger{
			Path: fmt.Sprintf("spec.metrics[%d].external.metric.name", i),
			Remedy: fmt.Sprintf("convert ScaledObject %q instead (kubectl get scaledobject -A -o yaml | hpad convert -), or write a query for the value of its %s",
				scaledObject, trigger),
		}
	}
	return triggers
}

// scaledObject contains the fields of a ScaledObject's spec that hpad converts.
type scaledObject struct {
	ScaleTargetRef  autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
	PollingInterval *int32                                    `json:"pollingInterval"`
	MinReplicaCount *int32                                    `json:"minReplicaCount"`
	MaxReplicaCount *int32                                    `json:"maxReplicaCount"`
	Fallback        *struct {
		FailureThreshold int32  `json:"failureThreshold"`
		Replicas         int32  `json:"replicas"`
		Behavior         string `json:"behavior"`
	} `json:"fallback"`
	Advanced struct {
		HorizontalPodAutoscalerConfig struct {
			Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
		} `json:"horizontalPodAutoscalerConfig"`
	} `json:"advanced"`
	Triggers []trigger `json:"triggers"`
}

// trigger is an item of a ScaledObject's spec.triggers.
type trigger struct {
	Type       string            `json:"type"`
	MetricType string            `json:"metricType"`
	Metadata   map[string]string `json:"metadata"`
}

// scaledObject converts a ScaledObject to the spec of the HPA that KEDA would create from it.
func (r *reader) scaledObject(node *yaml.Node, raw json.RawMessage, object *Object) autoscalingv2.HorizontalPodAutoscalerSpec {
	var given scaledObject
	before := len(r.errs)
	for _, path := range r.decodeKnown(node, raw, &given) {
		if strings.HasPrefix(path, "spec.advanced.scalingModifiers") {
			r.add(lineOf(node, path), "%s cannot be converted: remove it, and set combine = \"FORMULA\" in the converted autoscaler, with average_value or value as the target of the formula", path)
		}
		object.NotConverted = append(object.NotConverted, path)
	}
	if len(given.Triggers) == 0 {
		r.add(lineOf(node, "spec.triggers"), "spec.triggers: is required")
	}
	if len(r.errs) > before {
		return autoscalingv2.HorizontalPodAutoscalerSpec{}
	}
	object.SyncPeriodSeconds = given.PollingInterval
	target := given.ScaleTargetRef
	target.Kind = cmp.Or(target.Kind, "Deployment")
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: target,
		MinReplicas:    cmp.Or(given.MinReplicaCount, new(int32(0))),
		MaxReplicas:    *cmp.Or(given.MaxReplicaCount, new(int32(kedaMaxReplicas))),
		Behavior:       given.Advanced.HorizontalPodAutoscalerConfig.Behavior,
	}
	onMissing, converted := given.onMissing()
	if !converted {
		object.NotConverted = append(object.NotConverted, "spec.fallback")
	}
	object.Triggers = map[int]Trigger{}
	for i, trigger := range given.Triggers {
		path := fmt.Sprintf("spec.triggers[%d]", i)
		metric, known := r.triggerMetric(node, path, i, trigger, object)
		if trigger.Type == "prometheus" {
			object.Triggers[len(spec.Metrics)] = r.prometheusTrigger(node, path, trigger.Metadata, onMissing)
		}
		spec.Metrics = append(spec.Metrics, metric)
		for _, key := range slices.Sorted(maps.Keys(trigger.Metadata)) {
			if !slices.Contains(known, key) {
				replaced := ""
				if strings.HasPrefix(key, "activation") {
					replaced = fmt.Sprintf(" (set activation = %q in the metric)", trigger.Metadata[key])
				}
				object.NotConverted = append(object.NotConverted, path+".metadata."+key+replaced)
			}
		}
	}
	if len(object.Triggers) == 0 { // KEDA does not scale to 0 on cpu and memory alone
		spec.MinReplicas = new(max(*spec.MinReplicas, 1))
	}
	return spec
}

// The annotations of KEDA that pause a ScaledObject.
const (
	pausedAnnotation   = "autoscaling.keda.sh/paused"
	replicasAnnotation = "autoscaling.keda.sh/paused-replicas"
)

// pause sets the mode of a ScaledObject that KEDA pauses.
func (o *Object) pause(annotations map[string]string) {
	replicas, fixed := annotations[replicasAnnotation]
	paused, given := annotations[pausedAnnotation]
	if active, err := strconv.ParseBool(paused); err == nil && !active {
		given = false
	}
	switch {
	case fixed:
		o.Mode, o.Paused = "off", fmt.Sprintf("Paused in Kubernetes by %s = %q: the count is not changed. To set it, run hpad scale; to activate the autoscaler, remove mode.", replicasAnnotation, replicas)
	case given:
		o.Mode, o.Paused = "off", fmt.Sprintf("Paused in Kubernetes by %s = %q. To activate the autoscaler, remove mode.", pausedAnnotation, paused)
	default:
		o.pauseDirections(annotations)
	}
}

// pauseDirections sets the mode of a ScaledObject that KEDA pauses in one direction or in both.
func (o *Object) pauseDirections(annotations map[string]string) {
	var names []string
	mode := map[string]string{"in": "up-only", "out": "down-only"}
	for _, direction := range []string{"in", "out"} {
		name := pausedAnnotation + "-scale-" + direction
		value, given := annotations[name]
		if active, err := strconv.ParseBool(value); !given || err == nil && !active {
			continue
		}
		names, o.Mode = append(names, name), mode[direction]
	}
	if len(names) == 2 {
		o.Mode = "off"
	}
	if len(names) > 0 {
		o.Paused = fmt.Sprintf("Paused in Kubernetes by %s. To scale in both directions, remove mode.", strings.Join(names, " and "))
	}
}

// onMissing converts the fallback to the TOML key on_missing. It returns false if hpad has no
// equivalent of the fallback's behavior.
func (s *scaledObject) onMissing() (text string, converted bool) {
	if s.Fallback == nil {
		return "", true
	}
	static := fmt.Sprintf("replicas:%d", s.Fallback.Replicas)
	use, ok := map[string]string{"": static, "static": static, "currentReplicas": "hold"}[s.Fallback.Behavior]
	if !ok {
		return "", false
	}
	after := s.Fallback.FailureThreshold * *cmp.Or(s.PollingInterval, new(int32(kedaPollingInterval)))
	return fmt.Sprintf("{ after = \"%ds\", use = %q }", after, use), true
}

// triggerMetric returns the metric for a trigger, and the keys of its metadata that are converted.
func (r *reader) triggerMetric(node *yaml.Node, path string, i int, given trigger, object *Object) (autoscalingv2.MetricSpec, []string) {
	metric, known := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType}, []string{"value", "type", "containerName"}
	name, container := corev1.ResourceName(given.Type), given.Metadata["containerName"]
	switch {
	case given.Type == "prometheus":
		metric.Type, known = autoscalingv2.ExternalMetricSourceType, []string{"serverAddress", "query", "threshold", "ignoreNullValues", "metricName"}
		metric.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: fmt.Sprintf("s%d-prometheus", i)},
			Target: r.triggerTarget(node, path, given, "threshold"),
		}
	case given.Type == "cron":
		r.add(lineOf(node, path), "%s.type = \"cron\" cannot be converted: remove the trigger, and add to the converted autoscaler "+
			"schedules = [{ name = \"cron-%d\", zone = %q, cron = %q, duration = \"…\", min_replicas = %s }], where duration is the time until the end, %q",
			path, i, given.Metadata["timezone"], given.Metadata["start"], cmp.Or(given.Metadata["desiredReplicas"], "…"), given.Metadata["end"])
	case given.Type != "cpu" && given.Type != "memory":
		r.add(lineOf(node, path), "%s.type = %q: only triggers of the types prometheus, cpu and memory can be converted: "+
			"convert the HPA that KEDA created (kubectl get hpa -n %s keda-hpa-%s -o yaml), and write a query in PromQL for this trigger, for example with an exporter's metrics",
			path, given.Type, cmp.Or(object.Namespace, "default"), object.Name)
	case container != "":
		metric.Type = autoscalingv2.ContainerResourceMetricSourceType
		metric.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: container, Target: r.triggerTarget(node, path, given, "value")}
	default:
		metric.Resource = &autoscalingv2.ResourceMetricSource{Name: name, Target: r.triggerTarget(node, path, given, "value")}
	}
	return metric, known
}

// triggerTarget returns the target value of a trigger, which is the value of a key in its metadata.
func (r *reader) triggerTarget(node *yaml.Node, path string, given trigger, key string) autoscalingv2.MetricTarget {
	text := given.Metadata[key]
	parsed, err := quantity.Parse(text)
	if err == nil && parsed.Milli() <= 0 {
		err = fmt.Errorf("%q must be greater than 0", text)
	}
	if err != nil {
		r.add(lineOf(node, path+".metadata."+key), "%s.metadata.%s: %v", path, key, err)
		return autoscalingv2.MetricTarget{}
	}
	value := resource.MustParse(text)
	switch metricType := autoscalingv2.MetricTargetType(cmp.Or(given.MetricType, given.Metadata["type"])); metricType {
	case autoscalingv2.ValueMetricType:
		return autoscalingv2.MetricTarget{Type: metricType, Value: &value}
	case autoscalingv2.UtilizationMetricType:
		return autoscalingv2.MetricTarget{Type: metricType, AverageUtilization: new(int32(value.Value()))}
	}
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &value}
}

// prometheusTrigger returns the query of a trigger whose type is prometheus.
func (r *reader) prometheusTrigger(node *yaml.Node, path string, metadata map[string]string, onMissing string) Trigger {
	t := Trigger{Path: path, Query: strings.TrimSpace(metadata["query"]), Server: metadata["serverAddress"], Empty: "zero", OnMissing: onMissing}
	if t.Query == "" {
		r.add(lineOf(node, path+".metadata"), "%s.metadata.query: is required", path)
	}
	if metadata["ignoreNullValues"] == "false" {
		t.Empty = ""
	}
	return t
}
