package expr

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Error is a mistake in the text of a [Formula].
type Error struct {
	Line   int // from 1
	Column int // in the line, in characters from 1
	Msg    string
}

// Error returns the place and the message. The first line is not named: most texts have no other.
func (e *Error) Error() string { return placeOf(e.Line, e.Column) + ": " + e.Msg }

func placeOf(line, column int) string {
	if line == 1 {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// located returns line and column of a character of a text, which is counted from 1.
func located(text string, at int) (line, column int) {
	line, column = 1, 1
	for _, r := range text {
		if at--; at == 0 {
			break
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}

// mistake makes the error of a character of a text.
func mistake(text string, at int, msg string) *Error {
	line, column := located(text, at)
	return &Error{line, column, msg}
}

// Formula is an expression as people write it, parsed and not yet typed: which dtypes its operands have is told by
// [Formula.Code]. It is immutable.
type Formula struct {
	text    string
	params  []string
	lets    []let
	results []*node
	tuple   bool // the results are in parentheses
}

// let names a value: name = value;
type let struct {
	name  string
	value *node
	col   int
}

// node is a number, a name, an operator or a call.
type node struct {
	kind  nodeKind
	text  string // the name, the operator, the function
	num   tensor.Scalar
	args  []*node
	col   int
	depth int
}

type nodeKind uint8

const (
	numberNode nodeKind = iota
	nameNode
	unaryNode
	binaryNode
	callNode
)

// defaultParams are the names of operands where none are given.
var defaultParams = []string{"x", "y", "z", "a", "b", "c", "d", "u", "v", "w"}

// constants are the names of numbers.
var constants = map[string]tensor.Scalar{
	"inf": tensor.FloatScalar(math.Inf(1)), "nan": tensor.FloatScalar(math.NaN()), "pi": tensor.FloatScalar(math.Pi),
	"e": tensor.FloatScalar(math.E), "True": tensor.BoolScalar(true), "False": tensor.BoolScalar(false),
}

// Params returns the names of the operands, in order.
func (f *Formula) Params() []string { return slices.Clone(f.params) }

// Results returns the number of results.
func (f *Formula) Results() int { return len(f.results) }

// Attrs returns the names that are neither operands nor defined by the formula, in the order in which they are first
// used: the numbers that [Formula.Code] must be given.
func (f *Formula) Attrs() []string {
	var names []string
	defined := map[string]bool{}
	for name := range constants {
		defined[name] = true
	}
	for _, name := range f.params {
		defined[name] = true
	}
	var walk func(n *node)
	walk = func(n *node) {
		if n.kind == nameNode && !defined[n.text] {
			defined[n.text] = true
			names = append(names, n.text)
		}
		for _, a := range n.args {
			walk(a)
		}
	}
	for _, l := range f.lets {
		walk(l.value)
		defined[l.name] = true
	}
	for _, r := range f.results {
		walk(r)
	}
	return names
}

// uses returns how many operands the formula has where it was parsed without names of them: up to the last of
// x, y, z, a, b, c, d, u, v, w that it names.
func (f *Formula) uses(params []string) int {
	most := 0
	var walk func(n *node)
	walk = func(n *node) {
		if n.kind == nameNode {
			most = max(most, slices.Index(params, n.text)+1)
		}
		for _, a := range n.args {
			walk(a)
		}
	}
	for _, l := range f.lets {
		walk(l.value)
	}
	for _, r := range f.results {
		walk(r)
	}
	return most
}

// String returns the canonical text, which parses to the same formula: spaces around operators, and no parentheses
// that are not needed.
func (f *Formula) String() string {
	var b strings.Builder
	for _, l := range f.lets {
		b.WriteString(l.name + " = ")
		l.value.print(&b, 0)
		b.WriteString("; ")
	}
	if f.tuple {
		b.WriteByte('(')
	}
	for k, r := range f.results {
		if k > 0 {
			b.WriteString(", ")
		}
		r.print(&b, 0)
	}
	if f.tuple && len(f.results) == 1 {
		b.WriteByte(',')
	}
	if f.tuple {
		b.WriteByte(')')
	}
	return b.String()
}

// print writes a node where operators that bind less than level need parentheses.
func (n *node) print(b *strings.Builder, level int) {
	own := n.binds()
	if own < level {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	switch n.kind {
	case numberNode:
		b.WriteString(literal(n.num))
	case nameNode:
		b.WriteString(n.text)
	case callNode:
		b.WriteString(n.text + "(")
		for k, a := range n.args {
			if k > 0 {
				b.WriteString(", ")
			}
			a.print(b, 0)
		}
		b.WriteByte(')')
	case unaryNode:
		b.WriteString(n.text)
		if n.text == "not" {
			b.WriteByte(' ')
		}
		n.args[0].print(b, own)
	case binaryNode:
		left, right := own, own+1
		switch {
		case n.text == "**":
			left, right = powerLevel+1, unaryLevel
		case own == compareLevel:
			left++ // comparisons do not chain
		}
		n.args[0].print(b, left)
		b.WriteString(" " + n.text + " ")
		n.args[1].print(b, right)
	}
}

// binds is how strongly the operator of a node binds.
func (n *node) binds() int {
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
		return levels[n.text]
	}
	return powerLevel + 1
}

// literal writes a number so that it is read as the same: a float has a point or an exponent.
func literal(s tensor.Scalar) string {
	switch {
	case s.DType().IsComplex():
		return strconv.FormatFloat(imag(s.Complex()), 'g', -1, 64) + "j"
	case s.DType().IsFloat():
		t := strconv.FormatFloat(s.Float(), 'g', -1, 64)
		if !strings.ContainsAny(t, ".e") {
			t += ".0"
		}
		return t
	}
	return strconv.FormatInt(s.Int(), 10)
}
