// Package nomadpolicy reads scaling policies of nomad-autoscaler: jobs and policy files in HCL, jobs
// and policies in the JSON of Nomad's API, and the policies of a running cluster.
package nomadpolicy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

// Origin is the origin of nomad-autoscaler's policies.
type Origin struct{}

// blockStart matches a block of a Nomad job or a policy, in HCL or JSON.
var blockStart = regexp.MustCompile(`(?im)^[ \t]*(job|group|scaling|policy|check|strategy)([ \t]+"[^"\n]*")*[ \t]*\{|"(job|task_?groups|scaling|policy|check|strategy)"\s*:\s*[\[{]`)

// Recognizes reports whether a file contains a block of a job or a policy.
func (Origin) Recognizes(text []byte) bool {
	return blockStart.Match(text) && !bytes.Contains(text, []byte("apiVersion"))
}

// maxDepth is the maximum nesting of a file, because the parsers are recursive.
const maxDepth = 200

// Read returns the scaling policies of a file.
func (Origin) Read(file string, text []byte) ([]origin.Policy, []origin.Skipped, error) {
	r := &reader{file: file, text: text}
	switch first := bytes.TrimLeft(text, " \t\r\n"); {
	case depth(text) > maxDepth:
		r.add(0, "has more than %d nested blocks and lists", maxDepth)
	case len(first) > 0 && (first[0] == '{' || first[0] == '['):
		r.readJSON()
	default:
		r.readHCL()
	}
	if len(r.policies) == 0 && len(r.errs) == 0 {
		r.add(0, "contains no scaling block with a policy")
	}
	return r.policies, nil, errors.Join(r.errs...)
}

// depth returns the largest number of open brackets, including those in strings.
func depth(text []byte) (deepest int) {
	open := 0
	for _, char := range text {
		switch char {
		case '{', '[', '(':
			open++
			deepest = max(deepest, open)
		case '}', ']', ')':
			open--
		}
	}
	return deepest
}

type reader struct {
	file     string
	text     []byte
	policies []origin.Policy
	errs     []error
	// context contains the defaults of variables.
	context *hcl.EvalContext
}

func (r *reader) add(line int, format string, args ...any) {
	r.errs = append(r.errs, &origin.Error{File: r.file, Line: line, Detail: fmt.Sprintf(format, args...)})
}

func (r *reader) readHCL() {
	parsed, diagnostics := hclsyntax.ParseConfig(r.text, r.file, hcl.InitialPos)
	body, ok := parsed.Body.(*hclsyntax.Body)
	if diagnostics.HasErrors() || !ok {
		r.syntax(diagnostics)
		return
	}
	r.variables(body)
	for _, block := range body.Blocks {
		switch block.Type {
		case "variable", "locals":
		case "job":
			job := labelOf(block)
			namespace := r.block(block.Body).text("namespace")
			for _, group := range blocksOf(block, "group") {
				for _, found := range blocksOf(group, "scaling") {
					r.scaling(found, scaling.Policy{Job: job, Group: labelOf(group), Namespace: namespace, Min: r.number(group, "count")})
				}
			}
		case "scaling":
			r.scaling(block, scaling.Policy{Type: scaling.Cluster})
		default:
			r.add(block.TypeRange.Start.Line, "the block %q is neither a job nor a scaling policy: put it into a scaling block", block.Type)
		}
	}
}

// variables defines the variables that have a default.
func (r *reader) variables(body *hclsyntax.Body) {
	defaults := map[string]cty.Value{}
	for _, block := range body.Blocks {
		if attribute := block.Body.Attributes["default"]; block.Type == "variable" && attribute != nil {
			if value, diagnostics := attribute.Expr.Value(nil); !diagnostics.HasErrors() {
				defaults[labelOf(block)] = value
			}
		}
	}
	r.context = &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(defaults)}}
}

func (r *reader) syntax(diagnostics hcl.Diagnostics) {
	if len(diagnostics) == 0 {
		return
	}
	first, line := diagnostics[0], 0
	if first.Subject != nil {
		line = first.Subject.Start.Line
	}
	r.add(line, "not valid HCL: %s; %s", strings.TrimSuffix(first.Summary, "."), strings.TrimSuffix(first.Detail, "."))
}

func labelOf(block *hclsyntax.Block) string {
	return strings.Join(block.Labels, " ")
}

func blocksOf(of *hclsyntax.Block, kind string) (found []*hclsyntax.Block) {
	for _, block := range of.Body.Blocks {
		if block.Type == kind {
			found = append(found, block)
		}
	}
	return found
}

// scaling adds a scaling block. base contains the target, and the minimum for a block without one.
func (r *reader) scaling(block *hclsyntax.Block, base scaling.Policy) {
	p := &policy{Policy: base, place: fmt.Sprintf("%s:%d", r.file, block.TypeRange.Start.Line), name: labelOf(block)}
	outer := r.block(block.Body)
	p.Enabled = outer.text("enabled") != "false"
	p.Type = cmp.Or(outer.text("type"), p.Type)
	p.Max = r.number(block, "max")
	if given := r.number(block, "min"); given != nil {
		p.Min = given
	}
	p.unresolved = outer.unresolved
	for _, inner := range blocksOf(block, "policy") {
		p.Body = r.block(inner.Body).fields
	}
	if p.Body == nil { // only bounds, which hpad reads from Nomad
		return
	}
	plugin, keys := p.Target()
	if outer.text("type") == "" && plugin != "" && clouds[plugin].kind == "" && keys["Group"] != "" {
		p.Type = ""
	}
	if p.Type != scaling.Cluster {
		p.Job, p.Group, p.Namespace = cmp.Or(p.Job, keys["Job"]), cmp.Or(p.Group, keys["Group"]), cmp.Or(p.Namespace, keys["Namespace"])
	}
	r.policies = append(r.policies, p)
}

// number returns an attribute that is a whole number, or nil.
func (r *reader) number(block *hclsyntax.Block, name string) *int64 {
	attribute := block.Body.Attributes[name]
	if attribute == nil {
		return nil
	}
	value, diagnostics := attribute.Expr.Value(r.context)
	if diagnostics.HasErrors() || value.IsNull() || !value.IsKnown() || value.Type() != cty.Number {
		return nil
	}
	number, _ := value.AsBigFloat().Int64()
	return &number
}

// fields are the attributes and blocks of a block in the form of [scaling.Policy.Body].
type fields struct {
	fields map[string]any
	// unresolved lists the attributes that contain variables or functions.
	unresolved []string
}

func (f *fields) text(key string) string {
	text, _ := f.fields[key].(string)
	if flag, ok := f.fields[key].(bool); ok {
		text = fmt.Sprint(flag)
	}
	return text
}

func (r *reader) block(body *hclsyntax.Body) *fields {
	f := &fields{fields: map[string]any{}}
	for name, attribute := range body.Attributes {
		value, diagnostics := attribute.Expr.Value(r.context)
		if diagnostics.HasErrors() {
			source := strings.Trim(string(attribute.Expr.Range().SliceBytes(r.text)), `"`)
			f.fields[name], f.unresolved = source, append(f.unresolved, fmt.Sprintf("line %d: %s = %s", attribute.SrcRange.Start.Line, name, source))
			continue
		}
		text, err := ctyjson.Marshal(value, value.Type())
		var decoded any
		if err == nil && json.Unmarshal(text, &decoded) == nil {
			f.fields[name] = decoded
		}
	}
	for _, block := range body.Blocks {
		inner := r.block(block.Body)
		f.unresolved = append(f.unresolved, inner.unresolved...)
		var content any = []any{inner.fields}
		if len(block.Labels) > 0 {
			content = []any{map[string]any{labelOf(block): content}}
		}
		list, _ := f.fields[block.Type].([]any)
		f.fields[block.Type] = append(list, content.([]any)...)
	}
	return f
}

// apiPolicy is a scaling policy in Nomad's API.
type apiPolicy struct {
	ID, Type string
	Target   map[string]string
	Min, Max *int64
	Enabled  *bool
	Policy   map[string]any
}

// apiJob is a job in Nomad's API.
type apiJob struct {
	ID, Namespace string
	TaskGroups    []struct {
		Name    string
		Count   *int64
		Scaling *apiPolicy
	}
}

// readJSON reads a job, a list of jobs, a policy, or a list of policies.
func (r *reader) readJSON() {
	var elements []json.RawMessage
	if err := json.Unmarshal(r.text, &elements); err != nil {
		elements = []json.RawMessage{r.text}
	}
	for _, element := range elements {
		var outer struct{ Job *apiJob }
		var job apiJob
		var single apiPolicy
		if err := errors.Join(json.Unmarshal(element, &outer), json.Unmarshal(element, &job), json.Unmarshal(element, &single)); err != nil {
			cause := err.(interface{ Unwrap() []error }).Unwrap()[0] //nolint:errorlint // the error was joined above.
			r.add(lineOf(r.text, cause), "not valid JSON of Nomad's API: %v; \"nomad job inspect\" prints a job", cause)
			return
		}
		if outer.Job != nil {
			job = *outer.Job
		}
		if len(job.TaskGroups) == 0 && single.Policy != nil {
			r.fromAPI(&single, single.Target["Job"], single.Target["Group"], single.Target["Namespace"], nil)
		}
		for _, group := range job.TaskGroups {
			if group.Scaling != nil && group.Scaling.Policy != nil {
				r.fromAPI(group.Scaling, job.ID, group.Name, job.Namespace, group.Count)
			}
		}
	}
}

func (r *reader) fromAPI(given *apiPolicy, job, group, namespace string, count *int64) {
	p := &policy{place: r.file + ":1", name: given.ID}
	p.Policy = scaling.Policy{
		Type: given.Type, Job: job, Group: group, Namespace: namespace, Min: given.Min, Max: given.Max,
		Enabled: given.Enabled == nil || *given.Enabled, Body: given.Policy,
	}
	if p.Min == nil {
		p.Min = count
	}
	r.policies = append(r.policies, p)
}

func lineOf(text []byte, err error) int {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return 1 + bytes.Count(text[:min(syntax.Offset, int64(len(text)))], []byte("\n"))
	}
	return 1
}
