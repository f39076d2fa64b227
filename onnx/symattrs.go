package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts symbolic sizes to attributes and operands.

// symShape returns the symbolic shape of x. It fails if the rank is unknown. Sizes that depend on data are symbols.
func (n *node) symShape(x *val) []sym.Int {
	n.rank(x)
	return n.shapeOf(x)
}

// sizeAttr returns integers in the form of attributes: []int, or a list with expressions. It fails if an integer
// depends on data.
func (n *node) sizeAttr(list ...sym.Int) any {
	if numbers, ok := numbersOf(list); ok {
		return numbers
	}
	out := make([]any, len(list))
	for i, s := range list {
		var ok bool
		if out[i], ok = n.intAttr(s); !ok {
			n.failf("a size must be known before the graph runs, and it depends on data")
		}
	}
	return out
}

// sizeAttrOf returns a single integer in the form of an attribute. It fails if the integer depends on data.
func (n *node) sizeAttrOf(s sym.Int) any {
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

// numbers returns integers as numbers. It fails if an integer is symbolic. The error uses `name` for the integers.
func (n *node) numbers(name string, list []sym.Int) []int {
	out, ok := numbersOf(list)
	if !ok {
		n.failf("%s must be known before the graph runs: give the model's symbolic sizes (%s)", name, n.symbolNames())
	}
	return out
}

// integer returns an integer as an operand of [node.op]: a number, or a 0-dim value that the graph computes from sizes.
func (n *node) integer(s sym.Int) any {
	if k, known := s.Known(); known {
		return k
	}
	list := []symElement{{numerator: s}}
	return valueOf(&symElements{dtype: tensor.Int64, shape: []int{}, list: list, addToGraph: func() *val {
		attrs := graph.Attrs{"start": n.sizeAttrOf(s), "end": n.sizeAttrOf(s.Add(sym.Of(1))), "dtype": tensor.Int64}
		return n.emit("select", graph.Attrs{"dim": 0, "index": 0}, n.emit("arange", attrs)[0])[0]
	}})
}

// reshapeFor reshapes x to symbolic sizes. At most one size may depend on data.
func (n *node) reshapeFor(x *val, sizes ...sym.Int) *val {
	if numbers, ok := numbersOf(sizes); ok {
		return n.reshape(x, numbers...)
	}
	attr := n.reshapeAttr(sizes)
	if attr == nil {
		n.failf("the shape %s of %q must be known before the graph runs, and it depends on data", tensor.Sizes(sizes), x.name)
	}
	return n.reshapeBy(x, attr)
}

// productOf returns the number of elements of a shape.
func productOf(sizes []sym.Int) sym.Int {
	p := sym.Of(1)
	for _, s := range sizes {
		p = p.Mul(s)
	}
	return p
}

// atMost returns the minimum of x and an integer.
func (n *node) atMost(x *val, limit sym.Int) *val {
	if k, known := limit.Known(); known {
		return n.op("clamp", graph.Attrs{"max": k}, x)
	}
	return n.op("minimum", nil, x, n.integer(limit))
}
