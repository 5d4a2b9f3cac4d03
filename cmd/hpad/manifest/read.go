// Package manifest reads Kubernetes HorizontalPodAutoscalers (autoscaling/v1 and v2) and KEDA
// ScaledObjects, and converts them to autoscalers.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	kjson "sigs.k8s.io/json"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
)

const (
	kindHPA     = "HorizontalPodAutoscaler"
	kindHPAList = "HorizontalPodAutoscalerList"
	kindList    = "List"
)

// Object is a HorizontalPodAutoscaler or a KEDA ScaledObject in a manifest.
type Object struct {
	File string
	// Line is the object's first line, counted from 1.
	Line       int
	Kind       string
	APIVersion string
	Namespace  string
	// Name is empty if the manifest does not contain it, for example because it uses generateName.
	Name string
	// Spec is converted to autoscaling/v2. Defaults are not applied.
	Spec autoscalingv2.HorizontalPodAutoscalerSpec

	// Triggers maps the index of a metric in Spec to the KEDA trigger from which it was created.
	Triggers map[int]Trigger
	// SyncPeriodSeconds is the pollingInterval of a ScaledObject if it determines when KEDA reads the
	// metrics, and otherwise nil.
	SyncPeriodSeconds *int32
	// Mode restricts the autoscaler if KEDA pauses the ScaledObject, and is otherwise "". Paused
	// describes the pause.
	Mode, Paused string
	// Schedules are the cron triggers of a ScaledObject, and Modifiers is its formula.
	Schedules []draft.Schedule
	Modifiers Modifiers
	// Notes are comments about the bounds.
	Notes []string
	// NotConverted lists the fields of a ScaledObject that Spec cannot express.
	NotConverted []string
}

// Origin is the origin of Kubernetes manifests. It is the default origin.
type Origin struct{}

// Recognizes returns true, because [Read] explains what a manifest needs.
func (Origin) Recognizes([]byte) bool { return true }

// Read returns the objects of [Read].
func (Origin) Read(file string, text []byte) (policies []origin.Policy, skipped []origin.Skipped, err error) {
	objects, skipped, err := Read(file, text)
	for i := range objects {
		policies = append(policies, &objects[i])
	}
	return policies, skipped, err
}

// Read reads the manifests in a YAML or JSON file, including those inside lists. It returns the
// valid objects. The returned error joins one [origin.Error] for each problem.
func Read(file string, text []byte) ([]Object, []origin.Skipped, error) {
	r := &reader{file: file, template: bytes.Contains(text, []byte("{{"))}
	if bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte(",")) > origin.MaxLines {
		r.add(0, "has more than %d million lines and commas: split the file", origin.MaxLines/1_000_000)
		return nil, nil, errors.Join(r.errs...)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.syntax(err, 0)
			break
		}
		if detail := origin.Oversized(&node); detail != "" {
			r.add(node.Line, "%s", detail)
		} else if len(node.Content) > 0 {
			r.document(node.Content[0], "")
		}
	}
	for i := range r.objects {
		if r.objects[i].Kind == kindHPA {
			r.fillQueries(&r.objects[i], r.annotations[i])
		}
	}
	return r.objects, r.skipped, errors.Join(r.errs...)
}

type reader struct {
	file string
	// template is set if the file may be a template.
	template bool
	// object is the current object, for example "HorizontalPodAutoscaler shop/web".
	object string

	// rules are the rules of prometheus-adapter. annotations are those of each object.
	rules       []adapterRule
	annotations []map[string]string

	objects []Object
	skipped []origin.Skipped
	errs    []error
}

func (r *reader) add(line int, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if r.object != "" {
		detail = r.object + ": " + detail
	}
	r.errs = append(r.errs, &origin.Error{File: r.file, Line: line, Detail: detail})
}

// yamlLine matches the beginning of the YAML library's messages.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

// syntax adds a YAML error. A line number in the message takes precedence over the given line.
func (r *reader) syntax(err error, line int) {
	detail := err.Error()
	if found := yamlLine.FindStringSubmatch(detail); found != nil {
		line, _ = strconv.Atoi(found[1])
		detail = detail[len(found[0]):]
	}
	detail = "not valid YAML: " + strings.TrimPrefix(detail, "yaml: ")
	if r.template {
		detail += "; render a template first, for example with helm template"
	}
	r.add(line, "%s", detail)
}

// document reads a document or an element of a list. Version is the default apiVersion for
// elements.
func (r *reader) document(node *yaml.Node, version string) {
	if node.Tag == "!!null" {
		return
	}
	var tree any
	if err := node.Decode(&tree); err != nil {
		r.syntax(err, node.Line)
		return
	}
	text, err := json.Marshal(tree)
	if err != nil {
		r.add(node.Line, "cannot be converted to JSON: %v", err)
		return
	}
	var fields map[string]json.RawMessage
	var object struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}
	if json.Unmarshal(text, &fields) != nil {
		r.add(node.Line, "is not a manifest: it has no apiVersion, kind and metadata")
		return
	}
	err = json.Unmarshal(text, &object)
	meta := object.Metadata
	r.object = strings.TrimSpace(object.Kind + " " + strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/"))
	defer func() { r.object = "" }()
	if err != nil {
		r.invalid(node, "", err)
		return
	}
	if object.APIVersion == "" {
		object.APIVersion = version
		if version != "" && object.Kind == "" {
			object.Kind = kindHPA
		}
	}
	switch object.Kind {
	case kindList, kindHPAList:
		r.list(node, object.Kind, object.APIVersion)
	case kindHPA, kindScaledObject:
		r.autoscaler(node, object.Kind, object.APIVersion, meta, fields)
	case "":
		r.add(node.Line, "is not a manifest: it has no kind")
	default:
		if object.Kind == "ConfigMap" && r.adapterRules(node, meta.Name) {
			return
		}
		r.skipped = append(r.skipped, origin.Skipped{File: r.file, Line: node.Line, What: strings.TrimSpace(object.Kind + " " + meta.Name)})
	}
}

// list reads the items of a list. Those of a list of HPAs have its version by default.
func (r *reader) list(node *yaml.Node, kind, version string) {
	if kind != kindHPAList {
		version = ""
	}
	items := child(node, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		r.add(node.Line, "the list has no items")
		return
	}
	for _, item := range items.Content {
		r.document(item, version)
	}
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func (r *reader) autoscaler(node *yaml.Node, kind, version string, meta metadata, fields map[string]json.RawMessage) {
	before := len(r.errs)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "apiVersion", "kind", "metadata", "spec", "status":
		default:
			r.add(lineOf(node, name), "unknown field %q", name)
		}
	}
	object := Object{File: r.file, Line: node.Line, Kind: kind, APIVersion: version, Namespace: meta.Namespace, Name: meta.Name}
	raw, ok := fields["spec"]
	if !ok {
		r.add(node.Line, "has no spec")
		return
	}
	read, known := versions[version]
	switch {
	case kind == kindScaledObject && version == versionScaledObject:
		object.pause(meta.Annotations)
		object.Spec = r.scaledObject(node, raw, &object)
	case kind == kindScaledObject:
		r.add(lineOf(node, "apiVersion"), "apiVersion %q: must be %s", version, versionScaledObject)
	case !known:
		r.add(lineOf(node, "apiVersion"), "apiVersion %q cannot be converted, only autoscaling/v2 and v1: %s", version, useV2)
	default:
		r.checkAnnotations(node, meta.Annotations)
		object.Spec = read(r, node, raw)
	}
	if len(r.errs) > before {
		return
	}
	r.validate(node, &object)
	if kind == kindHPA {
		object.Triggers = kedaTriggers(&object, meta)
	}
	if len(r.errs) == before {
		r.objects, r.annotations = append(r.objects, object), append(r.annotations, meta.Annotations)
	}
}

// decode decodes the spec of an object. It adds errors for unknown fields and invalid values.
func (r *reader) decode(node *yaml.Node, raw json.RawMessage, to any) {
	for _, path := range r.decodeKnown(node, raw, to) {
		r.add(lineOf(node, path), "unknown field %q", path)
	}
}

// decodeKnown decodes the spec of an object into the argument to. It returns the paths of fields
// that the type of this argument does not have.
func (r *reader) decodeKnown(node *yaml.Node, raw json.RawMessage, to any) (unknown []string) {
	errs, err := kjson.UnmarshalStrict(raw, to)
	if err != nil {
		r.invalid(node, "spec.", err)
	}
	for _, err := range errs {
		_, path, _ := strings.Cut(strings.TrimSuffix(err.Error(), `"`), ` "`)
		unknown = append(unknown, "spec."+path)
	}
	return unknown
}

// invalid adds the error of a decoder. Paths of fields begin with root.
func (r *reader) invalid(node *yaml.Node, root string, err error) {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		if !r.invalidQuantities(node, "") {
			r.add(lineOf(node, root), "%s: %v", strings.TrimSuffix(root, "."), err)
		}
		return
	}
	path := strings.TrimSuffix(root+wrong.Field, ".")
	if found, exact := misfit(node, strings.Split(path, "."), "", wrong.Type.Kind()); found != nil && found.Kind == yaml.ScalarNode {
		remedy := ""
		if wrong.Type.Kind() == reflect.String {
			remedy = fmt.Sprintf(": write it in quotes, %q", found.Value)
		}
		kind, _, _ := strings.Cut(wrong.Value, " ") // it can contain the value of a number
		r.add(found.Line, "%s: must be %s, not the %s %s%s", exact, wrong.Type.Kind(), kind, found.Value, remedy)
		return
	}
	r.add(lineOf(node, path), "%s: must be %s, not %s", path, wrong.Type.Kind(), wrong.Value)
}

// child returns the value of a key in a mapping, or nil.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil {
		return nil
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// lineOf returns the line of a path, for example "spec.metrics[0].type". If the path does not
// exist, it returns the line of the longest existing prefix.
func lineOf(node *yaml.Node, path string) int {
	line := node.Line
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var next *yaml.Node
		at := 0
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == part {
					at, next = node.Content[i].Line, node.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(part); err == nil && i < len(node.Content) {
				next = node.Content[i]
				at = next.Line
			}
		}
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}
