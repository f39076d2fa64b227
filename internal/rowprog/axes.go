package rowprog

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// axis is a dimension of the broadcast shape, or several merged dimensions.
type axis struct {
	length  int   // size in elements
	strides []int // by output, then by operand: stride in bytes; 0 if the operand is broadcast
}

// checkOperands returns an error if the layouts metas (of outputs, then of operands) do not fit the code and the mask.
// The code determines their numbers and dtypes, and the mask determines their rank.
func checkOperands(code *expr.Code, outCount int, metas []tensor.Meta, mask []bool) error {
	if len(code.Out) != outCount || len(code.In) != len(metas)-outCount {
		return fmt.Errorf("rowprog: there are layouts of %d outputs and %d operands, but the expression has %d and %d",
			outCount, len(metas)-outCount, len(code.Out), len(code.In))
	}
	for i, meta := range metas {
		if len(meta.Shape) != len(mask) || len(meta.Strides) != len(mask) {
			return fmt.Errorf("rowprog: the rank of %v differs from the length of the mask, %d", meta, len(mask))
		}
		if i >= outCount && meta.DType != code.In[i-outCount] || i < outCount && meta.DType != code.Out[i].DType {
			return fmt.Errorf("rowprog: %v does not have the dtype of the expression", meta)
		}
	}
	return nil
}

// fullShape returns the broadcast shape of all metas.
func fullShape(metas []tensor.Meta, rank int) ([]int, error) {
	shape := slices.Repeat([]int{1}, rank)
	for dim := range shape {
		for _, meta := range metas {
			if length := meta.Shape[dim]; length != 1 {
				if shape[dim] != 1 && shape[dim] != length {
					return nil, fmt.Errorf("rowprog: dimension %d has size %d in one operand and size %d in another", dim,
						shape[dim], length)
				}
				shape[dim] = length
			}
		}
	}
	return shape, nil
}

// axesOf returns the kept and the reduced dimensions of the broadcast shape, each in reverse order. A row extends along
// the reduced dimensions, and there is one row for each position along the kept dimensions.
func axesOf(shape []int, metas []tensor.Meta, mask []bool) (kept, reduced []axis) {
	for index, length := range slices.Backward(shape) {
		dim := axis{length: length, strides: make([]int, len(metas))}
		for i, meta := range metas {
			if meta.Shape[index] != 1 {
				dim.strides[i] = meta.Strides[index] * meta.DType.Size()
			}
		}
		if mask[index] {
			reduced = append(reduced, dim)
		} else {
			kept = append(kept, dim)
		}
	}
	return kept, reduced
}

// elementsOf returns the number of positions along all axes.
func elementsOf(list []axis) int {
	count := 1
	for _, dim := range list {
		count *= dim.length
	}
	return count
}

// mergeAxes removes axes of size 1, and merges adjacent axes if one loop can replace their loops (see canMerge). If no
// axis is left, it returns one axis of size 1. layoutCount is the number of outputs and operands. The result overwrites
// list.
func mergeAxes(list []axis, layoutCount int) []axis {
	merged := list[:0]
	for _, next := range list {
		if next.length == 1 {
			continue
		}
		if last := len(merged) - 1; last >= 0 && canMerge(merged[last], next) {
			merged[last].length *= next.length
			continue
		}
		merged = append(merged, next)
	}
	if len(merged) == 0 {
		merged = append(merged, axis{length: 1, strides: make([]int, layoutCount)})
	}
	return merged
}

// canMerge reports whether the strides along inner reach all positions along both axes, for all outputs and operands:
// one step along next and inner.length steps along inner must span the same number of bytes.
func canMerge(inner, next axis) bool {
	for i, stride := range inner.strides {
		if inner.length*stride != next.strides[i] {
			return false
		}
	}
	return true
}

// setAxes sets the kept and reduced axes, ordered by ascending stride of the largest operand, and merges adjacent axes
// where possible.
func (p *Plan) setAxes(mask []bool) error {
	shape, err := fullShape(p.metas, len(mask))
	if err != nil {
		return err
	}
	p.kept, p.reduced = axesOf(shape, p.metas, mask)
	p.rowLen = elementsOf(p.reduced)
	largest := p.largestOperand()
	distance := func(a axis) int {
		if stride := a.strides[largest]; stride != 0 {
			return max(stride, -stride)
		}
		return math.MaxInt // axes along which the largest operand is broadcast are last
	}
	byDistance := func(a, b axis) int { return cmp.Compare(distance(a), distance(b)) }
	sorted.Func(p.kept, byDistance)
	sorted.Func(p.reduced, byDistance)
	p.kept, p.reduced = mergeAxes(p.kept, len(p.metas)), mergeAxes(p.reduced, len(p.metas))
	return nil
}

// largestOperand returns the index in metas of the operand with the most elements. Its strides determine the order of
// axes. Without operands, largestOperand returns 0, the first output.
func (p *Plan) largestOperand() int {
	largest, maxElements := 0, -1
	for i := range p.metas {
		if count := p.elementCount(i); i >= p.outCount && count > maxElements {
			largest, maxElements = i, count
		}
	}
	return largest
}

// elementCount returns the number of distinct elements of an output or operand, given by its index in metas.
func (p *Plan) elementCount(i int) int {
	count := 1
	for _, list := range [][]axis{p.kept, p.reduced} {
		for _, dim := range list {
			if dim.strides[i] != 0 {
				count *= dim.length
			}
		}
	}
	return count
}

// Indices in Plan.axes.
const (
	firstKept    = 0 // kept[0], the fastest axis from row to row
	firstReduced = 1 // reduced[0], the fastest axis along a row; the other reduced axes follow
)

// innerAxis returns the axis of a loop's inner dimension.
func (p *Plan) innerAxis() int {
	if p.alongColumns { // an inner loop visits one element of each of several rows
		return firstKept
	}
	return firstReduced
}

// outerAxis returns the axis of a loop's outer dimension.
func (p *Plan) outerAxis() int {
	switch {
	case p.alongColumns:
		return firstReduced
	case p.severalRowsPerCall:
		return firstKept
	}
	return firstReduced + 1 // along rows, there are then several reduced axes
}

// firstOtherAxis returns the first reduced axis that is neither the inner nor the outer dimension of loops.
func (p *Plan) firstOtherAxis() int { return max(p.innerAxis(), p.outerAxis()) + 1 }
