package convert

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts values and symbolic sizes to attributes and operands of ops. An integer of the model is one of
// these:
//   - a number,
//   - an expression over the model's symbols, such as 2*N. An attribute can hold it,
//   - an expression that depends on data. The graph computes it (sizeValue), and an attribute refers to the result
//     ([Node.Reference]).
//
// If an integer depends on data, the methods Try... return false or nil. IntsAttr, IntAttr and NumberAttr take a
// [Value], and then return a reference to it. Value.data has the elements of a constant. Value.elements has the
// elements of a tensor that is computed from sizes, as expressions.
//
// Node.Failf ends the conversion of the node and does not return.

// SizesAttr returns integers in the form of attributes: []int, a list with expressions, or a reference to a vector if
// an integer depends on data.
func (n *Node) SizesAttr(list ...sym.Int) any {
	if numbers, ok := symbolic.Known(list); ok {
		return numbers
	}
	out := make([]any, len(list))
	for i, s := range list {
		var ok bool
		if out[i], ok = n.TrySizeAttr(s); !ok {
			return n.Reference(n.sizeVector(list))
		}
	}
	return out
}

// SizeAttr returns a single integer in the form of an attribute.
func (n *Node) SizeAttr(s sym.Int) any {
	if attr, ok := n.TrySizeAttr(s); ok {
		return attr
	}
	return n.Reference(n.sizeValue(s))
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
	return n.sizeValue(s)
}

// sizeVector returns integers as a vector of int64.
func (n *Node) sizeVector(list []sym.Int) *Value {
	elements := make([]any, len(list))
	for i, s := range list {
		elements[i] = n.Reshape(n.sizeValue(s), 1)
	}
	return n.Op("cat", nil, elements...).WithSizes(tensor.Int64, len(list))
}

// sizeValue returns an integer as a 0-dim int64 value. The graph computes an expression over the symbols of inputs as
// the only element of arange(s, s+1). It computes an expression that depends on data from the values of its symbols.
func (n *Node) sizeValue(s sym.Int) *Value {
	if _, ok := n.TrySizeAttr(s); ok {
		scalarShape := []int{}
		return computedValue(symbolic.Ints(scalarShape, s), func() *Value {
			attrs := graph.Attrs{"start": n.SizeAttr(s), "end": n.SizeAttr(s.Add(sym.Of(1))), "dtype": tensor.Int64}
			return n.Emit("select", graph.Attrs{"dim": 0, "index": 0}, n.Emit("arange", attrs)[0])[0]
		})
	}
	value, err := sym.Translate(s, sym.Arithmetic[*Value]{Number: scalarInt, Symbol: n.symbolValue, Apply: n.sizeFunction})
	if err != nil {
		n.Failf("a size must be known before the graph runs, and it depends on data: %w", err)
	}
	return value
}

// sizeFunction applies a function of [sym.Arithmetic].
func (n *Node) sizeFunction(function string, operands ...*Value) *Value {
	attrs, list := graph.Attrs(nil), make([]any, len(operands))
	for i, operand := range operands {
		list[i] = operand
	}
	op, dtype := function, tensor.Int64
	switch function {
	case "floor_div":
		op, attrs = "div", graph.Attrs{"rounding_mode": "floor"}
	case "mod":
		op = "remainder"
	case "max", "min":
		op += "imum"
	case "eq", "ne", "ge":
		list, dtype = append(list, 0), tensor.Bool
	case "and", "or":
		op, dtype = "logical_"+op, tensor.Bool
	}
	return n.Op(op, attrs, list...).WithType(dtype, 0)
}

// symbolValue returns a symbol as a 0-dim value: a symbol of inputs, a size of a value, or an element of a vector.
func (n *Node) symbolValue(name string) (*Value, error) {
	if s, ok := n.symbols.Inputs()[name]; ok {
		return n.sizeValue(s), nil
	}
	x, index, err := n.symbolSource(name)
	if err != nil {
		return nil, err
	}
	return n.Emit("select", graph.Attrs{"dim": 0, "index": index}, x)[0].WithType(tensor.Int64, 0), nil
}

// symbolElement is an element of a value, in row-major order.
type symbolElement struct {
	value *Value
	index int
}

// symbolSource returns a vector of the graph that has a symbol that depends on data as an element. Symbols of an
// enclosing graph are found there.
func (im *importer) symbolSource(name string) (vector *Value, index int, err error) {
	n := &Node{importer: im, proto: &pb.NodeProto{}}
	if source, ok := im.symbolElements[name]; ok {
		vector = n.Emit("reshape", graph.Attrs{"shape": []int{-1}}, source.value)[0]
		return vector.WithType(tensor.Int64, 1), source.index, nil
	}
	var source *graph.Value
	im.graph.Values(func(v *graph.Value) {
		isSymbol := func(size sym.Int) bool { return size.String() == name }
		if dim := slices.IndexFunc(im.shapes[v], isSymbol); dim >= 0 && source == nil {
			source, index = v, dim
		}
	})
	switch {
	case source != nil:
		return n.Emit("_shape_as_tensor", nil, FromGraph(source))[0].WithType(tensor.Int64, 1), index, nil
	case im.outer == nil:
		return nil, 0, fmt.Errorf("no value has the size %s", name)
	}
	vector, index, err = im.outer.symbolSource(name)
	if err == nil {
		vector, err = im.capture(vector)
	}
	return vector, index, err
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
	n.checkIntegers(x)
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
	n.checkIntegers(x)
	if x.data != nil {
		return SaturatedInt(n.Number(x).Int())
	}
	if list := n.TryIntsAttr(x); len(list) == 1 {
		return list[0]
	}
	return n.Reference(x)
}

// checkIntegers rejects floats where integers are needed.
func (n *Node) checkIntegers(x *Value) {
	if x.DType().IsFloat() {
		n.Failf("%q holds %v, want integers", x.name, x.DType())
	}
}

// NumberAttr returns a single number of any dtype as an attribute: a number, an expression, or a reference to the
// value.
func (n *Node) NumberAttr(x *Value) any {
	switch {
	case !x.DType().IsFloat():
		return n.IntAttr(x)
	case x.data != nil:
		return n.Number(x).Float()
	}
	return n.Reference(x)
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
