package convert

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts values and symbolic sizes to attributes and operands of ops. An integer of the model is one of
// these:
//   - a number,
//   - an expression over the model's symbols, such as 2*N. An attribute can hold it,
//   - a value that depends on data. An attribute can only refer to it ([Node.Reference]).
//
// If an integer depends on data, SizesAttr and SizeAttr fail, and the methods Try... return false or nil. IntsAttr,
// IntAttr and NumberAttr take a [Value], and then return a reference to it. Value.data has the elements of a constant.
// Value.elements has the elements of a tensor that is computed from sizes, as expressions.
//
// Node.Failf ends the conversion of the node and does not return.

// SizesAttr returns integers in the form of attributes: []int, or a list with expressions. It fails if an integer
// depends on data.
func (n *Node) SizesAttr(list ...sym.Int) any {
	if numbers, ok := symbolic.Known(list); ok {
		return numbers
	}
	out := make([]any, len(list))
	for i, s := range list {
		var ok bool
		if out[i], ok = n.TrySizeAttr(s); !ok {
			n.Failf("a size must be known before the graph runs, and it depends on data")
		}
	}
	return out
}

// SizeAttr returns a single integer in the form of an attribute. It fails if the integer depends on data.
func (n *Node) SizeAttr(s sym.Int) any {
	switch list := n.SizesAttr(s).(type) {
	case []int:
		return list[0]
	case []any:
		return list[0]
	}
	return nil
}

// KnownNumbers returns integers as numbers. It fails if an integer is symbolic. name describes the integers in the
// error.
func (n *Node) KnownNumbers(name string, list []sym.Int) []int {
	out, ok := symbolic.Known(list)
	if !ok {
		n.Failf("%s must be known before the graph runs: give the model's symbolic sizes (%s)", name, n.symbolNames())
	}
	return out
}

// SizeOperand returns an integer as an operand of [Node.Op]. The operand is a number, or a 0-dim value that the graph
// computes from sizes.
func (n *Node) SizeOperand(s sym.Int) any {
	if number, known := s.Known(); known {
		return number
	}
	// The value has the expression s as its element. The graph computes the value as the only element of arange(s,
	// s+1).
	scalarShape := []int{}
	return computedValue(symbolic.Ints(scalarShape, s), func() *Value {
		attrs := graph.Attrs{"start": n.SizeAttr(s), "end": n.SizeAttr(s.Add(sym.Of(1))), "dtype": tensor.Int64}
		return n.Emit("select", graph.Attrs{"dim": 0, "index": 0}, n.Emit("arange", attrs)[0])[0]
	})
}

// ShapeAttr returns a shape as an attribute of reshape. A size that depends on data becomes -1. The result is nil if
// several sizes depend on data, or if another size may be 0, so that -1 would be ambiguous.
func (n *Node) ShapeAttr(list []sym.Int) []any {
	attr, unknownCount := make([]any, len(list)), 0
	for i, size := range list {
		var ok bool
		if attr[i], ok = n.TrySizeAttr(size); !ok {
			attr[i] = -1
		}
		if attr[i] == -1 {
			unknownCount++
		}
	}
	if unknownCount > 1 {
		return nil
	}
	// reshape computes a -1 as the number of elements divided by the product of the other sizes. So the other sizes
	// must be known to be positive. A -1 from the model needs no such check.
	if unknownCount == 1 && !slices.ContainsFunc(list, symbolic.IsMinusOne) {
		for i, size := range list {
			if attr[i] != -1 && !symbolic.Positive(size) {
				return nil
			}
		}
	}
	return attr
}

// Number returns the only element of a constant.
func (n *Node) Number(x *Value) tensor.Scalar {
	if x.data == nil {
		n.Failf("%q must be known before the graph runs", x.name)
	}
	s, ok := scalarOf(x.data)
	if !ok {
		n.Failf("%q must have one element, it has shape %s", x.name, tensor.ListString(x.data.Shape))
	}
	return s
}

// IntsAttr returns a vector of integers as an attribute: a list of numbers and expressions, or a reference to the
// value.
func (n *Node) IntsAttr(x *Value) any {
	if x.data != nil {
		return IntsOf(x.data)
	}
	if list := n.TryIntsAttr(x); list != nil {
		return list
	}
	return n.Reference(x)
}

// TryIntsAttr returns integers in the form of attributes: numbers and expressions. It returns nil if an integer depends
// on data.
func (n *Node) TryIntsAttr(x *Value) []any {
	integers := x.elements.Integers()
	if integers == nil {
		return nil
	}
	list := make([]any, len(integers))
	for i, integer := range integers {
		var ok bool
		if list[i], ok = n.TrySizeAttr(integer); !ok {
			return nil
		}
	}
	return list
}

// IntAttr returns a single integer as an attribute: a number, an expression, or a reference to the value.
func (n *Node) IntAttr(x *Value) any {
	if x.data != nil {
		return SaturatedInt(n.Number(x).Int())
	}
	if list := n.TryIntsAttr(x); len(list) == 1 {
		return list[0]
	}
	return n.Reference(x)
}

// NumberAttr returns a single number of any dtype as an attribute: a number, an expression, or a reference to the
// value.
func (n *Node) NumberAttr(x *Value) any {
	if x.data != nil && x.DType().IsFloat() {
		return n.Number(x).Float()
	}
	return n.IntAttr(x)
}

// ConstantInts returns the integers of operand i, which must be constant.
func (n *Node) ConstantInts(i int) []int {
	x := n.Operand(i)
	if x.data == nil {
		n.Failf("operand %d (%q) must be known before the graph runs", i, x.name)
	}
	if !x.DType().IsIntegral(true) {
		n.Failf("operand %d (%q) holds %v, want integers", i, x.name, x.DType())
	}
	if x.data.Numel() > FoldLimit {
		n.Failf("operand %d (%q) has %d elements, want at most %d", i, x.name, x.data.Numel(), FoldLimit)
	}
	return IntsOf(x.data)
}
