package iter

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Bind returns the addresses of tensors in the form that loops take, outputs first. A
// tensor must have the dtype and layout that [Iterator.Meta] tells; its offset may
// differ.
func (it *Iterator) Bind(ts ...*tensor.Tensor) ([]unsafe.Pointer, error) {
	if len(ts) != len(it.ops) {
		return nil, fmt.Errorf("iter: %d tensors for %d operands", len(ts), len(it.ops))
	}
	ptrs := make([]unsafe.Pointer, len(ts))
	for i, t := range ts {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("iter: operand %d: %w", i, err)
		}
		if m := it.ops[i].meta; t.DType != m.DType || !t.SameAddresses(m) {
			return nil, fmt.Errorf("iter: operand %d is %v, the iteration was set up for %v", i, t.Meta, m)
		}
		ptrs[i] = t.Pointer()
	}
	return ptrs, nil
}
