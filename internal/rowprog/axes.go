package rowprog

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// axis is a dimension of the broadcast shape, or several merged dimensions.
type axis struct {
	length  int   // size in elements
	strides []int // by output, then by operand: stride in bytes; 0 if the operand is broadcast
}

// checkOperands returns an error if metas (outputs, then operands) do not match the code and the mask.
func checkOperands(c *expr.Code, outCount int, metas []tensor.Meta, mask []bool) error {
	if len(c.Out) != outCount || len(c.In) != len(metas)-outCount {
		return fmt.Errorf("rowprog: %d outputs and %d operands for an expression of %d and %d", outCount, len(metas)-outCount,
			len(c.Out), len(c.In))
	}
	for i, m := range metas {
		if len(m.Shape) != len(mask) || len(m.Strides) != len(mask) {
			return fmt.Errorf("rowprog: %v in an iteration of rank %d", m, len(mask))
		}
		if i >= outCount && m.DType != c.In[i-outCount] || i < outCount && m.DType != c.Out[i].DType {
			return fmt.Errorf("rowprog: %v does not have the dtype of the expression", m)
		}
	}
	return nil
}

// fullShape returns the broadcast shape of all metas.
func fullShape(metas []tensor.Meta, rank int) ([]int, error) {
	shape := slices.Repeat([]int{1}, rank)
	for d := range shape {
		for _, m := range metas {
			if n := m.Shape[d]; n != 1 {
				if shape[d] != 1 && shape[d] != n {
					return nil, fmt.Errorf("rowprog: dimension %d has %d and %d elements", d, shape[d], n)
				}
				shape[d] = n
			}
		}
	}
	return shape, nil
}

// axesOf returns the kept and the reduced dimensions of the broadcast shape, in reverse order.
func axesOf(full []int, metas []tensor.Meta, mask []bool) (kept, reduced []axis) {
	for d, n := range slices.Backward(full) {
		a := axis{length: n, strides: make([]int, len(metas))}
		for i, m := range metas {
			if m.Shape[d] != 1 {
				a.strides[i] = m.Strides[d] * m.DType.Size()
			}
		}
		if mask[d] {
			reduced = append(reduced, a)
		} else {
			kept = append(kept, a)
		}
	}
	return kept, reduced
}

// elementsOf returns the number of positions along all axes.
func elementsOf(list []axis) int {
	n := 1
	for _, a := range list {
		n *= a.length
	}
	return n
}

// mergeAxes removes axes of size 1, and merges adjacent axes if all operands have a common stride along both. At least
// one axis remains.
func mergeAxes(list []axis, operands int) []axis {
	out := list[:0]
	for _, a := range list {
		if a.length == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && canMerge(out[k], a) {
			out[k].length *= a.length
			continue
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, axis{length: 1, strides: make([]int, operands)})
	}
	return out
}

func canMerge(a, next axis) bool {
	for i, s := range a.strides {
		if a.length*s != next.strides[i] {
			return false
		}
	}
	return true
}
