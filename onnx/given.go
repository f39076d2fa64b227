package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file is for sizes as converters compute with them: expressions, which ops are given as attributes and operands.

// form returns the shape of x, whose rank must be known. Of a size that data decide it has a symbol.
func (n *node) form(x *val) []sym.Int {
	n.rank(x)
	return n.shapeOf(x)
}

// sizeAttr returns integers as an attribute has them: numbers, or a list with the expressions among them. Data must not
// decide any.
func (n *node) sizeAttr(list ...sym.Int) any {
	if numbers, ok := numbersOf(list); ok {
		return numbers
	}
	out := make([]any, len(list))
	for i, s := range list {
		var ok bool
		if out[i], ok = n.written(s); !ok {
			n.failf("a size must be known before the graph runs, and it depends on data")
		}
	}
	return out
}

// sizeAttrOne is sizeAttr for a single integer.
func (n *node) sizeAttrOne(s sym.Int) any {
	switch list := n.sizeAttr(s).(type) {
	case []int:
		return list[0]
	case []any:
		return list[0]
	}
	return nil
}

func numbersOf(list []sym.Int) (numbers []int, ok bool) {
	numbers = make([]int, len(list))
	for i, s := range list {
		if numbers[i], ok = s.Known(); !ok {
			return nil, false
		}
	}
	return numbers, true
}

// numbers returns integers that must be numbers.
func (n *node) numbers(what string, list []sym.Int) []int {
	out, ok := numbersOf(list)
	if !ok {
		n.failf("%s must be known before the graph runs: give the model's symbolic sizes (%s)", what, n.symbolNames())
	}
	return out
}

// integer returns an integer as an operand: a number, or a 0-dim value that the graph computes of sizes.
func (n *node) integer(s sym.Int) any {
	if k, known := s.Known(); known {
		return k
	}
	return settled(&entries{dtype: tensor.Int64, shape: []int{}, list: []entry{{n: s}}, make: func() *val {
		attrs := graph.Attrs{"start": n.sizeAttrOne(s), "end": n.sizeAttrOne(s.Add(sym.Of(1))), "dtype": tensor.Int64}
		return n.emit("select", graph.Attrs{"dim": 0, "index": 0}, n.emit("arange", attrs)[0])[0]
	}})
}

// reshapeFor is reshape to sizes that may be unknown, one of which data may decide.
func (n *node) reshapeFor(x *val, sizes ...sym.Int) *val {
	if numbers, ok := numbersOf(sizes); ok {
		return n.reshape(x, numbers...)
	}
	attr := n.sizesWritten(sizes)
	if attr == nil {
		n.failf("the shape %s of %q must be known before the graph runs, and it depends on data", tensor.Sizes(sizes), x.name)
	}
	return n.reshapeBy(x, attr)
}

// productOf is the number of elements of a shape.
func productOf(sizes []sym.Int) sym.Int {
	p := sym.Of(1)
	for _, s := range sizes {
		p = p.Mul(s)
	}
	return p
}

// atMost is x where that is no more than an integer, and the integer elsewhere.
func (n *node) atMost(x *val, most sym.Int) *val {
	if k, known := most.Known(); known {
		return n.op("clamp", graph.Attrs{"max": k}, x)
	}
	return n.op("minimum", nil, x, n.integer(most))
}
