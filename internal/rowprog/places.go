package rowprog

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// MaxPlaces is the longest row whose expression asks for the places of elements ([expr.Position]).
const MaxPlaces = 1 << 24

// numbers are those from 0 on, as many as a plan has asked for so far, which plans share.
var numbers atomic.Pointer[[]int32]

// upTo returns the first n numbers.
func upTo(n int) []int32 {
	if have := numbers.Load(); have != nil && len(*have) >= n {
		return (*have)[:n]
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	numbers.Store(&list)
	return list
}

// position has the code load the places of elements in their rows, if it asks for them, from an operand of the plan's
// own, behind the others: the numbers from 0 on, which lie as the reduced dimensions do in row-major order.
func (p *Plan) position(c *expr.Code, mask []bool) (*expr.Code, error) {
	c, ok := c.Positioned()
	if !ok {
		return c, nil
	}
	m := tensor.Meta{DType: tensor.Int32, Shape: slices.Repeat([]int{1}, len(mask)), Strides: make([]int, len(mask))}
	n := 1
	for d, reduced := range slices.Backward(mask) {
		if !reduced {
			continue
		}
		for _, other := range p.metas {
			m.Shape[d] = max(m.Shape[d], other.Shape[d])
		}
		m.Strides[d] = n
		if n *= m.Shape[d]; n > MaxPlaces {
			return nil, fmt.Errorf("rowprog: places in rows of more than %d elements", MaxPlaces)
		}
	}
	p.metas, p.places = append(p.metas, m), upTo(n)
	return c, nil
}

// given are the metas of what has its address from outside.
func (p *Plan) given() []tensor.Meta {
	if p.places != nil {
		return p.metas[:len(p.metas)-1]
	}
	return p.metas
}

// address is that of an output or operand, or of the places in a row.
func (p *Plan) address(ptrs []unsafe.Pointer, i int) unsafe.Pointer {
	if p.places != nil && i == len(p.metas)-1 {
		return unsafe.Pointer(unsafe.SliceData(p.places))
	}
	return ptrs[i]
}
