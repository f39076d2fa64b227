package rowprog

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// MaxPositions is the maximum number of elements of a row if the expression uses positions ([expr.Position]).
const MaxPositions = 1 << 24

// sharedIndices is the list 0, 1, 2, ..., which plans share. It has the length of the longest list needed so far.
var sharedIndices atomic.Pointer[[]int32]

// indices returns the numbers from 0 to n-1.
func indices(n int) []int32 {
	if shared := sharedIndices.Load(); shared != nil && len(*shared) >= n {
		return (*shared)[:n]
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	sharedIndices.Store(&list)
	return list
}

// loadPositions replaces positions in the expression by loads from an additional last operand. The elements of this
// operand are 0, 1, 2, ... in row-major order of the reduced dimensions.
func (p *Plan) loadPositions(code *expr.Code, mask []bool) (*expr.Code, error) {
	code, usesPositions := code.Positioned()
	if !usesPositions {
		return code, nil
	}
	meta := tensor.Meta{DType: tensor.Int32, Shape: slices.Repeat([]int{1}, len(mask)), Strides: make([]int, len(mask))}
	rowLen := 1
	for dim, isReduced := range slices.Backward(mask) {
		if !isReduced {
			continue
		}
		for _, other := range p.metas { // sizes are equal, or 1 if the operand is broadcast
			meta.Shape[dim] = max(meta.Shape[dim], other.Shape[dim])
		}
		meta.Strides[dim] = rowLen
		if rowLen *= meta.Shape[dim]; rowLen > MaxPositions {
			return nil, fmt.Errorf("rowprog: the expression uses positions, so rows may have at most %d elements", MaxPositions)
		}
	}
	p.metas, p.positions = append(p.metas, meta), indices(rowLen)
	return code, nil
}

// callerMetas returns the metas of outputs and operands whose addresses the caller passes.
func (p *Plan) callerMetas() []tensor.Meta {
	if p.positions != nil {
		return p.metas[:len(p.metas)-1]
	}
	return p.metas
}

// address returns the address of the output or operand with index i in metas, which may be the operand of positions.
func (p *Plan) address(ptrs []unsafe.Pointer, i int) unsafe.Pointer {
	if p.positions != nil && i == len(p.metas)-1 {
		return unsafe.Pointer(unsafe.SliceData(p.positions))
	}
	return ptrs[i]
}
