package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// labelTable is what the labels of a target say of its autoscaler: everything
// but the target.
type labelTable struct {
	// Requests are what each instance requests, by resource, where the fleet cannot
	// tell; greater than 0.
	Requests map[string]amount `toml:"requests"`
	scalingTable
}

// The labels that are shorter than the keys they stand for.
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
	utilizedKey   = "average_utilization"
	generatedKey  = "labels"
	maxLabelIndex = 100
)

// LabelsName answers the name of the autoscaler that a target's labels ask for.
// No name in a file is like it.
func LabelsName(ref targets.Ref) string { return ref.String() }

// Labeled reads the autoscaler that a target asks for by its labels, those that
// begin with [targets.LabelPrefix]: the keys of an autoscaler, joined by dots,
// elements of arrays by their number from 0, and min, max, cpu and memory for
// short. It is read as strictly as a file. Enabled is false where the labels ask
// for none. The error is an [Errors] whose keys are the labels.
func (c *Config) Labeled(ref targets.Ref, labels map[string]string) (a Autoscaler, enabled bool, err error) {
	where := "labels of " + ref.String()
	r := &labelReader{where: where, origins: map[string]string{}, tree: map[string]any{}}
	if enabled = r.enabled(labels); !enabled {
		return Autoscaler{}, false, r.failure()
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		switch {
		case !ok || key == enableLabel:
		case !utf8.ValidString(key + labels[label]):
			r.add(strings.ToValidUTF8(key, "�"), "", "is not valid UTF-8")
		default:
			r.read(key, labels[label])
		}
	}
	r.addResources()
	a = Autoscaler{Name: LabelsName(ref), Target: ref, Labels: maps.Clone(labels)}
	if r.decode(c, &a) {
		r.limit(c.LabelLimits(ref.Fleet), &a)
	}
	if err := r.failure(); err != nil {
		return Autoscaler{}, true, err
	}
	return a, true, nil
}

// labelReader makes a table of labels.
type labelReader struct {
	where string
	errs  Errors
	// tree is the table, origins the label that each of its paths comes from.
	tree    map[string]any
	origins map[string]string
	// resources are the metrics that cpu and memory stand for.
	resources []map[string]any
	shorts    []string
}

func (r *labelReader) add(label, value, detail string) {
	if value != "" {
		value = shorten(strconv.Quote(redact.Value(label, value)))
	}
	r.errs = append(r.errs, Error{File: r.where, Key: targets.LabelPrefix + label, Value: value, Detail: detail})
}

func (r *labelReader) failure() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int { return strings.Compare(a.Key, b.Key) })
	return r.errs
}

// enabled says whether the labels ask for an autoscaler. Where they do not say,
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
	fields := fieldsOf(reflect.TypeFor[labelTable]())
	allowed := r.vocabulary(fields, true)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		key, ok := strings.CutPrefix(label, targets.LabelPrefix)
		if _, known := fields.byKey[key]; ok && !known && utf8.ValidString(key) && nearest(key, allowed) == enableLabel {
			r.unknown(key, key, allowed)
		}
	}
	return false
}

// read puts one label into the tree.
func (r *labelReader) read(label, value string) {
	key := label
	switch label {
	case minLabel:
		key = minKey
	case maxLabel:
		key = maxKey
	case cpuResource, memResource:
		r.readResource(label, value)
		return
	}
	parts := strings.Split(key, ".")
	r.put(r.tree, reflect.TypeFor[labelTable](), "", parts, label, value)
}

// readResource reads the utilization of a resource that a label of its name
// gives.
func (r *labelReader) readResource(label, value string) {
	percent, err := strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 32)
	if err != nil {
		r.add(label, value, `must be a percentage of what is requested, as "60" or "60%"; for other goals use `+targets.LabelPrefix+"metrics.0.resource and so on")
		return
	}
	r.shorts = append(r.shorts, label)
	r.resources = append(r.resources, map[string]any{"type": string(policy.ResourceMetric), "resource": label, utilizedKey: percent})
}

// put puts a value at a path below a table of a Go type. At is the path of the
// table in the tree, as mistakes name it.
func (r *labelReader) put(table map[string]any, goType reflect.Type, at string, parts []string, label, value string) {
	fields := fieldsOf(goType)
	field, known := fields.byKey[parts[0]]
	if !known {
		r.unknown(label, parts[0], r.vocabulary(fields, at == ""))
		return
	}
	path := join(at, parts[0])
	fieldType := field.Type
	for fieldType.Kind() == reflect.Pointer {
		fieldType = fieldType.Elem()
	}
	switch {
	case isLeaf(fieldType):
		r.putLeaf(table, fieldType, path, parts, label, value)
	case len(parts) == 1:
		r.add(label, value, "is not a value: give its parts, as "+targets.LabelPrefix+label+"."+partOf(fieldType))
	case fieldType.Kind() == reflect.Struct:
		r.put(inner(table, parts[0]), fieldType, path, parts[1:], label, value)
	case fieldType.Kind() == reflect.Map:
		key := strings.Join(parts[1:], ".")
		r.putLeaf(inner(table, parts[0]), fieldType.Elem(), join(path, key), []string{key}, label, value)
	case fieldType.Kind() == reflect.Slice:
		r.putElement(table, fieldType.Elem(), path, parts, label, value)
	}
}

// putElement puts a value into an element of an array of tables, which the tree
// holds by number until all labels are read.
func (r *labelReader) putElement(table map[string]any, elementType reflect.Type, path string, parts []string, label, value string) {
	i, err := strconv.Atoi(parts[1])
	if err != nil || i < 0 || i >= maxLabelIndex || strconv.Itoa(i) != parts[1] {
		r.add(label, "", fmt.Sprintf("%q must be the element's number, from 0 to %d", parts[1], maxLabelIndex-1))
		return
	}
	at := element(path, i)
	if len(parts) == 2 {
		r.add(label, value, "is not a value: give its parts, as "+targets.LabelPrefix+label+"."+partOf(elementType))
		return
	}
	elements, ok := table[parts[0]].(numbered)
	if !ok {
		elements = numbered{}
		table[parts[0]] = elements
	}
	if elements[i] == nil {
		elements[i] = map[string]any{}
		r.origins[at] = strings.TrimSuffix(label, "."+strings.Join(parts[2:], "."))
	}
	r.put(elements[i], elementType, at, parts[2:], label, value)
}

// numbered are the elements of an array by their number.
type numbered map[int]map[string]any

// putLeaf puts a value as its Go type has it in TOML.
func (r *labelReader) putLeaf(table map[string]any, goType reflect.Type, path string, parts []string, label, value string) {
	if len(parts) > 1 {
		r.add(label, value, "has no parts: give "+targets.LabelPrefix+strings.TrimSuffix(label, "."+strings.Join(parts[1:], ".")))
		return
	}
	if other, given := r.origins[path]; given {
		r.add(label, value, "is given already by "+targets.LabelPrefix+other)
		return
	}
	r.origins[path] = label
	written, detail := leafValue(goType, value)
	if detail != "" {
		r.add(label, value, detail)
		return
	}
	table[parts[0]] = written
}

// isLeaf says whether a type is written as one value.
func isLeaf(goType reflect.Type) bool {
	if goType == durationType || reflect.PointerTo(goType).Implements(tomlType) || reflect.PointerTo(goType).Implements(textType) {
		return true
	}
	switch goType.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return false
	}
	return true
}

// leafValue answers what a label's text is in TOML.
func leafValue(goType reflect.Type, text string) (value any, detail string) {
	zero := reflect.New(goType).Elem()
	switch {
	case goType == durationType:
		return text, checkDuration(text)
	case goType.Kind() == reflect.Bool:
		truth, err := strconv.ParseBool(text)
		if err != nil {
			return nil, "must be true or false"
		}
		return truth, ""
	case zero.CanInt() || zero.CanUint():
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, "must be a whole number"
		}
		return number, checkRange(goType, number)
	}
	detail, _ = checkSpecial(goType, text)
	return text, detail
}

// partOf names one part of a table or array, as an example.
func partOf(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.Slice:
		return "0." + partOf(goType.Elem())
	case reflect.Map:
		return "NAME"
	}
	return fieldsOf(goType).keys[0]
}

// vocabulary answers the labels there are at some place.
func (r *labelReader) vocabulary(fields structFields, top bool) []string {
	if !top {
		return fields.keys
	}
	names := []string{enableLabel, minLabel, maxLabel, cpuResource, memResource}
	for _, key := range fields.keys {
		if key != minKey && key != maxKey {
			names = append(names, key)
		}
	}
	return names
}

// unknown records a label that does not exist.
func (r *labelReader) unknown(label, part string, allowed []string) {
	detail := "unknown label"
	if best := nearest(part, allowed); best != "" {
		detail += fmt.Sprintf("; did you mean %q?", best)
	} else {
		detail += "; allowed are " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ")
	}
	r.add(label, "", detail)
}

// inner answers the table at a key, made where there is none.
func inner(table map[string]any, key string) map[string]any {
	found, ok := table[key].(map[string]any)
	if !ok {
		found = map[string]any{}
		table[key] = found
	}
	return found
}

// addResources puts the metrics that cpu and memory stand for before the others.
func (r *labelReader) addResources() {
	r.straighten(r.tree, "")
	given, _ := r.tree[metricsKey].([]map[string]any)
	if len(r.resources) == 0 {
		return
	}
	r.tree[metricsKey] = append(r.resources, given...)
	shifted := map[string]string{}
	for path, label := range r.origins {
		rest, ok := strings.CutPrefix(path, metricsKey+"[")
		number, tail, found := strings.Cut(rest, "]")
		i, err := strconv.Atoi(number)
		if ok && found && err == nil {
			path = element(metricsKey, i+len(r.resources)) + tail
		}
		shifted[path] = label
	}
	for i, label := range r.shorts {
		shifted[element(metricsKey, i)] = label
	}
	r.origins = shifted
}

// straighten makes arrays of what was held by number.
func (r *labelReader) straighten(table map[string]any, path string) {
	for key, value := range table {
		at := join(path, key)
		switch value := value.(type) {
		case map[string]any:
			r.straighten(value, at)
		case numbered:
			array := make([]map[string]any, 0, len(value))
			for _, i := range slices.Sorted(maps.Keys(value)) {
				if i != len(array) {
					r.add(r.origins[element(at, i)], "", fmt.Sprintf("elements are numbered from 0 without gaps: there is no number %d", len(array)))
					break
				}
				r.straighten(value[i], element(at, i))
				array = append(array, value[i])
			}
			table[key] = array
		}
	}
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
	if _, given := r.tree[periodKey]; given && a.SyncPeriod < limits.SyncPeriod {
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

// decode reads the tree as a file with one autoscaler would be read, and reports
// whether it could be decoded.
func (r *labelReader) decode(c *Config, a *Autoscaler) bool {
	if len(r.errs) > 0 {
		return false // what is missing because of them is not worth telling
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(map[string]any{generatedKey: r.tree}); err != nil {
		r.errs = append(r.errs, Error{File: r.where, Detail: err.Error()})
		return false
	}
	l := c.loaderOf()
	var root map[string]toml.Primitive
	meta, err := toml.Decode(text.String(), &root)
	if err != nil {
		r.errs = append(r.errs, Error{File: r.where, Detail: err.Error()})
		return false
	}
	doc := &document{name: r.where, text: text.Bytes(), meta: meta}
	t := (&table{loader: l, doc: doc}).child(generatedKey, root[generatedKey])
	var given labelTable
	if t != nil && t.checkShape("", reflect.TypeFor[labelTable](), t.raw) && t.decode(&given) == nil {
		a.Requests = t.readRequests("requests", given.Requests)
		t.readScaling(c, given.scalingTable, a)
	}
	for _, mistake := range l.errs {
		r.errs = append(r.errs, r.ofLabel(mistake))
	}
	for _, warning := range l.warnings {
		a.Warnings = append(a.Warnings, r.ofLabel(warning))
	}
	return len(l.errs) == 0
}

// ofLabel returns a mistake in the tree as one of the label that it comes from.
func (r *labelReader) ofLabel(mistake Error) Error {
	mistake.Line = 0
	mistake.Key = targets.LabelPrefix + r.labelOf(strings.TrimPrefix(strings.TrimPrefix(mistake.Key, generatedKey), "."))
	return mistake
}

// labelOf answers the label of a path in the tree.
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

// loaderOf answers a loader that knows the names of the configuration.
func (c *Config) loaderOf() *loader {
	l := newLoader(builtIn)
	empty := &document{}
	for name, fleet := range c.Fleets {
		l.fleets[name] = &table{loader: l, doc: empty, path: join(fleetsKey, name), name: name, raw: map[string]any{kindKey: fleet.Kind}}
	}
	for name, source := range c.Sources {
		l.sources[name] = &table{loader: l, doc: empty, path: join(sourcesKey, name), name: name, raw: map[string]any{kindKey: source.Kind}}
	}
	return l
}
