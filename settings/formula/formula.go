// Package formula evaluates arithmetic expressions over the values of metrics. Expressions have no
// loops, arrays or text, so that their cost is bounded by their length.
package formula

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

const (
	maxLength = 1000
	maxNodes  = 200
)

// functions lists what a formula may call.
var functions = []string{"abs", "ceil", "floor", "max", "min", "round"}

// quotient is the function that replaces the operator "/", so that a division by zero is an error.
const quotient = "quotient"

var errDivision = errors.New("division by zero")

// Formula is a parsed expression. It is not modified after [Parse].
type Formula struct {
	names   []string
	program *vm.Program
}

// Parse parses an expression whose names are metrics. The error is a sentence without the
// expression.
func Parse(text string) (*Formula, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("must have at most %d bytes", maxLength)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, brief(err)
	}
	var found checker
	ast.Walk(&tree.Node, &found)
	if found.err != nil {
		return nil, found.err
	}
	values := map[string]float64{}
	for _, name := range found.names {
		values[name] = 0
	}
	options := []expr.Option{
		expr.Env(values), expr.AsFloat64(), expr.MaxNodes(maxNodes), expr.Optimize(false), expr.Patch(patcher{}), expr.DisableAllBuiltins(),
		expr.Function(quotient, divide, new(func(float64, float64) float64)),
	}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if err != nil {
		return nil, brief(err)
	}
	return &Formula{names: found.names, program: program}, nil
}

// Names returns the metrics in the formula, each once, in the order of their first use.
func (f *Formula) Names() []string { return f.names }

// Evaluate computes the formula. It returns an error for a division by zero and for a result that
// is not finite. values must contain all [Formula.Names].
func (f *Formula) Evaluate(values map[string]float64) (float64, error) {
	result, err := expr.Run(f.program, values)
	if errors.Is(err, errDivision) {
		return 0, errDivision
	}
	if err != nil {
		return 0, brief(err)
	}
	number, ok := result.(float64)
	if !ok || math.IsNaN(number) || math.IsInf(number, 0) {
		return 0, fmt.Errorf("the result is %v", result)
	}
	return number, nil
}

// brief returns an error of package expr without its copy of the expression.
func brief(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if failed, ok := errors.AsType[*file.Error](err); ok {
		text = failed.Message
	}
	switch {
	case strings.HasPrefix(text, "expected float64"):
		text = "must be a number: use CONDITION ? NUMBER : NUMBER"
	case strings.HasPrefix(text, "invalid integer literal"), text == "integer literal is too large":
		text = "contains an integer that does not fit 64 bits: write it as a decimal number, such as 1e20"
	case text == "unexpected token EOF":
		text = "is incomplete: add the missing metric, number or parenthesis at its end"
	}
	return errors.New(text)
}

func divide(parameters ...any) (any, error) {
	dividend, divisor := float(parameters[0]), float(parameters[1])
	if divisor == 0 {
		return nil, errDivision
	}
	return dividend / divisor, nil
}

func float(value any) float64 {
	number, _ := value.(float64) // the type checker allows only numbers, and the patcher only floats
	return number
}

type patcher struct{}

// Visit replaces a division and an integer, because products and sums of integers wrap.
func (patcher) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode:
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	case *ast.BinaryNode:
		if n.Operator == "/" {
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: quotient}, Arguments: []ast.Node{n.Left, n.Right}})
		}
	}
}

// checker collects the names of an expression and the first part that is not allowed.
type checker struct {
	names []string
	err   error
}

var operators = []string{"+", "-", "*", "/", "**", "^", "==", "!=", "<", "<=", ">", ">=", "and", "&&", "or", "||", "not", "!"}

// Visit checks one node.
func (c *checker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.ConditionalNode:
	case *ast.IdentifierNode:
		if !slices.Contains(c.names, n.Value) {
			c.names = append(c.names, n.Value)
		}
	case *ast.UnaryNode:
		c.operator(n.Operator)
	case *ast.BinaryNode:
		c.operator(n.Operator)
		if divisor, ok := constant(n.Right); ok && divisor == 0 && n.Operator == "/" {
			c.fail("divides by zero (" + n.Right.String() + ")")
		}
	case *ast.BuiltinNode:
		c.function(n)
	case *ast.CallNode:
		c.fail(n.Callee.String() + " is not a function; the functions are " + strings.Join(functions, ", "))
	default:
		c.fail("must consist of metrics, numbers, operators and the functions " + strings.Join(functions, ", "))
	}
}

func (c *checker) operator(name string) {
	if !slices.Contains(operators, name) {
		c.fail("contains the operator " + name + ", which is not supported")
	}
}

func (c *checker) function(call *ast.BuiltinNode) {
	switch name := call.Name; {
	case !slices.Contains(functions, name):
		c.fail(name + " is not a function; the functions are " + strings.Join(functions, ", "))
	case len(call.Arguments) != 1 && name != "max" && name != "min":
		c.fail(name + " takes one argument")
	}
}

func (c *checker) fail(detail string) {
	if c.err == nil {
		c.err = errors.New(detail)
	}
}

// constant returns the value of an expression of numbers and the operators +, - and *.
func constant(node ast.Node) (value float64, ok bool) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return float64(n.Value), true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.UnaryNode:
		value, ok = constant(n.Node)
		if n.Operator == "-" {
			value = -value
		}
		return value, ok && (n.Operator == "-" || n.Operator == "+")
	case *ast.BinaryNode:
		left, leftOK := constant(n.Left)
		right, rightOK := constant(n.Right)
		ok = leftOK && rightOK
		switch n.Operator {
		case "+":
			return left + right, ok
		case "-":
			return left - right, ok
		case "*":
			return left * right, ok
		}
	}
	return 0, false
}
