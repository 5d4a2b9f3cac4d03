package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/scanner"
)

// fields maps the field names that filters can use to functions that return the field's value.
type fields[T any] map[string]func(T) string

// compile compiles a filter. It supports the part of Nomad's filter language (go-bexpr) that hpad
// and nomad-autoscaler use: ==, !=, matches, and, or, not and parentheses. Other expressions and
// unknown fields are errors.
func compile[T any](expression string, known fields[T]) (pass func(T) bool, err error) {
	if expression == "" {
		return func(T) bool { return true }, nil
	}
	p := &parser[T]{known: known}
	p.scanner.Init(strings.NewReader(expression))
	p.scanner.Mode = scanner.ScanIdents | scanner.ScanStrings | scanner.ScanRawStrings | scanner.ScanInts
	defer func() {
		if wrong := recover(); wrong != nil {
			pass, err = nil, fmt.Errorf("failed to create result paginator: failed to read filter expression: %v: %v in %q", p.scanner.Pos(), wrong, expression)
		}
	}()
	p.scanner.Error = func(_ *scanner.Scanner, message string) { panic(message) }
	p.take()
	pass = p.either()
	if p.next != "" {
		panic("unexpected " + p.next)
	}
	return pass, nil
}

type parser[T any] struct {
	scanner scanner.Scanner
	next    string
	known   fields[T]
}

// take returns the current word and advances.
func (p *parser[T]) take() string {
	taken := p.next
	p.next = ""
	if p.scanner.Scan() != scanner.EOF {
		p.next = p.scanner.TokenText()
	}
	return taken
}

// either parses operands of "or". The operator "and" takes precedence.
func (p *parser[T]) either() func(T) bool { return p.joined("or", p.both, true) }

func (p *parser[T]) both() func(T) bool { return p.joined("and", p.one, false) }

// joined parses the operands of an operator. An operand with the value decisive determines the
// result.
func (p *parser[T]) joined(operator string, operand func() func(T) bool, decisive bool) func(T) bool {
	terms := []func(T) bool{operand()}
	for p.next == operator {
		p.take()
		terms = append(terms, operand())
	}
	return func(of T) bool {
		for _, term := range terms {
			if term(of) == decisive {
				return decisive
			}
		}
		return !decisive
	}
}

func (p *parser[T]) one() func(T) bool {
	switch p.next {
	case "(":
		p.take()
		inner := p.either()
		if p.take() != ")" {
			panic("missing )")
		}
		return inner
	case "not":
		p.take()
		inner := p.one()
		return func(of T) bool { return !inner(of) }
	}
	name := p.take()
	field := p.known[name]
	if field == nil {
		panic("unknown field " + name)
	}
	operator := p.take()
	if operator == "not" {
		operator += " " + p.take()
	}
	switch operator {
	case "=", "!":
		if p.take() != "=" {
			panic("unknown operator " + operator)
		}
		wanted := p.value()
		if operator == "=" {
			return func(of T) bool { return field(of) == wanted }
		}
		return func(of T) bool { return field(of) != wanted }
	case "matches", "not matches":
		pattern := regexp.MustCompile(p.value())
		return func(of T) bool { return pattern.MatchString(field(of)) == (operator == "matches") }
	}
	panic("unknown operator " + operator)
}

func (p *parser[T]) value() string {
	taken := p.take()
	if _, err := strconv.Atoi(taken); err == nil || taken == "true" || taken == "false" {
		return taken
	}
	value, err := strconv.Unquote(taken)
	if err != nil {
		panic("not a string: " + taken)
	}
	return value
}

var (
	jobFields = fields[*job]{
		"ID": func(j *job) string { return j.id }, "Name": func(j *job) string { return j.id }, "ParentID": func(*job) string { return "" },
		"Namespace": func(*job) string { return "default" }, "Type": func(*job) string { return "service" }, "Status": func(*job) string { return "running" },
		"Stop": func(*job) string { return "false" }, "ModifyIndex": func(j *job) string { return strconv.FormatUint(j.index, 10) },
		"JobModifyIndex": func(j *job) string { return strconv.FormatUint(j.specIndex, 10) },
	}
	allocFields = fields[*alloc]{
		"ID": func(a *alloc) string { return a.id }, "JobID": func(a *alloc) string { return a.jobID }, "EvalID": func(a *alloc) string { return a.eval },
		"Namespace": func(*alloc) string { return "default" }, "TaskGroup": func(*alloc) string { return "app" }, "NodeID": func(a *alloc) string { return nodeID(a.node) },
		"ClientStatus": func(a *alloc) string { return a.client }, "DesiredStatus": func(a *alloc) string { return a.desired },
		"NextAllocation": func(*alloc) string { return "" }, "JobType": func(*alloc) string { return "service" },
	}
	deploymentFields = fields[*job]{
		"ID": func(j *job) string { return j.deployment.id }, "JobID": func(j *job) string { return j.id }, "Namespace": func(*job) string { return "default" },
		"Status": func(j *job) string { return j.deployment.status },
	}
)
