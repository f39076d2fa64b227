package convert

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file applies an op to tensors with symbolic elements, such as the shape [N, 3, H, W] of an image. An op that
// only selects elements is evaluated on the positions of the elements ([computation.evalSelection]). For example, a
// slice of the last two elements gives [H, W]. For any other op, the op's expression is evaluated on the elements
// ([symbolic.Symbols.Evaluate]). For example, mul of [H, W] by 2 gives [2*H, 2*W].

// computation is one application of an op to symbolic elements.
type computation struct {
	node     *Node
	op       *graph.Op
	attrs    graph.Attrs
	operands []any              // as for [Node.Op]
	in       []*symbolic.Tensor // the elements of each operand; nil for an omitted operand
	call     *graph.Call
	out      []graph.Result // the inferred results
}

// applySymbolic applies an op to symbolic elements. It returns nil if an element of the results has no symbolic form.
func (n *Node) applySymbolic(op *graph.Op, attrs graph.Attrs, operands []any) []*Value {
	if !slices.ContainsFunc(operands, isComputed) {
		return nil
	}
	computed := &computation{node: n, op: op, attrs: attrs, operands: operands,
		in: make([]*symbolic.Tensor, len(operands))}
	args := make([]graph.Arg, len(operands))
	for i, operand := range operands {
		if isOmitted(operand) {
			continue
		}
		elements := n.operandElements(op, i, operand)
		if elements == nil {
			return nil
		}
		computed.in[i], args[i] = elements, argOf(operand, elements)
	}
	var results []graph.Result
	if computed.call, results = n.inferCall(op, attrs, args); results == nil {
		return nil
	}
	for _, r := range results {
		if r.Dynamic || r.Meta().Numel() > symbolic.MaxElements {
			return nil
		}
	}
	computed.out = slices.Clone(results)
	if computed.isSelection() {
		return computed.results(computed.evalSelection())
	}
	return computed.results(n.symbols.Evaluate(op, computed.call, computed.in, computed.out))
}

// isOmitted reports whether an operand is omitted: nil or a nil *Value.
func isOmitted(operand any) bool {
	x, ok := operand.(*Value)
	return operand == nil || ok && x == nil
}

// argOf returns an operand as an argument for inference: a number, or a tensor with the type of the elements.
func argOf(operand any, elements *symbolic.Tensor) graph.Arg {
	if number, ok := tensor.ScalarOf(operand); ok {
		return graph.Arg{Kind: graph.NumberArg, Number: number}
	}
	meta := tensor.New(elements.DType, elements.Shape...)
	return graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: "operand", Meta: meta, Type: meta.Type()}}
}

// isComputed reports whether an operand has symbolic elements.
func isComputed(operand any) bool {
	x, ok := operand.(*Value)
	return ok && x != nil && x.elements != nil
}

// operandElements returns the elements of operand i of an op, or nil if the elements are unknown. Indices must be
// constant. Elements may depend on data if the op only selects elements.
func (n *Node) operandElements(op *graph.Op, i int, operand any) *symbolic.Tensor {
	x, ok := operand.(*Value)
	switch {
	case !ok:
		number, isNumber := tensor.ScalarOf(operand)
		if !isNumber {
			return nil
		}
		return symbolic.FromData(number.Tensor(number.DType()))
	case isIndex(op, i) && x.data == nil:
		return nil
	}
	newSymbols := op.SelectsElements || op.Fills || op.Kind == graph.View // for elements that depend on data
	return n.elementsOf(x, newSymbols)
}

// isIndex reports whether the elements of operand i of an op are indices.
func isIndex(op *graph.Op, i int) bool {
	return len(op.Params) > 0 && op.Params[min(i, len(op.Params)-1)].IndexBound != nil
}

// isSelection reports whether each element of the results is an element of an operand or a constant. SelectsElements
// and the other names are facts of ops. The results of an op with SelectsElements have only elements of operands. The
// results of an op with Fills also have constants. The result of an op with Identity is the operand, possibly converted
// to another dtype. The result of an op with ReadsStorage depends on strides.
func (c *computation) isSelection() bool {
	if c.op.SelectsElements || c.op.Fills {
		return true
	}
	hasNewElements := func(r graph.Result) bool {
		isViewOrCopy := r.Alias >= 0 || c.op.Identity
		return !isViewOrCopy || r.Type.DType != c.call.Type(0).DType
	}
	return !c.op.ReadsStorage && !slices.ContainsFunc(c.out, hasNewElements)
}

// evalSelection evaluates an op that selects elements. It runs the op twice on tensors of positions. In the first run,
// each element of the operands is replaced by its position among all elements of all operands. In the second run, each
// element is replaced by this position plus shift. If an element of the results differs by shift between the runs, it
// is a position, and stands for the operand element at this position. If it is the same in both runs, it is a constant
// of the op.
//
// For example, padding [N, H] by a 1 at the end gives [0, 1, 1] in the first run, and [shift, shift+1, 1] in the
// second. The first two elements are positions, and the last element is a constant. Thus the result is [N, H, 1].
func (c *computation) evalSelection() [][]symbolic.Element {
	const shift = min(1<<40, math.MaxInt/2) // greater than any position
	var allElements []symbolic.Element
	dtype := tensor.Invalid // the dtype of all elements; Invalid before the first
	positions, shiftedPositions := make([]any, len(c.in)), make([]any, len(c.in))
	for i, elements := range c.in {
		switch {
		case elements == nil:
		case isIndex(c.op, i):
			positions[i], shiftedPositions[i] = c.operands[i], c.operands[i]
		case dtype != tensor.Invalid && dtype != elements.DType:
			return nil // the op converts elements
		default:
			dtype = elements.DType
			positions[i], shiftedPositions[i] = countFrom(len(allElements), elements.Shape),
				countFrom(len(allElements)+shift, elements.Shape)
			allElements = append(allElements, elements.Elements...)
		}
	}
	results := c.node.foldConstants(c.op, c.attrs, positions)
	shiftedResults := c.node.foldConstants(c.op, c.attrs, shiftedPositions)
	if results == nil || shiftedResults == nil {
		return nil
	}
	lists := make([][]symbolic.Element, len(c.out))
	for i := range c.out {
		resultDType, data := c.out[i].Type.DType, results[i].data // data is int64 if it has positions
		constants := symbolic.FromData(data)
		for k := range data.Numel() {
			index := symbolic.IndexAt(data.Shape, k)
			position, shifted := data.At(index...).Int(), shiftedResults[i].data.At(index...).Int()
			switch {
			case shifted == position+shift && resultDType == dtype: // a position
				lists[i] = append(lists[i], allElements[position])
			case shifted == position && resultDType == data.DType && constants != nil: // a constant of the op
				lists[i] = append(lists[i], constants.Elements[k])
			default:
				return nil
			}
		}
	}
	return lists
}

// countFrom returns a constant with the numbers first, first+1, ... in row-major order.
func countFrom(first int, shape []int) *Value {
	t := tensor.Zeros(tensor.Int64, shape...)
	for k := range t.Numel() {
		t.SetFlat(k, tensor.IntScalar(int64(first+k)))
	}
	return Constant(t)
}

// results returns the results of the op as values. lists has the elements of each result. The op is added to the graph
// only if the graph needs one of these values.
func (c *computation) results(lists [][]symbolic.Element) []*Value {
	if len(lists) != len(c.out) {
		return nil
	}
	var emitted []*Value
	out := make([]*Value, len(lists))
	for i, list := range lists {
		meta := c.out[i].Meta()
		elements := &symbolic.Tensor{DType: meta.DType, Shape: meta.Shape, Elements: list}
		out[i] = computedValue(elements, func() *Value {
			if emitted == nil {
				emitted = c.node.Emit(c.op.Name, c.attrs, c.operands...)
			}
			return emitted[i].WithSizes(meta.DType, meta.Shape...)
		})
	}
	return out
}

// elementsOf returns the elements of a tensor as expressions, or nil if an element has no expression. If newSymbols is
// true, each integer that depends on data becomes a new symbol.
func (n *Node) elementsOf(x *Value, newSymbols bool) *symbolic.Tensor {
	hasSymbolicDType := func() bool {
		const withBool = true
		return x.DType().IsIntegral(withBool) || x.DType() == tensor.Float32 || x.DType() == tensor.Float64
	}
	switch {
	case x.elements != nil:
		return x.elements
	case x.kind != tensorKind || !hasSymbolicDType():
		return nil
	case x.data != nil:
		return symbolic.FromData(x.data)
	case !newSymbols || x.DType() != tensor.Int64 || !n.IsStatic(x) || x.Meta().Numel() > symbolic.MaxElements:
		return nil
	}
	list := make([]sym.Int, x.Meta().Numel())
	for i := range list {
		list[i] = n.symbols.NewUnknown(math.MinInt) // without a lower bound
		n.symbolElements[list[i].String()] = symbolElement{FromGraph(x.graphValue), i}
	}
	existing := func() *Value { return x } // the graph has x already
	x.elements, x.addToGraph = symbolic.Ints(x.Meta().Shape, list...), existing
	return x.elements
}

// Integers returns the elements of an integer tensor as expressions. It returns nil if an element has no expression.
func (n *Node) Integers(x *Value) []sym.Int {
	const newSymbols = false
	return n.elementsOf(x, newSymbols).Integers()
}
