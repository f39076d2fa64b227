package expr

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Formula is the syntax tree of an expression. It has no dtypes. [Formula.Code] derives a [Code] from it for given
// dtypes of the operands. A Formula is immutable.
type Formula struct {
	text    string
	params  []string
	lets    []let
	results []*node
	isTuple bool // the results are in parentheses
}

// let is a definition of a name: "name = value;".
type let struct {
	name  string
	value *node
	pos   int // position of the name in the text, in characters from 1
}

// node is a node of the syntax tree: a number, a name, an operator or a call.
type node struct {
	kind   nodeKind
	text   string        // the name, operator or function
	num    tensor.Scalar // the value of a number
	args   []*node       // operands
	pos    int           // position in the text, in characters from 1
	height int           // number of levels below the node
}

// nodeKind is the kind of a node of the syntax tree.
type nodeKind uint8

const (
	numberNode nodeKind = iota
	nameNode
	unaryNode
	binaryNode
	callNode
)

// defaultParams are the names of operands if the caller of [Parse] gives none.
var defaultParams = []string{"x", "y", "z", "a", "b", "c", "d", "u", "v", "w"}

// constants are the predefined names of numbers.
var constants = map[string]tensor.Scalar{
	"inf": tensor.FloatScalar(math.Inf(1)), "nan": tensor.FloatScalar(math.NaN()), "pi": tensor.FloatScalar(math.Pi),
	"e": tensor.FloatScalar(math.E), "True": tensor.BoolScalar(true), "False": tensor.BoolScalar(false),
}

// Params returns the names of the operands, in order.
func (f *Formula) Params() []string { return slices.Clone(f.params) }

// Results returns the number of results.
func (f *Formula) Results() int { return len(f.results) }

// Attrs returns the free names of the formula in the order of first use. A free name is neither an operand nor defined
// in the text. [Formula.Code] needs a number for each free name.
func (f *Formula) Attrs() []string {
	var names []string
	defined := map[string]bool{}
	for name := range constants {
		defined[name] = true
	}
	for _, name := range f.params {
		defined[name] = true
	}
	add := func(name string) {
		if !defined[name] {
			defined[name] = true
			names = append(names, name)
		}
	}
	for _, let := range f.lets {
		let.value.eachName(add)
		defined[let.name] = true
	}
	for _, result := range f.results {
		result.eachName(add)
	}
	return names
}

// eachName visits the names in a subtree, in the order of the text.
func (n *node) eachName(visit func(name string)) {
	if n.kind == nameNode {
		visit(n.text)
	}
	for _, operand := range n.args {
		operand.eachName(visit)
	}
}

// usedOperands returns the number of operands of a formula whose operands have the default names params. This number is
// the position, counted from 1, of the last default name that occurs in the formula.
func (f *Formula) usedOperands(params []string) int {
	count := 0
	visit := func(name string) { count = max(count, slices.Index(params, name)+1) }
	for _, let := range f.lets {
		let.value.eachName(visit)
	}
	for _, result := range f.results {
		result.eachName(visit)
	}
	return count
}

// String returns the canonical text, with spaces around operators and without redundant parentheses. [Parse] parses
// this text to the same formula.
func (f *Formula) String() string {
	var text strings.Builder
	for _, let := range f.lets {
		text.WriteString(let.name + " = ")
		let.value.print(&text, 0)
		text.WriteString("; ")
	}
	if f.isTuple {
		text.WriteByte('(')
	}
	for k, result := range f.results {
		if k > 0 {
			text.WriteString(", ")
		}
		result.print(&text, 0)
	}
	if f.isTuple && len(f.results) == 1 {
		text.WriteByte(',')
	}
	if f.isTuple {
		text.WriteByte(')')
	}
	return text.String()
}

// print writes a node. If the node's precedence is below level, print adds parentheses; at level 0 it never does.
func (n *node) print(text *strings.Builder, level int) {
	precedence := n.precedence()
	if precedence < level {
		text.WriteByte('(')
		defer text.WriteByte(')')
	}
	switch n.kind {
	case numberNode:
		text.WriteString(literal(n.num))
	case nameNode:
		text.WriteString(n.text)
	case callNode:
		text.WriteString(n.text + "(")
		for k, operand := range n.args {
			if k > 0 {
				text.WriteString(", ")
			}
			operand.print(text, 0)
		}
		text.WriteByte(')')
	case unaryNode:
		text.WriteString(n.text)
		if n.text == "not" {
			text.WriteByte(' ')
		}
		n.args[0].print(text, precedence)
	case binaryNode:
		left, right := precedence, precedence+1 // x - (y - z) keeps its parentheses
		switch {
		case n.text == "**": // -x and x ** y need no parentheses on the right side
			left, right = powerLevel+1, unaryLevel
		case precedence == compareLevel:
			left++ // comparisons do not chain
		}
		n.args[0].print(text, left)
		text.WriteString(" " + n.text + " ")
		n.args[1].print(text, right)
	}
}

func (n *node) precedence() int {
	switch n.kind {
	case unaryNode:
		if n.text == "not" {
			return notLevel
		}
		return unaryLevel
	case binaryNode:
		if n.text == "**" {
			return powerLevel
		}
		return precedences[n.text]
	}
	return powerLevel + 1
}

// literal returns the text of a number. The text of a float has a point or an exponent, so that it is parsed as a
// float.
func literal(number tensor.Scalar) string {
	switch {
	case number.DType().IsComplex():
		return strconv.FormatFloat(imag(number.Complex()), 'g', -1, 64) + "j"
	case number.DType().IsFloat():
		text := strconv.FormatFloat(number.Float(), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	}
	return strconv.FormatInt(number.Int(), 10)
}

// Error is a mistake in the text of a [Formula].
type Error struct {
	Line   int // from 1
	Column int // character in the line, from 1
	Msg    string
}

// Error returns the position and the message. The position omits line 1, because most texts have one line.
func (e *Error) Error() string { return positionText(e.Line, e.Column) + ": " + e.Msg }

// errorAt returns the error for the character at a position, counted from 1.
func errorAt(text string, position int, msg string) *Error {
	line, column := lineAndColumn(text, position)
	return &Error{line, column, msg}
}

// lineAndColumn returns the line and the column of the character at a position. Line, column and position count from 1.
func lineAndColumn(text string, position int) (line, column int) {
	line, column = 1, 1
	for _, char := range text {
		if position--; position == 0 {
			break
		}
		if column++; char == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}

func positionText(line, column int) string {
	if line == 1 {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// recoverError is deferred. It stores an [*Error] with which the parser or the typer panicked. Other panics continue.
func recoverError(err *error) {
	switch recovered := recover().(type) {
	case nil:
	case *Error:
		*err = recovered
	default:
		panic(recovered)
	}
}
