package config

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
)

// labelTable is an autoscaler that the labels of a target define. It has no target key, because it
// scales the target that has the labels.
type labelTable struct {
	// Requests are the resources that each instance requests, if the fleet does not report them;
	// greater than 0.
	Requests map[string]quantity.OrNumber `toml:"requests"`
	scalingTable
}

// The short labels and the keys that they set.
const (
	minLabel    = "min"
	maxLabel    = "max"
	minKey      = "min_replicas"
	maxKey      = "max_replicas"
	metricsKey  = "metrics"
	periodKey   = "sync_period"
	enableLabel = "enable"
)

// resourceLabels define a whole metric with a target utilization of the resource.
var resourceLabels = []string{"cpu", "memory"}

type labelText string

// LabelsName returns the name of the autoscaler that a target's labels define. An autoscaler in a
// file cannot have such a name.
func LabelsName(ref targets.Ref) string { return ref.String() }

// Labeled decodes the autoscaler that a target's labels define. A label consists of
// [targets.LabelPrefix] and the path of a key with dots, where array elements are numbered from 0.
// The short forms are min, max, cpu and memory. Labels are validated as strictly as a file. If the
// labels do not enable an autoscaler, enabled is false and a is nil. The error is an [Errors] whose
// keys are labels.
func (c *Config) Labeled(ref targets.Ref, labels map[string]string) (a *Autoscaler, enabled bool, err error) {
	r := newLabelReader(c, ref)
	if enabled = r.enabled(labels); !enabled {
		return nil, false, r.failure()
	}
	if r.isOversized(c.LabelLimits(ref.Fleet), labels) {
		return nil, true, r.failure()
	}
	a, err = r.read(c, ref, labels, r.tree(labels))
	return a, true, err
}

// read decodes and validates the table that labels define.
func (r *labelReader) read(c *Config, ref targets.Ref, labels map[string]string, tree map[string]any) (*Autoscaler, error) {
	var given labelTable
	r.table.decodeKeys("", tree, reflect.ValueOf(&given).Elem(), r.vocabulary(), nil)
	r.table.checkStrict(&given)
	a := &Autoscaler{Name: LabelsName(ref), Target: ref, Labels: maps.Clone(labels), Written: WrittenOf(tree)}
	a.Requests = r.table.readRequests("requests", given.Requests)
	r.table.readScaling(c, given.scalingTable, nil, a)
	for _, mistake := range r.table.loader.errs {
		r.errs = append(r.errs, r.ofLabel(mistake))
	}
	for _, warning := range r.table.loader.warnings {
		a.Warnings = append(a.Warnings, r.ofLabel(warning))
	}
	if len(r.errs) == 0 {
		r.limit(c.LabelLimits(ref.Fleet), tree, a)
	}
	if err := r.failure(); err != nil {
		return nil, err
	}
	return a, nil
}

type labelReader struct {
	errs  Errors
	table *table
	// shorts lists the given resource labels. Their metrics precede the metrics of other labels.
	shorts []string
	// long contains min_replicas and max_replicas if they are given instead of the short forms.
	long []string
}

func newLabelReader(c *Config, ref targets.Ref) *labelReader {
	doc := &document{name: "labels of " + ref.String(), index: map[string]place{}}
	return &labelReader{table: &table{loader: c.loaderOf(), doc: doc, labels: true, meant: map[string]bool{}}}
}

func (r *labelReader) add(label, value, detail string) {
	if value != "" {
		value = shorten(strconv.Quote(redact.Value(label, value)))
	}
	r.errs = append(r.errs, Error{File: r.table.doc.name, Key: targets.LabelPrefix + label, Value: value, Detail: detail})
}

func (r *labelReader) failure() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int { return strings.Compare(a.Key, b.Key) })
	return r.errs
}

// enabled reports whether the labels enable an autoscaler. It records an error for a label that is
// similar to hpad.enable.
func (r *labelReader) enabled(labels map[string]string) bool {
	value, given := labels[targets.EnableLabel]
	switch {
	case value == "true":
		return true
	case value == "false":
		return false
	case given:
		r.add(enableLabel, value, `must be "true" or "false"`)
		return false
	}
	known := settings.FieldsOf(reflect.TypeFor[labelTable]())
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		if ok && len(label) <= targets.MaxLabelName && !known.Has(key) && utf8.ValidString(key) && Nearest(key, r.vocabulary()) == enableLabel {
			r.add(key, "", fmt.Sprintf("unknown key; did you mean %q?", enableLabel))
		}
	}
	return false
}

// isOversized reports whether labels exceed the size limits. Such labels are not decoded.
func (r *labelReader) isOversized(limits targets.LabelLimits, labels map[string]string) bool {
	total := 0
	for label, value := range labels {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		if !ok {
			continue
		}
		total += len(label) + len(value)
		if len(label) > targets.MaxLabelName {
			r.add(strings.ToValidUTF8(shorten(key), "�"), "", fmt.Sprintf("a label name may have at most %d bytes, but this one has %d", targets.MaxLabelName, len(label)))
		} else if len(value) > targets.MaxLabelValue && !strings.HasSuffix(key, ".query") {
			r.add(key, "", fmt.Sprintf("a label value other than a query may have at most %d bytes, but this one has %d", targets.MaxLabelValue, len(value)))
		}
	}
	if most := limits.Total(); total > most && len(r.errs) == 0 {
		r.add("*", "", fmt.Sprintf("all labels together may have at most %d bytes, but these have %d", most, total))
	}
	return len(r.errs) > 0
}

// tree converts the labels to a table of strings and inner tables.
func (r *labelReader) tree(labels map[string]string) map[string]any {
	tree := map[string]any{}
	for _, short := range resourceLabels {
		value, given := labels[targets.LabelPrefix+short]
		if !given {
			continue
		}
		percent, err := strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 32)
		if err != nil {
			r.add(short, strings.ToValidUTF8(value, "�"), `must be a percentage of the request, such as "60" or "60%"; for other targets use `+targets.LabelPrefix+"metrics.0.resource and so on")
			percent = 1
		}
		at := metricsKey + "." + strconv.Itoa(len(r.shorts)) + "."
		r.shorts = append(r.shorts, short)
		r.put(tree, at+"type", short, string(policy.ResourceMetric))
		r.put(tree, at+"resource", short, short)
		r.put(tree, at+"average_utilization", short, strconv.FormatInt(percent, 10))
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		switch {
		case !ok || key == enableLabel || slices.Contains(resourceLabels, key):
		case strings.HasPrefix(strings.TrimPrefix(key, "target."), "endpoints"):
			r.add(strings.ToValidUTF8(key, "�"), "", "is only allowed in the configuration file, because hpad writes the file and runs the command with its own rights")
		case !utf8.ValidString(key + labels[label]):
			r.add(strings.ToValidUTF8(key, "�"), "", "is not valid UTF-8")
		default:
			r.put(tree, r.keyOf(key), key, labels[label])
		}
	}
	return tree
}

func (r *labelReader) keyOf(label string) string {
	switch label {
	case minLabel:
		return minKey
	case maxLabel:
		return maxKey
	case minKey, maxKey:
		r.long = append(r.long, label)
	}
	return moved(label, len(r.shorts))
}

// moved adds an offset to the metric's index in a dotted key.
func moved(key string, by int) string {
	parts := strings.SplitN(key, ".", 3)
	if len(parts) < 2 || parts[0] != metricsKey {
		return key
	}
	if i, err := strconv.Atoi(parts[1]); err == nil && strconv.Itoa(i) == parts[1] && i >= 0 {
		parts[1] = strconv.Itoa(i + by)
	}
	return strings.Join(parts, ".")
}

func (r *labelReader) put(tree map[string]any, key, label, value string) {
	parts := strings.Split(key, ".")
	last := len(parts) - 1
	for _, part := range parts[:last] {
		if tree[part] == nil {
			tree[part] = map[string]any{}
		}
		inner, ok := tree[part].(map[string]any)
		if !ok {
			r.add(label, value, "cannot be set: another label sets the whole value")
			return
		}
		tree = inner
	}
	if tree[parts[last]] != nil {
		r.add(label, value, "is already set by another label")
		return
	}
	tree[parts[last]] = labelText(value)
}

// vocabulary returns the known labels without the keys of inner tables.
func (r *labelReader) vocabulary() []string {
	names := append([]string{enableLabel, minLabel, maxLabel}, resourceLabels...)
	for _, key := range settings.FieldsOf(reflect.TypeFor[labelTable]()).Keys {
		if key != minKey && key != maxKey {
			names = append(names, key)
		}
	}
	return names
}

// partOf returns an example key inside a table or an array.
func partOf(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.Slice:
		if settings.IsValue(goType.Elem()) {
			return "0"
		}
		return "0." + partOf(goType.Elem())
	case reflect.Map:
		return "NAME"
	}
	return settings.FieldsOf(goType).Keys[0]
}

// elementsOf returns the elements of an array that is given as a table with numbers as keys. It
// returns false unless the numbers are consecutive and start at 0.
func elementsOf(tree map[string]any) ([]any, bool) {
	elements := make([]any, len(tree))
	for i := range elements {
		if elements[i] = tree[strconv.Itoa(i)]; elements[i] == nil {
			return nil, false
		}
	}
	return elements, true
}

// flat adds the strings in a table to into, with dotted keys.
func flat(prefix string, tree, into map[string]any) map[string]any {
	for name, value := range tree {
		if inner, ok := value.(map[string]any); ok {
			flat(prefix+name+".", inner, into)
		} else {
			into[prefix+name] = value
		}
	}
	return into
}

func (r *labelReader) ofLabel(mistake Error) Error {
	mistake.Key = targets.LabelPrefix + r.labelOf(mistake.Key)
	return mistake
}

// labelOf returns the label for a path in the table.
func (r *labelReader) labelOf(path string) string {
	label := ""
	for at := path; at != ""; {
		parent, last := cutLast(at)
		label, at = under(strings.Trim(last, "[]"), label), parent
	}
	switch {
	case slices.Contains(r.long, label):
	case label == minKey:
		return minLabel
	case label == maxKey:
		return maxLabel
	}
	for i, short := range r.shorts {
		if metric := metricsKey + "." + strconv.Itoa(i); label == metric || strings.HasPrefix(label, metric+".") {
			return short
		}
	}
	return moved(label, -len(r.shorts))
}

// LabelLimit formats a limit on a fleet's labels with its value for messages.
func LabelLimit(fleet, key string, value any) string {
	return fmt.Sprintf("%s.label_limits.%s = %v", join(fleetsKey, fleet), key, value)
}

// LabelLimits returns the limits on a fleet's labels.
func (c *Config) LabelLimits(fleet string) targets.LabelLimits {
	limits := c.Fleets[fleet].LabelLimits
	limits.SetDefaults()
	return limits
}

// limit records an error for every violated limit.
func (r *labelReader) limit(limits targets.LabelLimits, tree map[string]any, a *Autoscaler) {
	add := func(path, value, detail, key string, limit any) {
		r.add(r.labelOf(path), value, fmt.Sprintf("%s (%s)", detail, LabelLimit(a.Target.Fleet, key, limit)))
	}
	if a.Spec.MaxReplicas > limits.MaxReplicas {
		add(maxKey, strconv.Itoa(int(a.Spec.MaxReplicas)), fmt.Sprintf("labels may set at most %d", limits.MaxReplicas), "max_replicas", limits.MaxReplicas)
	}
	if tree[periodKey] != nil && a.SyncPeriod < limits.SyncPeriod {
		add(periodKey, a.SyncPeriod.String(), fmt.Sprintf("labels may set at least %s", limits.SyncPeriod), "sync_period", strconv.Quote(limits.SyncPeriod.String()))
	}
	if len(a.Inputs) > limits.Metrics {
		add(element(metricsKey, limits.Metrics), "", fmt.Sprintf("labels may define at most %d metrics, but these define %d", limits.Metrics, len(a.Inputs)), "metrics", limits.Metrics)
	}
	for i, in := range a.Inputs {
		if len(in.Query) > limits.Query {
			add(element(metricsKey, i)+".query", in.Query, fmt.Sprintf("a query in labels may have at most %d bytes, but this one has %d", limits.Query, len(in.Query)), "query", limits.Query)
		}
	}
}

// loaderOf returns a loader that knows the names in the configuration.
func (c *Config) loaderOf() *loader {
	l := newLoader(context.Background())
	l.strict = c.Daemon.Strict()
	for name, fleet := range c.Fleets {
		l.tables[fleetsKey][name] = &table{raw: map[string]any{kindKey: fleet.Kind}}
	}
	for name := range c.Sources {
		l.tables[sourcesKey][name] = &table{}
	}
	return l
}
