package nomad

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"text/scanner"
)

// filter evaluates expressions as Nomad does, of its language (go-bexpr) as much as
// hpad speaks: texts that are equal or not, entries of maps, and, or, parentheses.
// Anything else is an error, and so is a field that the document lacks: Nomad would
// let nothing through, and not say so.
type filter struct {
	scanner  scanner.Scanner
	next     string
	document map[string]any
}

// evaluate reports whether a filter lets a document through; an empty one does.
func evaluate(expression string, document map[string]any) (passes bool, err error) {
	if expression == "" {
		return true, nil
	}
	f := &filter{document: document}
	f.scanner.Init(strings.NewReader(expression))
	f.scanner.Mode = scanner.ScanIdents | scanner.ScanStrings
	defer func() {
		if wrong := recover(); wrong != nil {
			passes, err = false, fmt.Errorf("failed to read filter expression: %s: %v in %q", f.scanner.Pos(), wrong, expression)
		}
	}()
	f.scanner.Error = func(_ *scanner.Scanner, message string) { panic(message) }
	f.take()
	passes = f.either()
	if f.next != "" {
		panic("unexpected " + f.next)
	}
	return passes, nil
}

// take goes on to the next word and returns the one before.
func (f *filter) take() string {
	taken := f.next
	f.next = ""
	if f.scanner.Scan() != scanner.EOF {
		f.next = f.scanner.TokenText()
	}
	return taken
}

func (f *filter) skip(words ...string) {
	for _, word := range words {
		if got := f.take(); got != word {
			panic(fmt.Sprintf("%q, want %q", got, word))
		}
	}
}

func (f *filter) text() string {
	text, err := strconv.Unquote(f.take())
	if err != nil {
		panic("no text")
	}
	return text
}

// either evaluates what "or" joins; "and" binds closer.
func (f *filter) either() bool {
	passes := f.both()
	for f.next == "or" {
		f.take()
		right := f.both() // which is read in any case
		passes = passes || right
	}
	return passes
}

func (f *filter) both() bool {
	passes := f.one()
	for f.next == "and" {
		f.take()
		right := f.one()
		passes = passes && right
	}
	return passes
}

func (f *filter) one() bool {
	if f.next == "(" {
		f.take()
		passes := f.either()
		f.skip(")")
		return passes
	}
	name := f.take()
	value, there := f.document[name]
	if !there {
		panic("there is no field " + name)
	}
	if f.next == "[" {
		f.take()
		entries, is := value.(map[string]string)
		if !is {
			panic(name + " is no map")
		}
		value, there = entries[f.text()]
		f.skip("]")
	}
	text, is := value.(string)
	if !is {
		panic(name + " is no text")
	}
	operator := f.take()
	f.skip("=")
	wanted := f.text()
	switch operator {
	case "=":
		return there && text == wanted
	case "!":
		return !there || text != wanted
	}
	panic("unknown operator " + operator)
}

// pass returns those of some documents that a filter lets through.
func pass(expression string, documents []map[string]any) ([]map[string]any, error) {
	passed := []map[string]any{}
	for _, document := range documents {
		passes, err := evaluate(expression, document)
		if err != nil {
			return nil, err
		}
		if passes {
			passed = append(passed, document)
		}
	}
	return passed, nil
}

func TestEvaluate(t *testing.T) {
	document := map[string]any{"ID": `a"b`, "Status": "running", "Count": 3, "Meta": map[string]string{"rack": "r1"}}
	for expression, want := range map[string]bool{
		``:                                       true,
		`Status == "running"`:                    true,
		`Status != "running"`:                    false,
		`ID == "a\"b"`:                           true,
		`Meta["rack"] == "r1"`:                   true,
		`Meta["row"] == ""`:                      false,
		`Meta["row"] != ""`:                      true,
		`ID == "x" and ID == "y" or ID != "z"`:   true,
		`ID == "x" and (ID == "y" or ID != "z")`: false,
		`Status == "running" or ID == "x" and ID == "y"`:     true,
		`(Status == "running" or ID == "x") and ID == "y"`:   false,
		`((Status == "running") and (Meta["rack"] != "r2"))`: true,
	} {
		if got, err := evaluate(expression, document); got != want || err != nil {
			t.Errorf("%s = %v, %v, want %v", expression, got, err, want)
		}
	}
	for _, expression := range []string{
		`Nothing == "x"`, `Count == "3"`, `Status = "x"`, `Status == running`, `Status == "x" and`, `(Status == "x"`, `Status == "x")`,
		`Status in "x"`, `not Status == "x"`, `Status matches "x"`, `Status["x"] == "y"`, `Meta == "x"`, `Status == "x`, `Status == "x" ID == "y"`,
	} {
		if got, err := evaluate(expression, document); got || err == nil {
			t.Errorf("%s = %v, want an error", expression, got)
		}
	}
}
