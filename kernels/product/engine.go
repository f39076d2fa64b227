package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// engine multiplies matrices in one dtype.
type engine interface {
	// compile makes the kernel of a call, which is read as a contraction.
	compile(x *contraction, c *graph.Call) (*graph.Kernel, error)
	// packing is the form of one side; false where it is read in its own layout.
	packing(x *contraction, isA bool, d tensor.DType) (graph.Packing, bool)
}

type engineOf[T gemm.Number] struct{}

var engines = multiply.Engines[engine]{
	tensor.Uint8: engineOf[uint8]{}, tensor.Int8: engineOf[int8]{},
	tensor.Int16: engineOf[int16]{}, tensor.Int32: engineOf[int32]{}, tensor.Int64: engineOf[int64]{},
	tensor.Float32: engineOf[float32]{}, tensor.Float64: engineOf[float64]{},
	tensor.Complex64: engineOf[complex64]{}, tensor.Complex128: engineOf[complex128]{},
	tensor.Uint16: engineOf[uint16]{}, tensor.Uint32: engineOf[uint32]{}, tensor.Uint64: engineOf[uint64]{},
}

func (engineOf[T]) compile(x *contraction, c *graph.Call) (*graph.Kernel, error) {
	return compileContraction[T](x, c)
}

func (engineOf[T]) packing(x *contraction, isA bool, d tensor.DType) (graph.Packing, bool) {
	x.fold()
	p := contractionPanels[T](x, isA, d)
	if p == nil {
		return graph.Packing{}, false
	}
	return multiply.PackingOf[T](d, p), true
}
