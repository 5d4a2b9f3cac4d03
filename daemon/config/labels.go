package config

import (
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

// labelTable is what the labels of a target say of its autoscaler: everything
// but the target.
type labelTable struct {
	// Requests are what each instance requests, by resource, where the fleet cannot
	// tell; greater than 0.
	Requests map[string]quantity.OrNumber `toml:"requests"`
	scalingTable
}

// The labels that are shorter than the keys they stand for, and those keys.
const (
	minLabel      = "min"
	maxLabel      = "max"
	minKey        = "min_replicas"
	maxKey        = "max_replicas"
	metricsKey    = "metrics"
	periodKey     = "sync_period"
	enableLabel   = "enable"
	cpuResource   = "cpu"
	memResource   = "memory"
	maxLabelIndex = 100
)

// LabelsName returns the name of the autoscaler that a target's labels ask for.
// No name in a file is like it.
func LabelsName(ref targets.Ref) string { return ref.String() }

// Labeled reads the autoscaler that a target asks for by its labels, those that
// begin with [targets.LabelPrefix]: the keys of an autoscaler, joined by dots,
// elements of arrays by their number from 0, and min, max, cpu and memory for
// short; nil where there is none. It is read as strictly as a file. Enabled is false where
// the labels ask for none. The error is an [Errors] whose keys are the labels.
func (c *Config) Labeled(ref targets.Ref, labels map[string]string) (a *Autoscaler, enabled bool, err error) {
	r := &labelReader{doc: &document{name: "labels of " + ref.String(), index: map[string]place{}}, origins: map[string]string{}}
	if enabled = r.enabled(labels); !enabled {
		return nil, false, r.failure()
	}
	if r.isOversized(c.LabelLimits(ref.Fleet), labels) {
		return nil, true, r.failure()
	}
	for _, short := range []string{cpuResource, memResource} {
		if value, ok := labels[targets.LabelPrefix+short]; ok && utf8.ValidString(value) {
			r.readResource(short, value)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		switch {
		case !ok || key == enableLabel:
		case !utf8.ValidString(key + labels[label]):
			r.add(strings.ToValidUTF8(key, "�"), "", "is not valid UTF-8")
		case !slices.Contains(r.shorts, key):
			r.read(key, labels[label])
		}
	}
	r.checkGaps()
	a = &Autoscaler{Name: LabelsName(ref), Target: ref, Labels: maps.Clone(labels)}
	if len(r.errs) == 0 { // what is missing because of them is not worth telling
		r.build(c, a)
	}
	if len(r.errs) == 0 {
		r.limit(c.LabelLimits(ref.Fleet), a)
	}
	if err := r.failure(); err != nil {
		return nil, true, err
	}
	return a, true, nil
}

// labelReader makes a table of labels.
type labelReader struct {
	errs  Errors
	given labelTable
	// doc has the values by their paths in the table, origins the labels that the
	// paths come from.
	doc     *document
	origins map[string]string
	// shorts are the labels that stand for the first metrics, in their order, arrays
	// the paths of arrays of tables.
	shorts []string
	arrays []string
}

func (r *labelReader) add(label, value, detail string) {
	if value != "" {
		value = shorten(strconv.Quote(redact.Value(label, value)))
	}
	r.errs = append(r.errs, Error{File: r.doc.name, Key: targets.LabelPrefix + label, Value: value, Detail: detail})
}

func (r *labelReader) failure() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int { return strings.Compare(a.Key, b.Key) })
	return r.errs
}

// enabled reports whether the labels ask for an autoscaler. Where they do not say,
// one that is nearly the label that does is a mistake.
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
	fields := settings.FieldsOf(reflect.TypeFor[labelTable]())
	allowed := vocabulary(fields, true)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		if ok && len(label) <= targets.MaxLabelName && !fields.Has(key) && utf8.ValidString(key) && Nearest(key, allowed) == enableLabel {
			r.unknown(key, key, allowed)
		}
	}
	return false
}

// isOversized reports whether labels have more text than they may have, which is then
// an error and not read.
func (r *labelReader) isOversized(limits targets.LabelLimits, labels map[string]string) bool {
	total := 0
	for label, value := range labels {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		if !ok {
			continue
		}
		total += len(label) + len(value)
		if len(label) > targets.MaxLabelName {
			r.add(strings.ToValidUTF8(shorten(key), "�"), "", fmt.Sprintf("names of labels may have %d bytes, and this has %d", targets.MaxLabelName, len(label)))
		} else if len(value) > targets.MaxLabelValue && !strings.HasSuffix(key, ".query") {
			r.add(key, "", fmt.Sprintf("values of labels may have %d bytes, unless they are queries, and this has %d", targets.MaxLabelValue, len(value)))
		}
	}
	if most := limits.Total(); total > most && len(r.errs) == 0 {
		r.add("*", "", fmt.Sprintf("all labels together may have %d bytes, and these have %d", most, total))
	}
	return len(r.errs) > 0
}

// readResource reads the utilization of a resource that a label of its name gives.
func (r *labelReader) readResource(label, value string) {
	percent, err := strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 32)
	if err != nil {
		r.add(label, value, `must be a percentage of what is requested, as "60" or "60%"; for other goals use `+targets.LabelPrefix+"metrics.0.resource and so on")
	}
	at := element(metricsKey, len(r.shorts))
	r.origins[at] = label
	r.doc.index[under(at, "average_utilization")] = place{text: strconv.Itoa(int(percent))}
	r.shorts = append(r.shorts, label)
	r.given.Metrics = append(r.given.Metrics, metricTable{Type: string(policy.ResourceMetric), Resource: label, AverageUtilization: new(int32(percent))})
}

// read puts the value of one label into the table.
func (r *labelReader) read(label, value string) {
	key := label
	switch label {
	case minLabel:
		key = minKey
	case maxLabel:
		key = maxKey
	}
	r.put(reflect.ValueOf(&r.given).Elem(), "", strings.Split(key, "."), label, value)
}

// put sets the key of a struct, at a path, to the value of a label. Parts are what the
// label has below the struct.
func (r *labelReader) put(table reflect.Value, at string, parts []string, label, value string) {
	fields := settings.FieldsOf(table.Type())
	field, known := fields.ByKey[parts[0]]
	if !known {
		r.unknown(label, parts[0], vocabulary(fields, at == ""))
		return
	}
	to := table.FieldByIndex(field.Index)
	if to.Kind() == reflect.Pointer {
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			if to.Elem().Kind() == reflect.Struct {
				settings.SetDefaults(to.Interface())
			}
		}
		to = to.Elem()
	}
	path, kind := join(at, parts[0]), to.Kind()
	switch {
	case settings.IsValue(to.Type()):
		if len(parts) > 1 {
			r.add(label, value, "has no parts: give "+targets.LabelPrefix+strings.TrimSuffix(label, "."+strings.Join(parts[1:], ".")))
			return
		}
		r.set(to, path, label, value)
	case len(parts) == 1:
		r.add(label, value, "is not a value: give its parts, as "+targets.LabelPrefix+label+"."+partOf(to.Type()))
	case kind == reflect.Struct:
		r.put(to, path, parts[1:], label, value)
	case kind == reflect.Map:
		if to.IsNil() {
			to.Set(reflect.MakeMap(to.Type()))
		}
		key, one := strings.Join(parts[1:], "."), reflect.New(to.Type().Elem()).Elem()
		r.set(one, join(path, key), label, value)
		to.SetMapIndex(reflect.ValueOf(key), one)
	case kind == reflect.Slice:
		r.putElement(to, path, parts[1:], label, value)
	}
}

// putElement sets a key of an element of an array of tables, or an element of one of
// values.
func (r *labelReader) putElement(array reflect.Value, path string, parts []string, label, value string) {
	i, err := strconv.Atoi(parts[0])
	if err != nil || i < 0 || i >= maxLabelIndex || strconv.Itoa(i) != parts[0] {
		r.add(label, "", fmt.Sprintf("%q must be the element's number, from 0 to %d", parts[0], maxLabelIndex-1))
		return
	}
	ofValues := settings.IsValue(array.Type().Elem())
	if len(parts) == 1 && !ofValues {
		r.add(label, value, "is not a value: give its parts, as "+targets.LabelPrefix+label+"."+partOf(array.Type().Elem()))
		return
	}
	if !slices.Contains(r.arrays, path) {
		r.arrays = append(r.arrays, path)
	}
	if path == metricsKey {
		i += len(r.shorts)
	}
	for array.Len() <= i {
		array.Set(reflect.Append(array, reflect.Zero(array.Type().Elem())))
	}
	at := element(path, i)
	if ofValues {
		if len(parts) > 1 {
			r.add(label, value, "is of an element that is one value, and has no parts")
			return
		}
		r.set(array.Index(i), at, label, value)
		return
	}
	if _, given := r.origins[at]; !given {
		r.origins[at] = strings.TrimSuffix(label, "."+strings.Join(parts[1:], "."))
	}
	r.put(array.Index(i), at, parts[1:], label, value)
}

// set sets a value to that of a label.
func (r *labelReader) set(to reflect.Value, path, label, value string) {
	if other, given := r.origins[path]; given {
		r.add(label, value, "is given already by "+targets.LabelPrefix+other)
		return
	}
	r.origins[path] = label
	if err := settings.SetText(to, value); err != nil {
		r.add(label, value, err.Error())
		return
	}
	text := settings.Text(to)
	if strings.HasPrefix(text, `"`) {
		text = strconv.Quote(value) // as it was given
	}
	r.doc.index[path] = place{text: text}
}

// checkGaps records elements without those before them.
func (r *labelReader) checkGaps() {
	for _, path := range r.arrays {
		first := 0
		if path == metricsKey {
			first = len(r.shorts)
		}
		missing := -1
		for i := first; i < first+maxLabelIndex; i++ {
			label, given := r.origins[element(path, i)]
			if given && missing >= 0 {
				r.add(label, "", fmt.Sprintf("elements are numbered from 0 without gaps: there is no number %d", missing))
				break
			}
			if !given && missing < 0 {
				missing = i - first
			}
		}
	}
}

// partOf names one part of a table or array, as an example.
func partOf(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.Slice:
		return "0." + partOf(goType.Elem())
	case reflect.Map:
		return "NAME"
	}
	return settings.FieldsOf(goType).Keys[0]
}

// vocabulary returns the labels there are at some place.
func vocabulary(fields settings.Fields, top bool) []string {
	if !top {
		return fields.Keys
	}
	names := []string{enableLabel, minLabel, maxLabel, cpuResource, memResource}
	for _, key := range fields.Keys {
		if key != minKey && key != maxKey {
			names = append(names, key)
		}
	}
	return names
}

// unknown records a label that does not exist.
func (r *labelReader) unknown(label, part string, allowed []string) {
	detail := "unknown label"
	if best := Nearest(part, allowed); best != "" {
		detail += fmt.Sprintf("; did you mean %q?", best)
	} else {
		detail += "; allowed are " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ")
	}
	r.add(label, "", detail)
}

// LabelLimit names a limit of a fleet's labels with its value, as errors do.
func LabelLimit(fleet, key string, value any) string {
	return fmt.Sprintf("%s.label_limits.%s = %v", join(fleetsKey, fleet), key, value)
}

// LabelLimits returns what the labels of a fleet's targets may ask for.
func (c *Config) LabelLimits(fleet string) targets.LabelLimits {
	limits := c.Fleets[fleet].LabelLimits
	limits.SetDefaults()
	return limits
}

// limit records what the autoscaler has beyond what labels may ask for.
func (r *labelReader) limit(limits targets.LabelLimits, a *Autoscaler) {
	add := func(path, value, detail, key string, limit any) {
		r.add(r.labelOf(path), value, fmt.Sprintf("%s (%s)", detail, LabelLimit(a.Target.Fleet, key, limit)))
	}
	if a.Spec.MaxReplicas > limits.MaxReplicas {
		add(maxKey, strconv.Itoa(int(a.Spec.MaxReplicas)), fmt.Sprintf("labels may ask for at most %d", limits.MaxReplicas), "max_replicas", limits.MaxReplicas)
	}
	if _, given := r.origins[periodKey]; given && a.SyncPeriod < limits.SyncPeriod {
		add(periodKey, a.SyncPeriod.String(), fmt.Sprintf("labels may ask for at least %s", limits.SyncPeriod), "sync_period", strconv.Quote(limits.SyncPeriod.String()))
	}
	if len(a.Inputs) > limits.Metrics {
		add(element(metricsKey, limits.Metrics), "", fmt.Sprintf("labels may ask for at most %d metrics, and these do for %d", limits.Metrics, len(a.Inputs)), "metrics", limits.Metrics)
	}
	for i, in := range a.Inputs {
		if len(in.Query) > limits.Query {
			add(element(metricsKey, i)+".query", in.Query, fmt.Sprintf("labels may ask for queries of at most %d bytes, and this has %d", limits.Query, len(in.Query)), "query", limits.Query)
		}
	}
}

// build validates the table as that of an autoscaler of a file.
func (r *labelReader) build(c *Config, a *Autoscaler) {
	l := c.loaderOf()
	t := &table{loader: l, doc: r.doc}
	a.Requests = t.readRequests("requests", r.given.Requests)
	t.readScaling(c, r.given.scalingTable, a)
	for _, mistake := range l.errs {
		r.errs = append(r.errs, r.ofLabel(mistake))
	}
	for _, warning := range l.warnings {
		a.Warnings = append(a.Warnings, r.ofLabel(warning))
	}
}

// ofLabel returns a mistake in the table as one of the label that it comes from.
func (r *labelReader) ofLabel(mistake Error) Error {
	mistake.Key = targets.LabelPrefix + r.labelOf(mistake.Key)
	return mistake
}

// labelOf returns the label of a path in the tree.
func (r *labelReader) labelOf(path string) string {
	rest := ""
	for at := path; at != ""; {
		if label, ok := r.origins[at]; ok {
			if slices.Contains(r.shorts, label) {
				return label // it has no parts
			}
			return label + rest
		}
		parent, last := cutLast(at)
		rest = "." + strings.Trim(last, "[]") + rest
		at = parent
	}
	switch path {
	case minKey:
		return minLabel
	case maxKey:
		return maxLabel
	}
	return strings.TrimPrefix(rest, ".")
}

// loaderOf returns a loader that knows the names of the configuration.
func (c *Config) loaderOf() *loader {
	l := newLoader(builtIn)
	for name, fleet := range c.Fleets {
		l.tables[fleetsKey][name] = &table{raw: map[string]any{kindKey: fleet.Kind}}
	}
	for name := range c.Sources {
		l.tables[sourcesKey][name] = &table{}
	}
	return l
}
