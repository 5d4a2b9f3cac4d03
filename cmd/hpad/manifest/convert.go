package manifest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings/formula"
)

// choices are the values that manifests do not contain.
type choices origin.Choices

// Names returns the namespace and the name of the object, and the name of its target.
func (o *Object) Names() (namespace, name, target string) {
	return o.Namespace, o.Name, o.Spec.ScaleTargetRef.Name
}

// Draft converts the object to an autoscaler without a name.
func (o *Object) Draft(given origin.Choices) *draft.Autoscaler {
	choices := choices(given)
	a := &draft.Autoscaler{
		Target:      choices.target(o),
		MinReplicas: o.Spec.MinReplicas,
		MaxReplicas: o.Spec.MaxReplicas,
		Behavior:    behaviorDraft(o.Spec.Behavior),
		Mode:        o.Mode,
		ModeNote:    o.Paused,
		Schedules:   o.Schedules,
	}
	a.Notes = []string{fmt.Sprintf("From %s %s (%s) in %s:%d, which scales %s %q.",
		o.Kind, o.reference(), o.APIVersion, o.File, o.Line, o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name)}
	a.Notes = append(a.Notes, o.Notes...)
	if len(o.Spec.Metrics) == 0 && len(o.Schedules) == 0 {
		a.Notes = append(a.Notes, "No metrics: the default is cpu at 80% of the requests.")
	}
	for j := range o.Spec.Metrics {
		metric := choices.metric(&o.Spec.Metrics[j])
		if trigger, ok := o.Triggers[j]; ok {
			choices.fromTrigger(&metric, trigger)
		}
		a.Metrics = append(a.Metrics, metric)
	}
	o.Modifiers.combine(a)
	if o.SyncPeriodSeconds != nil {
		a.SyncPeriod = time.Duration(*o.SyncPeriodSeconds) * time.Second
	}
	if len(o.NotConverted) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Not converted: %s. The section \"KEDA\" of docs/kubernetes.md lists replacements.", strings.Join(o.NotConverted, ", ")))
	}
	return a
}

// reference returns "namespace/name", or only the known part.
func (o *Object) reference() string {
	switch {
	case o.Name == "":
		return "without a name"
	case o.Namespace == "":
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

func (c *choices) target(o *Object) draft.Target {
	ref, namespace := o.Spec.ScaleTargetRef, o.Namespace
	if c.Fleet == "" {
		return draft.Target{
			Fleet: draft.UndecidedFleet,
			Notes: []string{fmt.Sprintf("%sthe fleet and the name of %s %q in it, for example { fleet = \"prod\", job = %q, group = %q } in a fleet of kind nomad.",
				draft.Decide, ref.Kind, ref.Name, ref.Name, ref.Name)},
		}
	}
	target := draft.Target{
		Fleet: c.Fleet,
		Notes: []string{fmt.Sprintf("Guessed from %s %q: correct it if the name differs.", ref.Kind, ref.Name)},
	}
	if namespace == "" {
		namespace = ref.Name
	}
	for _, key := range kinds.Fleets[c.Kind].Reference.Suggest(namespace, ref.Name) {
		target.Keys = append(target.Keys, draft.Key(key))
	}
	return target
}

func (c *choices) metric(given *autoscalingv2.MetricSpec) draft.Metric {
	var m draft.Metric
	var target autoscalingv2.MetricTarget
	var identifier autoscalingv2.MetricIdentifier
	switch given.Type {
	case autoscalingv2.ResourceMetricSourceType:
		m.Resource, target = string(given.Resource.Name), given.Resource.Target
	case autoscalingv2.ContainerResourceMetricSourceType:
		source := given.ContainerResource
		m.Resource, m.Task, target = string(source.Name), source.Container, source.Target
	case autoscalingv2.PodsMetricSourceType:
		identifier, target = given.Pods.Metric, given.Pods.Target
	case autoscalingv2.ObjectMetricSourceType:
		identifier, target = given.Object.Metric, given.Object.Target
		m.Object = objectOf(given.Object.DescribedObject)
	case autoscalingv2.ExternalMetricSourceType:
		identifier, target = given.External.Metric, given.External.Target
	}
	m.Type, m.Name = string(given.Type), identifier.Name
	if given.Type == autoscalingv2.PodsMetricSourceType {
		m.Type = "Instances"
	}
	m.Value, m.AverageValue, m.AverageUtilization = quantityText(target.Value), quantityText(target.AverageValue), target.AverageUtilization
	if target.Type != impliedType(given.Type, target) {
		m.TargetType = string(target.Type)
	}
	if given.Type == autoscalingv2.ObjectMetricSourceType && !hasValueOfType(target) {
		m.Notes = append(m.Notes, draft.Decide+"the target value: the field of its type is missing, so every evaluation fails in Kubernetes as well.")
	}
	switch {
	case identifier.Name != "":
		m.Notes = append(m.Notes, metricNote(given.Type, m.Object, identifier))
		m.SuggestSource(c.Source, c.Kind, matchers(identifier.Selector))
	case c.Fleet != "" && !kinds.Fleets[c.Kind].Samples:
		m.SuggestSource(c.Source, c.Kind, "")
	}
	return m
}

// fromTrigger replaces the suggestions for a metric with the query of its trigger or adapter. The
// query of an Instances metric still needs the label of the instances in the fleet.
func (c *choices) fromTrigger(m *draft.Metric, t Trigger) {
	note, server := cmp.Or(t.By, "KEDA")+" reads "+t.Path, ""
	if t.Server != "" {
		note += fmt.Sprintf(" from %q", t.Server)
		server = fmt.Sprintf(" and url = %q", t.Server)
	}
	m.Notes, m.Suggested = []string{note + "."}, slices.DeleteFunc(m.Suggested, func(k draft.Key) bool {
		return m.Type != "Instances" || k.Name == "query" && t.Query != ""
	})
	if m.Type == "Instances" {
		m.Notes = append(m.Notes, draft.Decide+"the label of the query that identifies an instance in the fleet; in Kubernetes, it is the name of the pod.")
	}
	m.Query, m.Empty, m.OnMissing, m.Activation = t.Query, t.Empty, t.OnMissing, t.Activation
	if c.Source == "" {
		m.Notes = append(m.Notes, draft.Decide+"the source: a table [sources.NAME], for example with kind = \"prometheus\""+server+".")
	}
	if t.Query == "" {
		m.Notes = append(m.Notes, draft.Decide+"the query: "+t.Remedy+".")
	}
	if t.Suggestion != "" {
		m.Suggested = []draft.Key{{Name: "query", Value: t.Suggestion}}
	}
	if m.Value == "" && m.AverageValue == "" {
		m.Notes = append(m.Notes, noTarget)
	}
}

// noTarget is the note of a metric without a target value.
const noTarget = draft.Decide + "the target value: the trigger has none that hpad knows."

// combine converts the formula of a ScaledObject. A formula of hpad uses all metrics.
func (f Modifiers) combine(a *draft.Autoscaler) {
	if f.Formula == "" {
		return
	}
	a.Combine, a.AverageValue = f.Formula, f.Target
	if f.MetricType == string(autoscalingv2.ValueMetricType) {
		a.Value, a.AverageValue = f.Target, ""
	}
	if f.Activation != "" {
		a.Notes = append(a.Notes, fmt.Sprintf("Not converted: activationTarget = %q of the formula. Set activation in a metric.", f.Activation))
	}
	parsed, err := formula.Parse(f.Formula)
	if err != nil {
		a.Notes = append(a.Notes, fmt.Sprintf("%scombine: the formula of KEDA is not valid in hpad: it %v.", draft.Decide, err))
		return
	}
	var unused []string
	a.Metrics = slices.DeleteFunc(a.Metrics, func(m draft.Metric) bool {
		name := cmp.Or(m.Name, m.Resource)
		used := slices.Contains(parsed.Names(), name)
		if !used {
			unused = append(unused, name)
		}
		return !used
	})
	for i := range a.Metrics { // only the target of the formula has an effect
		if m := &a.Metrics[i]; m.Value == "" && m.AverageValue == "" && m.Type == "External" {
			m.AverageValue, m.TargetType = "1", ""
			m.Notes = slices.DeleteFunc(m.Notes, func(note string) bool { return note == noTarget })
		}
	}
	if len(unused) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%scombine: the formula does not use %s. KEDA ignores such triggers, except cpu and memory: their proposal counts if it is higher. "+
			"Add them to the formula, or leave them out.", draft.Decide, strings.Join(unused, ", ")))
	}
}

// hasValueOfType reports whether the target of an Object metric sets the field that its type
// selects (R40).
func hasValueOfType(target autoscalingv2.MetricTarget) bool {
	switch target.Type {
	case autoscalingv2.ValueMetricType:
		return target.Value != nil
	case autoscalingv2.AverageValueMetricType:
		return target.AverageValue != nil
	}
	return false
}

// impliedType returns the default target type.
func impliedType(metricType autoscalingv2.MetricSourceType, target autoscalingv2.MetricTarget) autoscalingv2.MetricTargetType {
	switch {
	case target.AverageUtilization != nil:
		return autoscalingv2.UtilizationMetricType
	case target.Value != nil && target.AverageValue != nil && metricType == autoscalingv2.ObjectMetricSourceType:
		return ""
	case target.AverageValue != nil:
		return autoscalingv2.AverageValueMetricType
	}
	return autoscalingv2.ValueMetricType
}

// metricNote describes a metric that a metrics adapter provides.
func metricNote(metricType autoscalingv2.MetricSourceType, object string, identifier autoscalingv2.MetricIdentifier) string {
	note := fmt.Sprintf("%s metric %q", metricType, identifier.Name)
	if object != "" {
		note += " on " + object
	}
	if selected := matchers(identifier.Selector); selected != "" {
		note += " where " + selected
	}
	return note + " from a metrics adapter in Kubernetes (prometheus-adapter, KEDA …), whose configuration contains the query."
}

// labelName matches characters that are invalid in Prometheus label names.
var labelName = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// matchers converts a label selector to Prometheus matchers.
func matchers(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	var found []string
	add := func(label, operator, value string) {
		found = append(found, labelName.ReplaceAllString(label, "_")+operator+fmt.Sprintf("%q", value))
	}
	for label, value := range selector.MatchLabels {
		add(label, "=", value)
	}
	slices.Sort(found)
	for _, e := range selector.MatchExpressions {
		values := make([]string, len(e.Values))
		for i, value := range e.Values {
			values[i] = regexp.QuoteMeta(value)
		}
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			add(e.Key, "=~", strings.Join(values, "|"))
		case metav1.LabelSelectorOpNotIn:
			add(e.Key, "!~", strings.Join(values, "|"))
		case metav1.LabelSelectorOpExists:
			add(e.Key, "!=", "")
		case metav1.LabelSelectorOpDoesNotExist:
			add(e.Key, "=", "")
		}
	}
	return strings.Join(found, ", ")
}

func quantityText(given *resource.Quantity) string {
	if given == nil {
		return ""
	}
	return given.String()
}

// toleranceText formats a tolerance as a decimal number. It returns "" for nil.
func toleranceText(given *resource.Quantity) string {
	if given == nil {
		return ""
	}
	exact := given.DeepCopy()
	number, err := strconv.ParseFloat(exact.AsDec().String(), 64)
	if err != nil {
		return strconv.Quote(given.String())
	}
	return strconv.FormatFloat(number, 'f', -1, 64)
}

func behaviorDraft(given *autoscalingv2.HorizontalPodAutoscalerBehavior) *draft.Behavior {
	if given == nil {
		return nil
	}
	return &draft.Behavior{ScaleUp: rulesDraft(given.ScaleUp), ScaleDown: rulesDraft(given.ScaleDown)}
}

func rulesDraft(given *autoscalingv2.HPAScalingRules) *draft.Rules {
	if given == nil {
		return nil
	}
	rules := &draft.Rules{Tolerance: toleranceText(given.Tolerance)}
	if given.StabilizationWindowSeconds != nil {
		rules.StabilizationWindow = new(time.Duration(*given.StabilizationWindowSeconds) * time.Second)
	}
	if given.SelectPolicy != nil {
		rules.SelectPolicy = string(*given.SelectPolicy)
	}
	if given.Policies != nil {
		rules.Policies = []draft.Policy{} // "hpad check" rejects an empty list
	}
	for _, policy := range given.Policies {
		policyType := string(policy.Type)
		if policy.Type == autoscalingv2.PodsScalingPolicy {
			policyType = "Instances"
		}
		rules.Policies = append(rules.Policies, draft.Policy{
			Type: policyType, Value: policy.Value, Period: time.Duration(policy.PeriodSeconds) * time.Second,
		})
	}
	return rules
}
