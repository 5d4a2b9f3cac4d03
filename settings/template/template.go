// Package template executes templates of users with bounded time and memory.
package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	// maxOutput is the maximum length of an output and of a value in bytes. maxSteps is the maximum
	// number of writes, repetitions and calls of templates.
	maxOutput = 4 << 20
	maxSteps  = 1_000_000
)

var errOutput = fmt.Errorf("the output or a value is larger than %d MiB", maxOutput>>20)

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ parsed *template.Template }

// Parse parses a template. A key that a map does not have is an error. functions may be nil.
func Parse(text string, functions template.FuncMap) (*Template, error) {
	parsed, err := template.New("template").Option("missingkey=error").Funcs(bounded).Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, each := range parsed.Templates() {
		if each.Tree != nil {
			count(each.Root)
		}
	}
	return &Template{parsed}, nil
}

// count adds empty texts to a list and to the bodies of its loops, so that each repetition writes.
func count(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		var branch *parse.BranchNode
		switch n := node.(type) {
		case *parse.RangeNode:
			branch = &n.BranchNode
		case *parse.IfNode:
			branch = &n.BranchNode
		case *parse.WithNode:
			branch = &n.BranchNode
		default:
			continue
		}
		count(branch.List)
		count(branch.ElseList)
	}
	list.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText}}, list.Nodes...)
}

// Execute returns the output. It is an error if the output, a value or the number of steps is too
// large.
func (t *Template) Execute(data any) (string, error) {
	var w writer
	err := t.parsed.Execute(&w, data)
	return w.text.String(), err
}

type writer struct {
	text  strings.Builder
	steps int
}

// Write returns an error if the output is too large.
func (w *writer) Write(text []byte) (int, error) {
	if w.steps++; w.steps > maxSteps {
		return 0, fmt.Errorf("the template needs more than %d steps", maxSteps)
	}
	if w.text.Len()+len(text) > maxOutput {
		return 0, errOutput
	}
	return w.text.Write(text)
}

// bounded replaces the functions of package template that can enlarge a value.
var bounded = template.FuncMap{
	"html":     limited(template.HTMLEscaper),
	"js":       limited(template.JSEscaper),
	"urlquery": limited(template.URLQueryEscaper),
	"print":    limited(fmt.Sprint),
	"println":  limited(fmt.Sprintln),
	"printf": func(format string, values ...any) (string, error) {
		if wide.MatchString(format) {
			return "", errors.New("a width or precision in a format may have at most 3 digits, and not be *")
		}
		return limited(func(values ...any) string { return fmt.Sprintf(format, values...) })(values...)
	},
}

// wide matches a width or precision that can enlarge a value.
var wide = regexp.MustCompile(`%[^a-zA-Z%]*([0-9]{4}|\*)`)

// limited returns f with an error for results that are too large.
func limited(f func(...any) string) func(...any) (string, error) {
	return func(values ...any) (string, error) {
		text := f(values...)
		if len(text) > maxOutput {
			return "", errOutput
		}
		return text, nil
	}
}
