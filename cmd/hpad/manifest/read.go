package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	kjson "sigs.k8s.io/json"
)

// The kinds of documents that are read.
const (
	kindHPA     = "HorizontalPodAutoscaler"
	kindHPAList = "HorizontalPodAutoscalerList"
	kindList    = "List"
)

// Object is a HorizontalPodAutoscaler of a manifest, or a ScaledObject of KEDA.
type Object struct {
	File string
	// Line is where it begins, from 1.
	Line int
	Kind string
	// APIVersion is the one it is written in.
	APIVersion string
	// Namespace is empty where the manifest has none.
	Namespace string
	// Name is empty where the manifest has none, as with generateName.
	Name string
	// Spec is as autoscaling/v2 has it, whatever the manifest is written in, and not
	// defaulted.
	Spec autoscalingv2.HorizontalPodAutoscalerSpec

	// Triggers are the triggers of KEDA that metrics of Spec are made of, by the index
	// of the metric.
	Triggers map[int]Trigger
	// SyncPeriodSeconds is the pollingInterval of a ScaledObject; nil if it is not set.
	SyncPeriodSeconds *int32
	// NotConverted are the fields of a ScaledObject without a counterpart in Spec.
	NotConverted []string
}

// Skipped is a document that is neither a HorizontalPodAutoscaler nor a ScaledObject.
type Skipped struct {
	File string
	Line int
	// What names it, as "Deployment web".
	What string
}

// Error is a mistake in a manifest.
type Error struct {
	File string
	// Line is where it is, from 1; 0 where that is not known.
	Line int
	// Detail says what is wrong.
	Detail string
}

// Error returns "file:line: detail".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Detail
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Detail
}

// maxFile bounds what is read of one file, in bytes.
const maxFile = 64 << 20

// ReadFiles reads files as [Read] does; "-" is stdin. What can be read is, whatever
// else is wrong.
func ReadFiles(files []string, stdin io.Reader) (objects []Object, skipped []Skipped, mistakes []error) {
	for _, file := range files {
		name, text, err := readFile(file, stdin)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		found, others, err := Read(name, text)
		objects, skipped = append(objects, found...), append(skipped, others...)
		if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // Read returns joined errors.
			mistakes = append(mistakes, joined.Unwrap()...)
		}
	}
	return objects, skipped, mistakes
}

// readFile returns the text of a file and what the file is called in messages.
func readFile(file string, stdin io.Reader) (name string, text []byte, err error) {
	name, from := "stdin", stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return file, nil, err
		}
		defer func() { _ = opened.Close() }()
		name, from = file, opened
	}
	text, err = io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return name, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxFile {
		return name, nil, fmt.Errorf("read %s: it has more than %d MiB", name, maxFile>>20)
	}
	return name, text, nil
}

// Read reads the manifests of a file, as YAML documents or JSON; lists are taken
// apart. What has a mistake is left out, and the error joins an [Error] for
// each.
func Read(file string, text []byte) ([]Object, []Skipped, error) {
	r := &reader{file: file, template: bytes.Contains(text, []byte("{{"))}
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
		if len(node.Content) > 0 {
			r.document(node.Content[0], "")
		}
	}
	if found := nomadBlock.FindIndex(text); found != nil && len(r.errs) > 0 && !bytes.Contains(text, []byte("apiVersion")) {
		r.errs = nil
		r.add(1+bytes.Count(text[:found[0]], []byte("\n")), "%s", nomadRemedy)
	}
	return r.objects, r.skipped, errors.Join(r.errs...)
}

// nomadBlock matches a block of a Nomad job or of a policy of nomad-autoscaler, in HCL or JSON.
var nomadBlock = regexp.MustCompile(`(?im)^[ \t]*(job|group|scaling|policy|check|strategy)([ \t]+"[^"\n]*")*[ \t]*\{|"(job|task_?groups|scaling|policy|check|strategy)"\s*:\s*[\[{]`)

const nomadRemedy = `is a file of Nomad, which convert does not read. Write the autoscaler by hand: [autoscalers.NAME] with target = { fleet, job, group }, ` +
	`min_replicas (min) and max_replicas (max), and for each check [[autoscalers.NAME.metrics]] with type = "External", name, source, query and value ` +
	`(target of the strategy). The section "Coming from nomad-autoscaler" of docs/nomad.md has the key for each key of a policy`

type reader struct {
	file string
	// template reports whether there is something in the file that templates have.
	template bool
	// object names the object that is read, as "HorizontalPodAutoscaler shop/web".
	object string

	objects []Object
	skipped []Skipped
	errs    []error
}

func (r *reader) add(line int, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if r.object != "" {
		detail = r.object + ": " + detail
	}
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Detail: detail})
}

// yamlLine is how the YAML library begins its messages.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

// syntax records text that is no YAML, at a line unless the error knows better.
func (r *reader) syntax(err error, line int) {
	detail := err.Error()
	if found := yamlLine.FindStringSubmatch(detail); found != nil {
		line, _ = strconv.Atoi(found[1])
		detail = detail[len(found[0]):]
	}
	detail = "not valid YAML: " + strings.TrimPrefix(detail, "yaml: ")
	if r.template {
		detail += "; a template has to be rendered first, as by helm template"
	}
	r.add(line, "%s", detail)
}

// document reads one document, or one element of a list whose elements are
// written in a version.
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
		r.add(node.Line, "cannot be JSON, which manifests have to be: %v", err)
		return
	}
	var fields map[string]json.RawMessage
	var object struct {
		APIVersion string
		Kind       string
		Metadata   metadata
	}
	if json.Unmarshal(text, &fields) != nil {
		r.add(node.Line, "is no manifest: it has no apiVersion, kind and metadata")
		return
	}
	err = json.Unmarshal(text, &object)
	meta := object.Metadata
	r.object = strings.TrimSpace(object.Kind + " " + strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/"))
	defer func() { r.object = "" }()
	if err != nil {
		invalidFields(text, "", &object, json.Unmarshal, func(path, detail string) { r.add(lineOf(node, path), "%s%s", path, detail) })
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
		version := ""
		if object.Kind == kindHPAList {
			version = object.APIVersion
		}
		items := child(node, "items")
		if items == nil || items.Kind != yaml.SequenceNode {
			r.add(node.Line, "the list has no items")
			return
		}
		for _, item := range items.Content {
			r.document(item, version)
		}
	case kindHPA, kindScaledObject:
		r.autoscaler(node, object.Kind, object.APIVersion, meta, fields)
	case "":
		r.add(node.Line, "is no manifest: it has no kind")
	default:
		r.skipped = append(r.skipped, Skipped{File: r.file, Line: node.Line, What: strings.TrimSpace(object.Kind + " " + meta.Name)})
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
		object.Spec = r.scaledObject(node, raw, &object)
	case kind == kindScaledObject:
		r.add(lineOf(node, "apiVersion"), "apiVersion %q is not known: it is %s", version, versionScaledObject)
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
		r.objects = append(r.objects, object)
	}
}

// decode decodes the spec of an object, recording fields that its version does not
// have and values that are not allowed.
func (r *reader) decode(node *yaml.Node, raw json.RawMessage, to any) {
	for _, path := range r.decodeKnown(node, raw, to) {
		r.add(lineOf(node, path), "unknown field %q", path)
	}
}

// decodeKnown decodes the spec of an object and returns the paths of the fields that the
// type of to does not have.
func (r *reader) decodeKnown(node *yaml.Node, raw json.RawMessage, to any) (unknown []string) {
	errs, err := kjson.UnmarshalStrict(raw, to)
	if err != nil {
		invalidFields(raw, "spec", to, kjson.UnmarshalCaseSensitivePreserveInts, func(path, detail string) {
			r.add(lineOf(node, path), "%s%s", path, detail)
		})
	}
	for _, err := range errs {
		_, path, _ := strings.Cut(strings.TrimSuffix(err.Error(), `"`), ` "`)
		unknown = append(unknown, "spec."+path)
	}
	return unknown
}

// child returns the value of a key of a mapping; nil without a mapping or a value.
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

// lineOf returns the line of a path as "spec.metrics[0].type", or else of the
// nearest part of it that there is.
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
