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

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/settings/quantity"
)

const (
	kindScaledObject    = "ScaledObject"
	versionScaledObject = "keda.sh/v1alpha1"
	// kedaLabel is a label that KEDA adds to the HPAs that it creates and to their External
	// metrics. It contains the name of the ScaledObject.
	kedaLabel = "scaledobject.keda.sh/name"
)

// The defaults of KEDA, and the period in which the HPA controller reads the metrics.
const (
	kedaMaxReplicas     = 100
	kedaPollingInterval = 30 // seconds
	hpaPeriod           = 15 // seconds
)

// Trigger is the origin of a metric: a KEDA trigger, or the configuration of a metrics adapter.
type Trigger struct {
	// By is the adapter that reads the value; empty means KEDA.
	By string
	// Path is the field that identifies the trigger or the query.
	Path string
	// Query is the PromQL query, and Server is the address of the server. Query is empty if the
	// manifest is an HPA, because HPAs do not contain it.
	Query, Server string
	// Remedy describes the next step if Query is empty.
	Remedy string
	// Suggestion is a probable query if Query is empty, or "".
	Suggestion string
	// Empty is the value of the autoscaler's key empty. OnMissing is the value of on_missing in
	// TOML. Activation is a quantity. Each is "" if its key is omitted.
	Empty, OnMissing, Activation string
}

// Modifiers is the formula of a ScaledObject with its target, which is a quantity.
type Modifiers struct {
	Formula    string `json:"formula"`
	Target     string `json:"target"`
	Activation string `json:"activationTarget"`
	MetricType string `json:"metricType"`
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
		ScalingModifiers Modifiers `json:"scalingModifiers"`
	} `json:"advanced"`
	IdleReplicaCount *int32    `json:"idleReplicaCount"`
	Triggers         []trigger `json:"triggers"`
}

// trigger is an item of a ScaledObject's spec.triggers.
type trigger struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	MetricType string            `json:"metricType"`
	Cached     bool              `json:"useCachedMetrics"`
	Metadata   map[string]string `json:"metadata"`
}

// scaledObject converts a ScaledObject to the spec of the HPA that KEDA would create from it.
func (r *reader) scaledObject(node *yaml.Node, raw json.RawMessage, object *Object) autoscalingv2.HorizontalPodAutoscalerSpec {
	var given scaledObject
	before := len(r.errs)
	object.NotConverted = r.decodeKnown(node, raw, &given)
	if len(given.Triggers) == 0 {
		r.add(lineOf(node, "spec.triggers"), "spec.triggers: is required")
	}
	if len(r.errs) > before {
		return autoscalingv2.HorizontalPodAutoscalerSpec{}
	}
	object.setSyncPeriod(&given)
	object.Modifiers = given.Advanced.ScalingModifiers
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
		if trigger.Type == "cron" {
			object.Schedules = append(object.Schedules, r.cronTrigger(node, path, i, trigger.Metadata))
			continue
		}
		metric, known := r.triggerMetric(node, path, i, trigger)
		if metric.External != nil {
			t := r.externalTrigger(node, path, trigger, onMissing)
			known = append(known, r.activation(node, path, trigger, *spec.MinReplicas, &t)...)
			object.Triggers[len(spec.Metrics)] = t
		}
		spec.Metrics = append(spec.Metrics, metric)
		for _, key := range slices.Sorted(maps.Keys(trigger.Metadata)) {
			if !slices.Contains(known, key) {
				object.NotConverted = append(object.NotConverted, path+".metadata."+key)
			}
		}
	}
	object.explainMinimum(&given, &spec)
	return spec
}

// setSyncPeriod converts the polling interval. KEDA polls for its cache of metrics and to start a target
// without instances; otherwise its HPA reads the metrics.
func (o *Object) setSyncPeriod(given *scaledObject) {
	interval := *cmp.Or(given.PollingInterval, new(int32(kedaPollingInterval)))
	var cached []string
	live := false
	for i, trigger := range given.Triggers {
		if trigger.Cached {
			cached = append(cached, fmt.Sprintf("spec.triggers[%d].useCachedMetrics", i))
		}
		live = live || !trigger.Cached && trigger.Type != "cron"
	}
	starts := *cmp.Or(given.MinReplicaCount, new(int32(0))) == 0 || given.IdleReplicaCount != nil
	switch {
	case len(cached) > 0 && !live:
		o.SyncPeriodSeconds = &interval
		return
	case given.PollingInterval != nil && starts && interval < hpaPeriod:
		o.SyncPeriodSeconds = &interval
	case given.PollingInterval != nil:
		o.Notes = append(o.Notes, fmt.Sprintf("Not converted: pollingInterval = %d. KEDA's HPA reads the metrics every %d seconds, the default of sync_period.", interval, hpaPeriod))
	}
	o.NotConverted = append(o.NotConverted, cached...)
}

// explainMinimum adjusts the minimum to the triggers, and adds notes for a count of 0 that hpad
// cannot reach in the same way.
func (o *Object) explainMinimum(given *scaledObject, spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	minimum := *spec.MinReplicas
	for i := range o.Schedules { // KEDA's HPA does not exceed its maximum
		if s := &o.Schedules[i]; *s.MinReplicas > spec.MaxReplicas {
			s.Notes = append(s.Notes, fmt.Sprintf("desiredReplicas is %d, which is above maxReplicaCount.", *s.MinReplicas))
			s.MinReplicas = &spec.MaxReplicas
		}
	}
	if idle := given.IdleReplicaCount; idle != nil {
		o.Notes = append(o.Notes, fmt.Sprintf("%smin_replicas: KEDA scales to idleReplicaCount = %d while no trigger is active, and otherwise to at least %d. "+
			"Use 0 to stop the target when it is idle; it then starts with one instance. Keep %d if it may never stop.", draft.Decide, *idle, minimum, max(minimum, 1)))
	}
	if len(o.Triggers) > 0 {
		return
	}
	spec.MinReplicas = new(max(minimum, 1)) // KEDA does not scale to 0 on cpu and memory alone
	if len(o.Schedules) == 0 || len(spec.Metrics) > 0 {
		return
	}
	spec.MaxReplicas = *spec.MinReplicas // only the schedules change the count
	for i := range o.Schedules {
		o.Schedules[i].MaxReplicas = o.Schedules[i].MinReplicas
	}
	if minimum == 0 {
		o.Notes = append(o.Notes, draft.Decide+"the count outside the windows: KEDA scales to 0, and hpad keeps min_replicas = 1. "+
			"To stop the target, add a schedule with min_replicas = 0 and max_replicas = 0 for the other times.")
	}
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
// equivalent of the fallback's behavior. KEDA counts the failures of each read by its HPA.
func (s *scaledObject) onMissing() (text string, converted bool) {
	if s.Fallback == nil {
		return "", true
	}
	static := fmt.Sprintf("replicas:%d", s.Fallback.Replicas)
	use, ok := map[string]string{"": static, "static": static, "currentReplicas": "hold"}[s.Fallback.Behavior]
	if !ok {
		return "", false
	}
	after := s.Fallback.FailureThreshold * hpaPeriod
	return fmt.Sprintf("{ after = \"%ds\", use = %q }", after, use), true
}

// triggerMetric returns the metric for a trigger, and the keys of its metadata that are converted.
func (r *reader) triggerMetric(node *yaml.Node, path string, i int, given trigger) (autoscalingv2.MetricSpec, []string) {
	name, container := corev1.ResourceName(given.Type), given.Metadata["containerName"]
	if given.Type != "cpu" && given.Type != "memory" {
		scaler := scalers[given.Type]
		known := append([]string{"serverAddress", "query", "threshold", "ignoreNullValues", "metricName", scaler.targetKey(given)}, scaler.targets...)
		for _, key := range placeholder.FindAllString(scaler.exporter+scaler.query, -1) {
			known = append(known, strings.Trim(key, "{}"))
		}
		source := &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: cmp.Or(given.Name, fmt.Sprintf("s%d-%s", i, given.Type))}}
		key := scaler.targetKey(given)
		if given.Type != prometheusTrigger && given.Metadata[key] == "" && scaler.fallback == "" { // an open decision
			source.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType}
		} else {
			source.Target = r.triggerTarget(node, path, given, key, scaler.fallback)
		}
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: source}, known
	}
	metric := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType}
	target := r.triggerTarget(node, path, given, "value", "")
	if container != "" {
		metric.Type = autoscalingv2.ContainerResourceMetricSourceType
		metric.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: container, Target: target}
	} else {
		metric.Resource = &autoscalingv2.ResourceMetricSource{Name: name, Target: target}
	}
	return metric, []string{"value", "type", "containerName"}
}

// triggerTarget returns the target value of a trigger, which is the value of a key in its metadata.
func (r *reader) triggerTarget(node *yaml.Node, path string, given trigger, key, fallback string) autoscalingv2.MetricTarget {
	text := cmp.Or(given.Metadata[key], fallback)
	parsed, err := quantity.Parse(text)
	if err == nil && parsed.Milli() <= 0 {
		err = fmt.Errorf("%q must be greater than 0", text)
	}
	if err != nil {
		r.add(lineOf(node, path+".metadata."+key), "%s.metadata.%s: %v", path, key, err)
		return autoscalingv2.MetricTarget{}
	}
	metricType, err := given.targetType()
	if err != nil {
		r.add(lineOf(node, path+".metricType"), "%s.metricType: %v", path, err)
		return autoscalingv2.MetricTarget{}
	}
	value := resource.MustParse(text)
	switch metricType {
	case autoscalingv2.ValueMetricType:
		return autoscalingv2.MetricTarget{Type: metricType, Value: &value}
	case autoscalingv2.UtilizationMetricType:
		return autoscalingv2.MetricTarget{Type: metricType, AverageUtilization: new(int32(value.Value()))}
	}
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &value}
}

// targetType returns the type of a trigger's target value. KEDA rejects other types.
func (t *trigger) targetType() (autoscalingv2.MetricTargetType, error) {
	given, allowed := autoscalingv2.MetricTargetType(t.MetricType), []autoscalingv2.MetricTargetType{autoscalingv2.AverageValueMetricType, autoscalingv2.ValueMetricType}
	if t.Type == "cpu" || t.Type == "memory" {
		given, allowed[1] = cmp.Or(given, autoscalingv2.MetricTargetType(t.Metadata["type"])), autoscalingv2.UtilizationMetricType
	} else {
		given = cmp.Or(given, autoscalingv2.AverageValueMetricType)
	}
	if !slices.Contains(allowed, given) {
		return "", fmt.Errorf("must be %s or %s for a %s trigger, not %q", allowed[0], allowed[1], t.Type, given)
	}
	return given, nil
}

// externalTrigger returns the query of a trigger. It is known only if the type is prometheus.
func (r *reader) externalTrigger(node *yaml.Node, path string, given trigger, onMissing string) Trigger {
	metadata := given.Metadata
	t := Trigger{Path: path, OnMissing: onMissing}
	if given.Type != prometheusTrigger {
		scaler := scalers[given.Type]
		t.Remedy, t.Suggestion = scaler.remedy(given.Type, metadata), filled(scaler.query, metadata)
		return t
	}
	t.Query, t.Server, t.Empty = strings.TrimSpace(metadata["query"]), metadata["serverAddress"], "zero"
	if t.Query == "" {
		r.add(lineOf(node, path+".metadata"), "%s.metadata.query: is required", path)
	}
	if metadata["ignoreNullValues"] == "false" {
		t.Empty = ""
	}
	return t
}

// activation sets the activation of a trigger, and returns the key of its metadata that contains it.
// An activation has no effect if the minimum is above 0.
func (r *reader) activation(node *yaml.Node, path string, given trigger, minimum int32, t *Trigger) (keys []string) {
	for key, text := range given.Metadata {
		if !strings.HasPrefix(key, "activation") {
			continue
		}
		if _, err := quantity.Parse(text); err != nil {
			r.add(lineOf(node, path+".metadata."+key), "%s.metadata.%s: %v", path, key, err)
		}
		if minimum == 0 {
			keys, t.Activation = append(keys, key), text
		}
	}
	return keys
}
