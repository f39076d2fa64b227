package symbolic

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Evaluate computes the results of a call from the op's expression, which computes one element or a row. operands are
// the operands of the call; nil for an omitted operand. results are the inferred results. Evaluate returns the elements
// of each result, or nil if an element has no symbolic form.
func (s *Symbols) Evaluate(op *graph.Op, call *graph.Call, operands []*Tensor, results []graph.Result) [][]Element {
	given := slices.DeleteFunc(slices.Clone(operands), func(e *Tensor) bool { return e == nil })
	rank := len(results[0].Type.Shape)
	loop := elementLoop{symbols: s, operands: given, folded: make([]bool, rank), rowShape: slices.Repeat([]int{1}, rank)}
	code, err := expression(op, call)                    // for one element; nil if the expression is over rows
	if rows := rowsOf(op, call, operands); rows != nil { // the expression is over rows; Mask marks their dimensions
		code, loop.folded, loop.rowShape = rows.Code, rows.Mask, slices.Clone(operands[0].Shape)
		for dim := range loop.rowShape {
			if !loop.folded[dim] {
				loop.rowShape[dim] = 1
			}
		}
	}
	if code == nil || err != nil || len(given) != len(code.In) || len(code.Out) != len(results) {
		return nil
	}
	loop.code = code
	lists := make([][]Element, len(results))
	for i := range results {
		shape := results[i].Meta().Shape
		lists[i] = make([]Element, tensor.Numel(shape))
		for k := range lists[i] {
			var ok bool
			if lists[i][k], ok = loop.element(i, IndexAt(shape, k)); !ok {
				return nil
			}
		}
	}
	return lists
}

// elementLoop evaluates the expression of an op for each element of its results. An element is computed from one row of
// the operand. The elements of a row have equal indices in all dimensions that are not folded. A pointwise op folds no
// dimension, so each row has one element. For a sum of [2, 3] over dimension 1, folded is [false, true] and rowShape is
// [1, 3].
type elementLoop struct {
	symbols  *Symbols
	code     *expr.Code
	operands []*Tensor
	folded   []bool // by dimension of the operand
	rowShape []int  // size 1 in dimensions that are not folded
}

// element returns the element of result i at an index. It returns false if the element has no symbolic form.
func (l *elementLoop) element(i int, index []int) (Element, bool) {
	// operandIndex is the index, with 0 for the folded dimensions if the result lacks them.
	operandIndex, lacksFolded := index, len(index) < len(l.folded)
	for dim, isFolded := range l.folded {
		if isFolded && lacksFolded {
			operandIndex = slices.Insert(operandIndex, dim, 0)
		}
	}
	evaluator := &evaluation{symbols: l.symbols, code: l.code, rowLength: tensor.Numel(l.rowShape),
		computed: map[rowValue]Element{},
		load: func(operand, k int) Element { // element k of the row
			index := IndexAt(l.rowShape, k)
			for dim := range index {
				if !l.folded[dim] {
					index[dim] = operandIndex[dim]
				}
			}
			source := l.operands[operand]
			return source.Elements[broadcastAt(source.Shape, index)]
		}}
	return evaluator.result(i, broadcastAt(l.rowShape, operandIndex))
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

// rowsOf returns the op's expression for a row. It returns nil if the op has no such expression, has several operands,
// or has rows in groups of channels.
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
