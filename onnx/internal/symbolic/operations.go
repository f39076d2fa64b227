package symbolic

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Evaluate computes the results of a call by the op's expression, which is the expression of one element or of a row.
// operands are the operands of the call; nil for an omitted operand. results are the inferred results. Evaluate returns
// the elements of each result, or nil if an element has no symbolic form.
func (s *Symbols) Evaluate(op *graph.Op, call *graph.Call, operands []*Tensor, results []graph.Result) [][]Element {
	in := slices.DeleteFunc(slices.Clone(operands), func(e *Tensor) bool { return e == nil })
	folded := make([]bool, len(results[0].Type.Shape))
	rowShape := slices.Repeat([]int{1}, len(folded)) // size 1 in dimensions that are not folded
	code, err := expression(op, call)
	if rows := rowsOf(op, call, operands); rows != nil {
		code, folded, rowShape = rows.Code, rows.Mask, slices.Clone(operands[0].Shape)
		for dim := range rowShape {
			if !folded[dim] {
				rowShape[dim] = 1
			}
		}
	}
	if code == nil || err != nil || len(in) != len(code.In) || len(code.Out) != len(results) {
		return nil
	}
	lists := make([][]Element, len(results))
	for i := range results {
		shape := results[i].Meta().Shape
		lists[i] = make([]Element, tensor.Numel(shape))
		for k := range lists[i] {
			// first is the index of the row's first element: element k of the result, with 0 in folded dimensions that the
			// result lacks.
			first := IndexAt(shape, k)
			for dim := range folded {
				if folded[dim] && len(shape) < len(folded) {
					first = slices.Insert(first, dim, 0)
				}
			}
			evaluator := &evaluation{symbols: s, code: code, rowLength: tensor.Numel(rowShape), computed: map[rowValue]Element{},
				load: func(operand, k int) Element { // element k of the row, in folded dimensions from its own index
					index := IndexAt(rowShape, k)
					for dim := range index {
						if !folded[dim] {
							index[dim] = first[dim]
						}
					}
					return in[operand].Elements[broadcastAt(in[operand].Shape, index)]
				}}
			var ok bool
			if lists[i][k], ok = evaluator.result(i, broadcastAt(rowShape, first)); !ok {
				return nil
			}
		}
	}
	return lists
}

// expression returns the op's expression for one element of the result, or nil if the op has none.
func expression(op *graph.Op, call *graph.Call) (*expr.Code, error) {
	switch {
	case op.Pointwise != nil:
		return op.Pointwise.Unchecked(call)
	case op.Expression != nil:
		return op.Expression(call)
	}
	return nil, nil
}

// rowsOf returns the op's expression for a row. It returns nil if the op has no such expression, or has several
// operands.
func rowsOf(op *graph.Op, call *graph.Call, operands []*Tensor) *graph.Rows {
	if op.Rows == nil || len(operands) != 1 {
		return nil
	}
	rows, err := op.Rows(call)
	if err != nil || rows == nil || rows.ChannelGroups != 0 {
		return nil
	}
	return rows
}

// broadcastAt returns the row-major position of an element in an operand of the given shape: the element that
// broadcasting uses for the result's element at the given index.
func broadcastAt(shape, index []int) int {
	position := 0
	index = index[len(index)-len(shape):]
	for dim, size := range shape {
		i := index[dim]
		if size == 1 {
			i = 0
		}
		position = position*size + i
	}
	return position
}
