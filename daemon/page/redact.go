package page

import (
	"html/template"
	"reflect"
	"text/template/parse"

	"github.com/hpad/hpad/daemon/redact"
)

// redacted appends redactValue to every pipeline that produces output, so that no view shows a
// secret. html/template then appends its own escaping.
func redacted(t *template.Template) *template.Template {
	for _, tmpl := range t.Templates() {
		if tmpl.Tree != nil {
			redactNodes(tmpl.Tree.Root)
		}
	}
	return t
}

func redactNodes(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			if len(node.Pipe.Decl) == 0 {
				command := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier("redact")}}
				node.Pipe.Cmds = append(node.Pipe.Cmds, command)
			}
		case *parse.IfNode:
			redactNodes(node.List)
			redactNodes(node.ElseList)
		case *parse.RangeNode:
			redactNodes(node.List)
			redactNodes(node.ElseList)
		case *parse.WithNode:
			redactNodes(node.List)
			redactNodes(node.ElseList)
		}
	}
}

// redactValue removes secrets from strings. It returns other values unchanged.
func redactValue(value any) any {
	if text := reflect.ValueOf(value); text.Kind() == reflect.String {
		return redact.Text(text.String())
	}
	return value
}
