package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file applies an op to tensors with symbolic elements. An op that only selects elements is evaluated on the
// positions of the elements ([computation.evalSelection]). For any other op, the op's expression is evaluated on the
// elements ([computation.evalExpression]).

// computation is one application of an op to symbolic elements.
type computation struct {
	node     *node
	op       *graph.Op
	attrs    graph.Attrs
	operands []any          // as for node.op
	in       []*symElements // the elements of each operand; nil for an omitted operand
	call     *graph.Call
	out      []graph.Result // the inferred results
}

// applySymbolic applies an op to symbolic elements. It returns nil if an element of the results has no symbolic form.
func (n *node) applySymbolic(op *graph.Op, attrs graph.Attrs, operands []any) []*val {
	if !slices.ContainsFunc(operands, isComputed) {
		return nil
	}
	computed := &computation{node: n, op: op, attrs: attrs, operands: operands,
		in: make([]*symElements, len(operands))}
	args := make([]graph.Arg, len(operands))
	for i, operand := range operands {
		if x, ok := operand.(*val); operand == nil || ok && x == nil {
			continue
		}
		if computed.in[i] = n.operandElements(op, i, operand); computed.in[i] == nil {
			return nil
		}
		meta := tensor.New(computed.in[i].dtype, computed.in[i].shape...)
		args[i] = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: "operand", Meta: meta, Type: meta.Type()}}
		if s, ok := tensor.ScalarOf(operand); ok {
			args[i] = graph.Arg{Kind: graph.NumberArg, Number: s}
		}
	}
	var res []graph.Result
	if computed.call, res = n.inferCall(op, attrs, args); res == nil {
		return nil
	}
	for _, r := range res {
		if r.Dynamic || r.Meta().Numel() > maxElements {
			return nil
		}
	}
	computed.out = slices.Clone(res)
	if computed.isSelection() {
		return computed.results(computed.evalSelection())
	}
	return computed.results(computed.evalExpression())
}

// isComputed reports whether an operand has symbolic elements.
func isComputed(a any) bool {
	x, ok := a.(*val)
	return ok && x != nil && x.elements != nil
}

// operandElements returns the elements of operand a with index i, or nil if the elements are unknown. Indices must be
// constant. Elements may depend on data if the op only selects elements.
func (n *node) operandElements(op *graph.Op, i int, a any) *symElements {
	x, ok := a.(*val)
	switch {
	case !ok:
		s, number := tensor.ScalarOf(a)
		if !number {
			return nil
		}
		return elementsOfData(s.Tensor(s.DType()))
	case isIndex(op, i) && x.data == nil:
		return nil
	}
	return n.elementsOf(x, op.SelectsElements || op.Fills || op.Kind == graph.View)
}

// isIndex reports whether the elements of operand i of an op are indices.
func isIndex(op *graph.Op, i int) bool {
	return len(op.Params) > 0 && op.Params[min(i, len(op.Params)-1)].Below != nil
}

// results returns the results of the op as values: lists has the elements of each result. The op is added to the graph
// only if the graph needs a value.
func (c *computation) results(lists [][]symElement) []*val {
	if len(lists) != len(c.out) {
		return nil
	}
	var emitted []*val
	out := make([]*val, len(lists))
	for i, list := range lists {
		meta := c.out[i].Meta()
		out[i] = valueOf(&symElements{dtype: meta.DType, shape: meta.Shape, list: list, addToGraph: func() *val {
			if emitted == nil {
				emitted = c.node.emit(c.op.Name, c.attrs, c.operands...)
			}
			return emitted[i].withSizes(meta.DType, meta.Shape...)
		}})
	}
	return out
}

// isSelection reports whether each element of the results is an element of an operand or a constant.
func (c *computation) isSelection() bool {
	computes := func(r graph.Result) bool {
		return r.Alias < 0 && !c.op.Identity || r.Type.DType != c.call.Type(0).DType
	}
	return c.op.SelectsElements || c.op.Fills || !c.op.ReadsStorage && !slices.ContainsFunc(c.out, computes)
}

// evalSelection evaluates an op that selects elements. It runs the op twice on tensors of positions. In the first run,
// each element of the operands is replaced by its position. In the second run, it is replaced by its position plus
// shift. A result that differs by shift is a position, and selects the element there. A result that is the same in both
// runs is a constant of the op.
func (c *computation) evalSelection() [][]symElement {
	const shift = min(1<<40, math.MaxInt/2)
	var all []symElement
	dtype := tensor.Invalid
	positions, shiftedPositions := make([]any, len(c.in)), make([]any, len(c.in))
	for i, elements := range c.in {
		switch {
		case elements == nil:
		case isIndex(c.op, i):
			positions[i], shiftedPositions[i] = c.operands[i], c.operands[i]
		case dtype != tensor.Invalid && dtype != elements.dtype:
			return nil // the op converts elements
		default:
			dtype = elements.dtype
			positions[i], shiftedPositions[i] = countFrom(len(all), elements.shape),
				countFrom(len(all)+shift, elements.shape)
			all = append(all, elements.list...)
		}
	}
	results := c.node.foldConstants(c.op, c.attrs, positions)
	shiftedResults := c.node.foldConstants(c.op, c.attrs, shiftedPositions)
	if results == nil || shiftedResults == nil {
		return nil
	}
	lists := make([][]symElement, len(c.out))
	for i := range c.out {
		elementType, data := c.out[i].Type.DType, results[i].data
		constants := elementsOfData(data)
		for k := range data.Numel() {
			index := indexAt(data.Shape, k)
			p, q := data.At(index...).Int(), shiftedResults[i].data.At(index...).Int()
			switch {
			case q == p+shift && elementType == dtype:
				lists[i] = append(lists[i], all[p])
			case q == p && elementType == data.DType && constants != nil:
				lists[i] = append(lists[i], constants.list[k])
			default:
				return nil
			}
		}
	}
	return lists
}

// countFrom returns a constant with the numbers first, first+1, ... in row-major order.
func countFrom(first int, shape []int) *val {
	t := tensor.Zeros(tensor.Int64, shape...)
	for k := range t.Numel() {
		t.SetFlat(k, tensor.IntScalar(int64(first+k)))
	}
	return constValue(t)
}

// evalExpression computes the results by the op's expression, which is the expression of one element or of a row.
func (c *computation) evalExpression() [][]symElement {
	in := slices.DeleteFunc(slices.Clone(c.in), func(e *symElements) bool { return e == nil })
	folded := make([]bool, len(c.out[0].Type.Shape))
	row := slices.Repeat([]int{1}, len(folded)) // the shape of a row: size 1 in dimensions that are not folded
	code, err := c.expression()
	if rows := c.rows(); rows != nil {
		code, folded, row = rows.Code, rows.Mask, slices.Clone(c.in[0].shape)
		for dim := range row {
			if !folded[dim] {
				row[dim] = 1
			}
		}
	}
	if code == nil || err != nil || len(in) != len(code.In) || len(code.Out) != len(c.out) {
		return nil
	}
	lists := make([][]symElement, len(c.out))
	for i := range c.out {
		shape := c.out[i].Meta().Shape
		lists[i] = make([]symElement, tensor.Numel(shape))
		for k := range lists[i] {
			first := indexAt(shape, k)
			for dim := range folded {
				if folded[dim] && len(shape) < len(folded) {
					first = slices.Insert(first, dim, 0)
				}
			}
			e := &evaluation{node: c.node, code: code, rowLength: tensor.Numel(row), computed: map[rowValue]symElement{},
				load: func(operand, k int) symElement {
					index := indexAt(row, k)
					for dim := range index {
						if !folded[dim] {
							index[dim] = first[dim]
						}
					}
					return in[operand].list[broadcastAt(in[operand].shape, index)]
				}}
			var ok bool
			if lists[i][k], ok = e.result(i, broadcastAt(row, first)); !ok {
				return nil
			}
		}
	}
	return lists
}

// expression returns the op's expression for one element of the result, or nil if the op has none.
func (c *computation) expression() (*expr.Code, error) {
	switch op := c.op; {
	case op.Pointwise != nil:
		return op.Pointwise.Unchecked(c.call)
	case op.Expression != nil:
		return op.Expression(c.call)
	}
	return nil, nil
}

// rows returns the op's expression for a row. It returns nil if the op has no such expression, or has several operands.
func (c *computation) rows() *graph.Rows {
	if c.op.Rows == nil || len(c.in) != 1 {
		return nil
	}
	rows, err := c.op.Rows(c.call)
	if err != nil || rows == nil || rows.Split != 0 {
		return nil
	}
	return rows
}

// broadcastAt returns the row-major position of an element in an operand of the given shape: the element that
// broadcasting uses for the result's element at the given index.
func broadcastAt(shape, index []int) int {
	position := 0
	index = index[len(index)-len(shape):]
	for d, size := range shape {
		i := index[d]
		if size == 1 {
			i = 0
		}
		position = position*size + i
	}
	return position
}
