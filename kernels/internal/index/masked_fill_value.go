package index

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// convertedItem returns the element of dtype v at p, converted to dtype d. It fails if the element overflows d.
func convertedItem(d, v tensor.DType, p unsafe.Pointer) (*tensor.Tensor, error) {
	item := tensor.Zeros(v)
	kit.Mover(v, v)(item.Pointer(), p, 0, 0, 1)
	number := item.At()
	return number.Tensor(d), kit.NumberFits(number, d)
}
