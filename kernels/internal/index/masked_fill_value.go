package index

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// convertedItem returns the element at an address, converted from dtype `from` to dtype `to`. It fails if the element
// overflows `to`.
func convertedItem(to, from tensor.DType, address unsafe.Pointer) (*tensor.Tensor, error) {
	item := tensor.Zeros(from)
	const step, n = 0, 1
	kit.RowConverter(from, from)(item.Pointer(), address, step, step, n) // copies: both dtypes are `from`
	number := item.At()
	return number.Tensor(to), kit.CheckNumberFits(number, to)
}
