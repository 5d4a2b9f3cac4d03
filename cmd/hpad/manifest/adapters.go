package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// The adapters that serve custom and external metrics in Kubernetes.
const (
	zalandoAdapter    = "kube-metrics-adapter"
	prometheusAdapter = "prometheus-adapter"
)

// adapterRule is a rule of prometheus-adapter.
type adapterRule struct {
	SeriesQuery   string `yaml:"seriesQuery"`
	SeriesFilters []struct {
		Is    string `yaml:"is"`
		IsNot string `yaml:"isNot"`
	} `yaml:"seriesFilters"`
	Name struct {
		Matches string `yaml:"matches"`
		As      string `yaml:"as"`
	} `yaml:"name"`
	Resources struct {
		Template  string `yaml:"template"`
		Overrides map[string]struct {
			Resource string `yaml:"resource"`
		} `yaml:"overrides"`
	} `yaml:"resources"`
	MetricsQuery string `yaml:"metricsQuery"`
	// path identifies the rule in messages. external is set for a rule of External metrics.
	path     string
	external bool
}

// adapterRules reads the rules in a ConfigMap of prometheus-adapter, and reports whether it has any.
func (r *reader) adapterRules(node *yaml.Node, name string) bool {
	found := false
	data := child(node, "data")
	for i := 0; data != nil && i+1 < len(data.Content); i += 2 {
		var config struct {
			Rules    []adapterRule `yaml:"rules"`
			External []adapterRule `yaml:"externalRules"`
		}
		if yaml.Unmarshal([]byte(data.Content[i+1].Value), &config) != nil {
			continue // another configuration
		}
		for j, rule := range slices.Concat(config.Rules, config.External) {
			list := "rules"
			if rule.external = j >= len(config.Rules); rule.external {
				list, j = "externalRules", j-len(config.Rules)
			}
			if rule.MetricsQuery != "" {
				rule.path = fmt.Sprintf("%s[%d] of ConfigMap %s", list, j, name)
				r.rules, found = append(r.rules, rule), true
			}
		}
	}
	return found
}

// fillQueries sets the queries of the metrics that an adapter serves: from an annotation of
// kube-metrics-adapter, or from a rule of prometheus-adapter in the same file.
func (r *reader) fillQueries(o *Object, annotations map[string]string) {
	for i := range o.Spec.Metrics {
		metric := &o.Spec.Metrics[i]
		kind, identifier := identifierOf(metric)
		if _, known := o.Triggers[i]; known || identifier == nil {
			continue
		}
		t, ok := zalandoQuery(annotations, kind, identifier)
		for j := 0; j < len(r.rules) && !ok; j++ {
			t, ok = r.rules[j].query(o, kind, identifier)
		}
		if ok {
			o.Triggers[i] = t
		}
	}
}

// identifierOf returns the type of a metric in annotations, and its identifier, or nil for a metric
// without an adapter.
func identifierOf(metric *autoscalingv2.MetricSpec) (kind string, identifier *autoscalingv2.MetricIdentifier) {
	switch {
	case metric.Pods != nil:
		return "pods", &metric.Pods.Metric
	case metric.Object != nil:
		return "object", &metric.Object.Metric
	case metric.External != nil:
		return "external", &metric.External.Metric
	}
	return "", nil
}

// zalandoQuery returns the query in the annotations metric-config.TYPE.METRIC.prometheus/KEY. An
// older form has the label query-name in the selector as its key.
func zalandoQuery(annotations map[string]string, kind string, identifier *autoscalingv2.MetricIdentifier) (Trigger, bool) {
	prefix, keys := "metric-config."+kind+"."+identifier.Name+".", []string{"query"}
	if identifier.Selector != nil {
		keys = append(keys, identifier.Selector.MatchLabels["query-name"])
	}
	for _, collector := range []string{"prometheus/", zalandoAdapter + "/"} {
		for _, key := range keys {
			if query := annotations[prefix+collector+key]; key != "" && query != "" {
				server := cmp.Or(annotations[prefix+collector+"prometheus-server"], annotations[prefix+"prometheus/prometheus-server"])
				return Trigger{By: zalandoAdapter, Path: "annotation " + prefix + collector + key, Query: strings.TrimSpace(query), Server: server}, true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) { // another collector
		if collector, ok := strings.CutPrefix(name, prefix); ok {
			return Trigger{By: zalandoAdapter, Path: "annotation " + name, Remedy: "the collector " + strings.Split(collector, "/")[0] +
				" does not query Prometheus; write a query for the same value, or use a source of kind http"}, true
		}
	}
	return Trigger{}, false
}

// query returns the query of the rule for a metric, and false if the rule does not serve the metric.
func (a *adapterRule) query(o *Object, kind string, identifier *autoscalingv2.MetricIdentifier) (Trigger, bool) {
	series, ok := a.series(identifier.Name)
	if !ok || a.external != (kind == "external") || !a.selects(series) {
		return Trigger{}, false
	}
	group := "" // of an External metric
	if kind != "external" {
		group = a.label(map[string]string{"pods": "pod", "object": "namespace"}[kind])
	}
	selected := matchers(identifier.Selector)
	if kind != "external" && o.Namespace != "" {
		selected = strings.Join(nonEmpty(a.label("namespace")+"="+fmt.Sprintf("%q", o.Namespace), selected), ", ")
	}
	query := strings.NewReplacer(
		"<<.Series>>", series, "<<.LabelMatchers>>", selected, "<<.GroupBy>>", group, "<< .Series >>", series, "<< .LabelMatchers >>", selected, "<< .GroupBy >>", group,
	).Replace(a.MetricsQuery)
	query = emptyGroup.ReplaceAllString(emptySelector.ReplaceAllString(query, ""), "")
	if strings.Contains(query, "<<") {
		return Trigger{By: prometheusAdapter, Path: a.path, Remedy: "the template " + a.MetricsQuery + " uses more than the series, the matchers and the group"}, true
	}
	return Trigger{By: prometheusAdapter, Path: a.path, Query: strings.TrimSpace(query)}, true
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// emptyGroup matches a grouping without labels, and emptySelector a selector without matchers.
var (
	emptyGroup    = regexp.MustCompile(`\s*\bby\s*\(\s*\)`)
	emptySelector = regexp.MustCompile(`\{\s*,?\s*\}`)
)

// seriesName matches the name of the series at the beginning of a series query.
var seriesName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)

// reference matches a reference to a group in the name of a metric.
var reference = regexp.MustCompile(`\$\{?1\}?`)

// series returns the name of the series from which the rule makes a metric. The rule's name is a
// pattern with one group, which the metric's name contains.
func (a *adapterRule) series(metric string) (string, bool) {
	plain := seriesName.FindString(a.SeriesQuery)
	pattern := strings.Trim(cmp.Or(a.Name.Matches, ".*"), "^$")
	as := cmp.Or(a.Name.As, "$1")
	if !reference.MatchString(as) { // the rule serves one metric
		return plain, as == metric && plain != ""
	}
	outer := reference.Split(as, 2)
	inner, begins := strings.CutPrefix(metric, outer[0])
	inner, ends := strings.CutSuffix(inner, outer[1])
	if !begins || !ends || inner == "" {
		return "", false
	}
	name := inner
	if first, last := strings.Index(pattern, "("), strings.LastIndex(pattern, ")"); first >= 0 && last > first {
		name = pattern[:first] + inner + pattern[last+1:]
	}
	return name, seriesName.FindString(name) == name && (plain == "" || plain == name)
}

// namePattern matches the pattern of a series query.
var namePattern = regexp.MustCompile(`__name__\s*=~?\s*"((?:[^"\\]|\\.)*)"`)

// selects reports whether the series query and the filters of the rule select a series.
func (a *adapterRule) selects(series string) bool {
	matches := func(pattern string) bool {
		compiled, err := regexp.Compile(pattern)
		return err == nil && compiled.MatchString(series)
	}
	if found := namePattern.FindStringSubmatch(a.SeriesQuery); found != nil && !matches("^(?:"+strings.ReplaceAll(found[1], `\\`, `\`)+")$") {
		return false
	}
	for _, filter := range a.SeriesFilters {
		if filter.Is != "" && !matches(filter.Is) || filter.IsNot != "" && matches(filter.IsNot) {
			return false
		}
	}
	return true
}

// label returns the label that contains a resource of Kubernetes.
func (a *adapterRule) label(resource string) string {
	for label, override := range a.Resources.Overrides {
		if strings.TrimSuffix(strings.ToLower(override.Resource), "s") == resource {
			return label
		}
	}
	return strings.NewReplacer("<<.Resource>>", resource, "<< .Resource >>", resource).Replace(cmp.Or(a.Resources.Template, "<<.Resource>>"))
}
