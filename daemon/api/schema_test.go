package api

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/godoc"
)

// addBounds adds the values of the tags min, max, default and example to a schema.
func addBounds(schema *openapi3.Schema, tag reflect.StructTag) {
	value := func(key string) any {
		text, ok := tag.Lookup(key)
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			return number
		}
		if flag, err := strconv.ParseBool(text); err == nil {
			return flag
		}
		if !ok {
			return nil
		}
		return text
	}
	if least, ok := value("min").(float64); ok {
		schema.Min = &least
	}
	if most, ok := value("max").(float64); ok {
		schema.Max = &most
	}
	if most, ok := value("maxLength").(float64); ok {
		schema.WithMaxLength(int64(most))
	}
	schema.Default, schema.Example = value("default"), value("example")
}

func (g *describer) schema(of reflect.Type) *openapi3.SchemaRef {
	ref, err := g.schemas.NewSchemaRefForValue(reflect.Zero(of).Interface(), g.doc.Components.Schemas)
	if err != nil {
		g.t.Fatal(err)
	}
	return ref
}

// schemaName returns the name of the schema of a type. Some types have names that are clear only
// together with their package.
func schemaName(of reflect.Type) string {
	names := map[reflect.Type]string{
		reflect.TypeFor[policy.Event](): "RecordedEvent", reflect.TypeFor[targets.Ref](): "TargetRef",
		reflect.TypeFor[drain.Operation](): "Drain", reflect.TypeFor[drain.Instance](): "DrainInstance",
		reflect.TypeFor[drain.State](): "DrainState", reflect.TypeFor[drain.Outcome](): "DrainOutcome",
	}
	if of.PkgPath() == reflect.TypeFor[simulate.Tick]().PkgPath() {
		return "Simulation" + of.Name()
	}
	return orElse(names[of], of.Name())
}

// customize adds everything to a schema that openapi3gen does not find in the type.
func (g *describer) customize(_ string, of reflect.Type, _ reflect.StructTag, schema *openapi3.Schema) error {
	schema.Nullable, schema.Min, schema.Max = false, nil, nil
	switch {
	case of == reflect.TypeFor[Column]():
		schema.Items.Value.Nullable = true
		schema.Description = g.typeText(of)
	case of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]():
		schema.Description = g.typeText(of)
		for _, field := range reflect.VisibleFields(of) {
			if property := schema.Properties[fieldName(field)]; property != nil && field.IsExported() && !field.Anonymous {
				g.property(of, field, schema)
			}
		}
	}
	return nil
}

// property completes the schema of a field.
func (g *describer) property(of reflect.Type, field reflect.StructField, object *openapi3.Schema) {
	name := fieldName(field)
	property := object.Properties[name]
	optional := strings.Contains(field.Tag.Get("json"), ",omit") ||
		of == reflect.TypeFor[policy.Decision]() && slices.Contains([]string{"current_replicas", "status_replicas", "desired_replicas"}, name)
	if !optional {
		object.Required = append(object.Required, name)
	}
	inner := field.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if inner == reflect.TypeFor[Column]() {
		g.doc.Components.Schemas[schemaName(inner)] = openapi3.NewSchemaRef("", property.Value)
		property = openapi3.NewSchemaRef("#/components/schemas/"+schemaName(inner), nil)
	}
	if enum := g.enum(inner); enum != nil {
		g.doc.Components.Schemas[schemaName(inner)] = openapi3.NewSchemaRef("", enum)
		property = openapi3.NewSchemaRef("#/components/schemas/"+schemaName(inner), nil)
	}
	owner := of
	if len(field.Index) > 1 { // the field of an embedded struct
		owner = of.FieldByIndex(field.Index[:len(field.Index)-1]).Type
	}
	text := g.fieldText(owner, field)
	nullable := !optional && field.Type.Kind() == reflect.Pointer && inner.Kind() == reflect.Struct
	if strings.HasPrefix(property.Ref, "#") && (text != "" || nullable) {
		property = openapi3.NewSchemaRef("", &openapi3.Schema{AllOf: openapi3.SchemaRefs{property}})
	}
	if !strings.HasPrefix(property.Ref, "#") {
		property.Value.Description, property.Value.Nullable = text, nullable
		addBounds(property.Value, field.Tag)
	}
	object.Properties[name] = property
}

// enum returns the schema of a string type with constants, or nil for other types.
func (g *describer) enum(of reflect.Type) *openapi3.Schema {
	if of.Kind() != reflect.String || of.PkgPath() == "" || of == reflect.TypeFor[policy.ConditionType]() { // platforms add conditions
		return nil
	}
	schema := openapi3.NewStringSchema()
	schema.Description = g.typeText(of)
	for _, constant := range g.source(of).Constants[of.Name()] {
		if constant.Value == "" || constant.Name == "ErrorUnauthorized" { // only the client returns it
			continue
		}
		schema.Enum = append(schema.Enum, constant.Value)
		for _, verb := range []string{" means that ", " is for ", ": "} {
			if after, ok := strings.CutPrefix(g.source(of).Comments[constant.Name], constant.Name+verb); ok {
				schema.Description += fmt.Sprintf(" %q: %s", constant.Value, g.named(of, after))
			}
		}
	}
	if len(schema.Enum) == 0 {
		return nil
	}
	return schema
}

func (g *describer) source(of reflect.Type) *godoc.Package {
	path := of.PkgPath()
	if g.packages[path] == nil {
		loaded, err := godoc.Load("../..", path)
		if err != nil {
			g.t.Fatal(err)
		}
		g.packages[path] = loaded
	}
	return g.packages[path]
}

// typeText returns the description of a type.
func (g *describer) typeText(of reflect.Type) string {
	return begin(g.named(of, godoc.Sentence(of.Name(), g.source(of).Comments[of.Name()])))
}

// fieldText returns the description of a field: its comment, or the sentences about it in the
// comment of an earlier field.
func (g *describer) fieldText(of reflect.Type, field reflect.StructField) string {
	declared := g.source(of).Structs[of.Name()]
	if declared == nil {
		g.t.Errorf("the source does not declare %s", of)
		return ""
	}
	text := g.named(of, godoc.Sentence(field.Name, godoc.FieldComments(declared)[field.Name]))
	if strings.Contains(field.Tag.Get("json"), ",omit") {
		text = strings.NewReplacer(", or absent.", "; absent if there is none.", ", or absent", "; absent", ", and absent", "; absent").
			Replace(zeroWord.ReplaceAllString(zeroStart.ReplaceAllString(text, "${1}Absent "), "${1}absent$3"))
	} else {
		text = strings.ReplaceAll(text, "nil", "null")
	}
	return begin(text)
}

// begin returns a text with a capital first letter, unless it begins with a name.
func begin(text string) string {
	if first, _, _ := strings.Cut(text, " "); text == "" || strings.Contains(first, "_") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// named replaces the Go names of the fields of a struct and of constants.
func (g *describer) named(of reflect.Type, text string) string {
	names := map[string]string{}
	for _, constants := range g.source(of).Constants {
		for _, constant := range constants {
			names[constant.Name] = strconv.Quote(constant.Value)
		}
	}
	if of.Kind() == reflect.Struct {
		for _, sibling := range reflect.VisibleFields(of) {
			names[sibling.Name] = fieldName(sibling)
		}
		delete(names, "Object") // it is also a type of metrics
	}
	text = goName.ReplaceAllStringFunc(strings.ReplaceAll(text, " (deviation)", ""), func(word string) string {
		word = strings.Trim(word, "[]")
		owner, name, dotted := strings.Cut(word, ".")
		if dotted {
			return orElse(names[owner], snake(owner)) + "." + snake(name)
		}
		return orElse(names[word], word)
	})
	return text
}

var (
	// goName matches the names of fields and constants, and links to types.
	goName = regexp.MustCompile(`\[?\b[A-Z]\w*(\.[A-Z]\w*)?\b\]?`)
	// zeroStart matches them at the beginning of a sentence.
	zeroStart = regexp.MustCompile(`(^|\. )(?:Nil|Zero|Empty) `)
	// zeroWord matches the Go terms for the value of an optional field that is absent.
	zeroWord = regexp.MustCompile(`(is |be |are |or |and |otherwise |; )(nil|zero|empty|0)( if| for| before| in | otherwise| until| after| means| without| while|\.($| )|;)`)
)

// snake returns a Go name in snake case.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}
