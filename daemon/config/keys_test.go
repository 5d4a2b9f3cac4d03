package config

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/test/godoc"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

//go:generate go test -count=1 -run ^TestKeys$ -update .

const (
	keysPage = "../../docs/config-keys.md"
	// root is the directory of the repository.
	root = "../../"
)

// TestKeys compares docs/config-keys.md with the types of the configuration: every key with its
// type, default, whether it is required, and the comment of its field.
func TestKeys(t *testing.T) {
	if len(kinds.Omitted()) > 0 {
		t.Skipf("this build omits the kinds %s, which the page describes", slices.Sorted(maps.Keys(kinds.Omitted())))
	}
	for _, variable := range os.Environ() { // they would change the defaults
		name, _, _ := strings.Cut(variable, "=")
		if name != "PATH" && name != "HOME" {
			t.Setenv(name, "")
		}
	}
	page := newKeys(t).page()
	if *update {
		if err := os.WriteFile(keysPage, []byte(page), 0o644); err != nil { //nolint:gosec // every user may read it
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(keysPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(written), page); diff != "" {
		t.Errorf("docs/config-keys.md is outdated; run \"go generate ./daemon/config\" (-page +types):\n%s", diff)
	}
}

type keys struct {
	t        *testing.T
	text     bytes.Buffer
	packages map[string]*godoc.Package
	example  *Config
}

// everything is a configuration that shows all defaults outside of the kinds' own tables.
const everything = `
[fleets.local]
kind = "process"
services = { worker = { command = ["worker"] } }
breaker = { max_removed = "30%" }
[fleets.cloud]
kind = "awsasg"
region = "eu-central-1"
[autoscalers.plain]
target = { fleet = "local", service = "worker" }
max_replicas = 1
behavior = {}
guard = {}
[autoscalers.drained]
target = { fleet = "cloud", group = "web", requests = { cpu = "1" } }
max_replicas = 1
drain = { kind = "command", command = ["drain"] }
metrics = [{ type = "External", name = "queue", source = "prom", query = "queue", value = "1" }]
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[ha]
store = "etcd"
address = "https://127.0.0.1:4720"
etcd = { endpoints = ["https://127.0.0.1:2379"] }
`

func newKeys(t *testing.T) *keys {
	t.Helper()
	example, err := Parse("everything", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	return &keys{t: t, packages: map[string]*godoc.Package{}, example: example}
}

func (k *keys) page() string {
	k.text.WriteString(`# All keys

This page is the reference of all configuration keys. For an introduction, see [config.md](config.md). Do not edit this page:
` + "`go generate ./daemon/config`" + ` generates it from the Go types of the configuration.

The symbol – means that a key has no default. A dot joins the keys of nested tables. ` + "`NAME`" + ` stands for any name, and ` + "`[]`" + `
for each element of an array.
`)
	k.section("## [daemon]", k.example.Daemon, nil)
	k.section("## [ha]", k.example.HA, map[string]bool{"address": true, "etcd.endpoints": true})
	k.kinds("fleets", slices.Sorted(maps.Keys(kinds.Fleets)))
	for _, row := range k.rows("", reflect.ValueOf(fleetTable{k.example.Fleets["local"].Breaker}), map[string]bool{"breaker.max_removed": true}) {
		k.row(row)
	}
	for _, name := range slices.Sorted(maps.Keys(kinds.Fleets)) {
		k.kind(fmt.Sprintf("### kind = %q", name), kinds.Fleets[name].Config())
	}
	k.kinds("sources", slices.Sorted(maps.Keys(kinds.Sources)))
	for _, name := range slices.Sorted(maps.Keys(kinds.Sources)) {
		k.kind(fmt.Sprintf("### source, kind = %q", name), kinds.Sources[name].Config())
	}
	receiver := &notify.Config{}
	receiver.SetDefaults()
	k.section("## [notifications.NAME]", receiver, nil)
	plain, rules := k.example.Autoscalers["plain"], map[string]*rulesTable{}
	needed := map[string]bool{"target": true, maxKey: true, "metrics[].type": true}
	for direction, of := range map[string]*policy.ScalingRules{"scale_up": plain.Spec.Behavior.ScaleUp, "scale_down": plain.Spec.Behavior.ScaleDown} {
		rules[direction] = &rulesTable{SelectPolicy: of.SelectPolicy}
		if of.StabilizationWindowSeconds != nil {
			rules[direction].StabilizationWindow = new(time.Duration(*of.StabilizationWindowSeconds) * time.Second)
		}
		for _, key := range []string{"type", "value", "period"} {
			needed["behavior."+direction+".policies[]."+key] = true
		}
	}
	k.section("## [autoscalers.NAME]", autoscalerTable{scalingTable: scalingTable{
		MinReplicas: plain.Spec.MinReplicas, MaxReplicas: plain.Spec.MaxReplicas, SyncPeriod: &plain.SyncPeriod, OnForeignChange: plain.OnForeignChange,
		Guard: &plain.Guard, Behavior: &behaviorTable{ScaleUp: rules["scale_up"], ScaleDown: rules["scale_down"]},
	}}, needed)
	target := &targetTable{Endpoints: &endpoints.Config{}}
	settings.SetDefaults(target)
	k.section("### target", target, map[string]bool{"fleet": true})
	for _, name := range slices.Sorted(maps.Keys(kinds.Fleets)) {
		target := kinds.Fleets[name].Target()
		k.section(fmt.Sprintf("### target, in a fleet of kind %q", name), reflect.Zero(reflect.TypeOf(target)).Interface(), required(target))
	}
	k.section("### drain", k.example.Autoscalers["drained"].Drain, map[string]bool{"kind": true})
	for _, name := range slices.Sorted(maps.Keys(kinds.Drains)) {
		kind := kinds.Drains[name].Config()
		kind.SetDefaults()
		k.section(fmt.Sprintf("### drain, kind = %q", name), kind, required(kind))
	}
	k.labels()
	return k.text.String()
}

func (k *keys) write(text string) { k.text.WriteString(text) }

// kinds writes the key "kind" of a section.
func (k *keys) kinds(of string, names []string) {
	k.write(fmt.Sprintf("\n## [%s.NAME]\n\n| key | type | default | meaning |\n|---|---|---|---|\n", of))
	for i, name := range names {
		names[i] = "`" + strconv.Quote(name) + "`"
	}
	k.write(fmt.Sprintf("| `%s` | text | required | One of %s. The other keys depend on the kind. |\n", kindKey, strings.Join(names, ", ")))
}

func (k *keys) kind(heading string, kind interface {
	SetDefaults()
	Validate() []settings.FieldError
},
) {
	seed(reflect.ValueOf(kind).Elem())
	kind.SetDefaults()
	k.section(heading, kind, required(kind))
}

// labels writes the labels that set an autoscaler's keys.
func (k *keys) labels() {
	k.write("\n## Labels of targets\n\n| label | key |\n|---|---|\n")
	prefix := "hpad."
	k.write(fmt.Sprintf("| `%s%s` | none: `true` makes an autoscaler of the labels |\n", prefix, enableLabel))
	for _, short := range []struct{ label, key string }{
		{minLabel, minKey},
		{maxLabel, maxKey},
		{"cpu", "a Resource metric with `resource = \"cpu\"` and this `average_utilization`"},
		{"memory", "a Resource metric with `resource = \"memory\"` and this `average_utilization`"},
	} {
		key := short.key
		if !strings.Contains(key, " ") {
			key = "`" + key + "`"
		}
		k.write(fmt.Sprintf("| `%s%s` | %s |\n", prefix, short.label, key))
	}
	for _, row := range k.rows("", reflect.ValueOf((*labelTable)(nil)), nil) {
		if row.table {
			continue
		}
		label := strings.ReplaceAll(row.key, "[]", ".0")
		key := row.key
		if strings.HasPrefix(key, "requests.") {
			key = "target." + key
		}
		k.write(fmt.Sprintf("| `%s%s` | `%s` |\n", prefix, label, key))
	}
}

// section writes the keys of a table. The argument defaults is the table with its defaults, or a
// nil pointer.
func (k *keys) section(title string, defaults any, needed map[string]bool) {
	k.write("\n" + title + "\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
	for _, row := range k.rows("", reflect.ValueOf(defaults), needed) {
		k.row(row)
	}
}

func (k *keys) row(r row) {
	k.write(fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.key, r.kind, r.value, strings.ReplaceAll(r.text, "|", "\\|")))
}

// row describes one key. A row of a table is followed by the rows of the table's keys.
type row struct {
	key, kind, value, text string
	table                  bool
}

// rows returns the keys of a table and of its inner tables.
func (k *keys) rows(prefix string, table reflect.Value, needed map[string]bool) []row {
	for table.Kind() == reflect.Pointer {
		if table.IsNil() {
			return k.rowsOf(prefix, table.Type().Elem(), reflect.Value{}, needed)
		}
		table = table.Elem()
	}
	return k.rowsOf(prefix, table.Type(), table, needed)
}

// rowsOf implements rows. The table is the zero Value if the keys have no defaults.
func (k *keys) rowsOf(prefix string, goType reflect.Type, table reflect.Value, needed map[string]bool) []row {
	var all []row
	fields := settings.FieldsOf(goType)
	for _, key := range fields.Keys {
		field := fields.ByKey[key]
		path := prefix + key
		inner, suffix := innerType(field.Type)
		next := row{key: path, kind: typeName(field.Type), value: "–", text: k.meaning(goType, field), table: inner != nil}
		var value reflect.Value
		if table.IsValid() {
			value = reflect.Indirect(table.FieldByIndex(field.Index))
		}
		if inner == nil && value.IsValid() {
			next.value = defaultText(value)
		}
		if needed[path] {
			next.value = "required"
		}
		if isTexts(field.Type) {
			next.key = path + ".NAME"
		}
		all = append(all, next)
		if inner != nil {
			all = append(all, k.rowsOf(path+suffix+".", inner, elementOf(value), needed)...)
		}
	}
	return all
}

// innerType returns the struct type of a table, of tables by name, or of an array of tables. The
// suffix is a placeholder for the name or number. For other fields, the type is nil.
func innerType(goType reflect.Type) (inner reflect.Type, suffix string) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch goType.Kind() {
	case reflect.Map:
		goType, suffix = goType.Elem(), ".NAME"
	case reflect.Slice:
		goType, suffix = goType.Elem(), "[]"
	}
	if goType.Kind() != reflect.Struct || settings.IsValue(goType) {
		return nil, ""
	}
	return goType, suffix
}

// elementOf returns the first element of an array, the table NAME of a map of tables, or any other
// value itself. It returns the zero Value if the array is empty or the map has no table NAME.
func elementOf(value reflect.Value) reflect.Value {
	switch {
	case value.Kind() == reflect.Map:
		return value.MapIndex(reflect.ValueOf(seedName))
	case value.Kind() != reflect.Slice:
		return value
	case value.Len() > 0:
		return value.Index(0)
	}
	return reflect.Value{}
}

// isTexts reports whether a field is a table of values with arbitrary names.
func isTexts(goType reflect.Type) bool {
	inner, _ := innerType(goType)
	return goType != reflect.TypeFor[map[string]any]() && goType.Kind() == reflect.Map && inner == nil
}

// seedName is the name of the element that seed adds to tables by name to show their defaults.
const seedName = "NAME"

// seed recursively adds one element to each map of tables and to each array of tables.
func seed(value reflect.Value) {
	for _, field := range settings.FieldsOf(value.Type()).ByKey {
		inner, _ := innerType(field.Type)
		if inner == nil {
			continue
		}
		at := value.FieldByIndex(field.Index)
		element := reflect.New(inner).Elem()
		seed(element)
		switch at.Kind() {
		case reflect.Map:
			at.Set(reflect.MakeMap(at.Type()))
			at.SetMapIndex(reflect.ValueOf(seedName), element)
		case reflect.Slice:
			at.Set(reflect.Append(at, element))
		case reflect.Struct:
			at.Set(element)
		}
	}
}

// required returns the keys that a table needs to be valid in addition to its defaults.
func required(kind interface{ Validate() []settings.FieldError }) map[string]bool {
	needed := map[string]bool{}
	for _, mistake := range kind.Validate() {
		if mistake.Value == "" {
			needed[strings.ReplaceAll(regexp.MustCompile(`\[\d+\]`).ReplaceAllString(mistake.Field, "[]"), `"`, "")] = true
		}
	}
	return needed
}

// typeName returns the name of a type in docs/config-keys.md.
func typeName(goType reflect.Type) string {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch goType {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[quantity.OrNumber](), reflect.TypeFor[quantity.Bytes](), reflect.TypeFor[Tolerance](), reflect.TypeFor[ratio]():
		return "number or quantity"
	case reflect.TypeFor[quantity.Quantity]():
		return "quantity"
	case reflect.TypeFor[percent]():
		return "percentage"
	case reflect.TypeFor[map[string]any]():
		return "table"
	}
	zero := reflect.New(goType).Elem()
	switch {
	case goType.Kind() == reflect.String:
		return "string"
	case goType.Kind() == reflect.Bool:
		return "boolean"
	case zero.CanInt(), zero.CanUint():
		return "integer"
	case zero.CanFloat():
		return "number"
	case goType.Kind() == reflect.Slice:
		return "array of " + plural(typeName(goType.Elem()))
	case goType.Kind() == reflect.Map:
		if inner, _ := innerType(goType); inner != nil {
			return "tables by name"
		}
		return typeName(goType.Elem()) + " by name"
	}
	return "table"
}

func plural(word string) string {
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		return stem + "ies"
	}
	return word + "s"
}

func defaultText(value reflect.Value) string {
	switch {
	case settings.IsValue(value.Type()) && settings.Text(value) != `""`:
		return "`" + settings.Text(value) + "`"
	case value.Kind() == reflect.Slice && value.Len() > 0:
		elements := make([]string, value.Len())
		for i := range elements {
			elements[i] = settings.Text(value.Index(i))
		}
		return "`[" + strings.Join(elements, ", ") + "]`"
	}
	return "–"
}

// meaning returns a field's comment with field names replaced by keys.
func (k *keys) meaning(goType reflect.Type, field reflect.StructField) string {
	if len(field.Index) > 1 { // it belongs to an embedded struct
		goType = goType.FieldByIndex(field.Index[:len(field.Index)-1]).Type
	}
	pack := k.source(goType)
	declared := pack.Structs[goType.Name()]
	if declared == nil {
		k.t.Errorf("the source does not declare %s", goType)
		return ""
	}
	text, shared := commentOf(declared, field.Name)
	if text == "" && goType.Name() != "Config" && token.IsExported(goType.Name()) {
		text, shared = pack.Comments[goType.Name()], true // the comment of the type describes all its fields
	}
	if text == "" {
		k.t.Errorf("%s.%s has no comment, which docs/config-keys.md needs as its description", goType, field.Name)
		return ""
	}
	meaning := translate(text, goType, field)
	if !shared {
		meaning = ownSentence(meaning)
	}
	return marked(meaning)
}

// commentOf returns the comment of a field. If the field has none but the comment of an earlier
// field mentions it, commentOf returns that comment and sets shared.
func commentOf(declared *ast.StructType, name string) (text string, shared bool) {
	var told []string // the fields that the current comment describes
	comment := ""
	for _, field := range declared.Fields.List {
		if field.Doc != nil {
			if slices.Contains(told, name) {
				break
			}
			comment, told = godoc.OneLine(field.Doc.Text()), nil
		}
		for _, each := range field.Names {
			if field.Doc != nil || regexp.MustCompile(`\b`+each.Name+`\b`).MatchString(comment) {
				told = append(told, each.Name)
			}
		}
	}
	if !slices.Contains(told, name) {
		return "", false
	}
	return comment, len(told) > 1
}

// goWords replaces Go terms with the terms of the configuration.
var goWords = strings.NewReplacer("nil means", "the default is", "nil for none", "none by default", "nil leaves", "the default leaves", "where it is nil", "if it is omitted")

// properNames are also names of fields, but refer to fields only at the beginning of a comment.
var properNames = map[string]bool{"EC2": true, "Nomad": true, "STS": true, "TLS": true}

// translate replaces Go names with keys and values.
func translate(text string, goType reflect.Type, field reflect.StructField) string {
	known := map[string]string{}
	for key, sibling := range settings.FieldsOf(goType).ByKey {
		known[sibling.Name] = "`" + key + "`"
	}
	// The first word is the field's own name. Other names are ambiguous at the beginning of a
	// sentence and are only replaced elsewhere.
	words := regexp.MustCompile(`"[^"]*"|\b[A-Z][A-Za-z0-9]*\b`)
	at := 0
	var out strings.Builder
	for _, place := range words.FindAllStringIndex(text, -1) {
		word := text[place[0]:place[1]]
		out.WriteString(text[at:place[0]])
		at = place[1]
		begins := place[0] > 0 && strings.HasSuffix(text[:place[0]], ". ")
		switch {
		case strings.HasPrefix(word, `"`):
			out.WriteString("`" + word + "`")
		case known[word] != "" && (at == len(word) || !properNames[word]) && (!begins || word == field.Name || strings.ToUpper(word) == word):
			out.WriteString(known[word])
		default:
			out.WriteString(word)
		}
	}
	out.WriteString(text[at:])
	return goWords.Replace(out.String())
}

// ownSentence removes the key from the beginning of a comment.
func ownSentence(text string) string {
	rest := regexp.MustCompile("^`\\w+` (?:is |are )?").ReplaceAllString(text, "")
	first, size := utf8.DecodeRuneInString(rest)
	return string(unicode.ToUpper(first)) + rest[size:]
}

// marked adds backquotes to other keys and environment variables.
func marked(text string) string {
	return regexp.MustCompile("`[^`]*`|\\b([a-z]+\\.)?[A-Za-z]+(_[A-Za-z0-9]+)+\\b").ReplaceAllStringFunc(text, func(word string) string {
		return "`" + strings.Trim(word, "`") + "`"
	})
}

// source returns the parsed package of a type. It parses each package once.
func (k *keys) source(goType reflect.Type) *godoc.Package {
	path := goType.PkgPath()
	if k.packages[path] == nil {
		loaded, err := godoc.Load(root, path)
		if err != nil {
			k.t.Fatal(err)
		}
		k.packages[path] = loaded
	}
	return k.packages[path]
}
