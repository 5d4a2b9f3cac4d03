package gcetest

import (
	"fmt"
	"maps"
	"strings"
)

// selection maps the selected properties of a partial response to the selections inside them. An
// empty selection selects everything.
type selection map[string]selection

// parseFields parses the query parameter "fields", for example "a,b/c,items/*/x(y,z)".
func parseFields(text string) (selection, error) {
	p := &fieldParser{text: text}
	found, err := p.list()
	if err == nil && p.at < len(p.text) {
		err = fmt.Errorf("unexpected %q", p.text[p.at:])
	}
	if err != nil {
		return nil, fmt.Errorf("fields %q: %w", text, err)
	}
	return found, nil
}

type fieldParser struct {
	text string
	at   int
}

func (p *fieldParser) list() (selection, error) {
	found := selection{}
	for {
		if err := p.path(found); err != nil {
			return nil, err
		}
		if p.at >= len(p.text) || p.text[p.at] != ',' {
			return found, nil
		}
		p.at++
	}
}

// path parses a path and adds it to a selection.
func (p *fieldParser) path(to selection) error {
	name := p.text[p.at:]
	if end := strings.IndexAny(name, ",/()"); end >= 0 {
		name = name[:end]
	}
	if name == "" {
		return fmt.Errorf("no name at %d", p.at)
	}
	p.at += len(name)
	below := to[name]
	if below == nil {
		below = selection{}
		to[name] = below
	}
	if p.at >= len(p.text) {
		return nil
	}
	switch p.text[p.at] {
	case '/':
		p.at++
		return p.path(below)
	case '(':
		p.at++
		inner, err := p.list()
		if err != nil {
			return err
		}
		if p.at >= len(p.text) || p.text[p.at] != ')' {
			return fmt.Errorf("no closing parenthesis")
		}
		p.at++
		maps.Copy(below, inner)
	}
	return nil
}

// from returns the selected parts of a JSON value.
func (s selection) from(value any) any {
	if len(s) == 0 {
		return value
	}
	switch value := value.(type) {
	case []any:
		selected := make([]any, len(value))
		for i, element := range value {
			selected[i] = s.from(element)
		}
		return selected
	case map[string]any:
		selected := map[string]any{}
		for name, element := range value {
			below, ok := s[name]
			if !ok {
				below, ok = s["*"]
			}
			if ok {
				selected[name] = below.from(element)
			}
		}
		return selected
	}
	return value
}
