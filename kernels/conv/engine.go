package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// engine convolves in one dtype. Its packings are the forms of the weight; false where it is read in its own layout.
type engine interface {
	lower(s *convShape, a convAlgorithm) (*graph.Kernel, error)
	packing(s *convShape, a convAlgorithm, d tensor.DType) (graph.Packing, bool)
	lowerVolume(v *convVolume) (*graph.Kernel, error)
	volumePacking(v *convVolume, d tensor.DType) (graph.Packing, bool)
}

type engineOf[T gemm.Number] struct{}

var engines = multiply.Engines[engine]{
	tensor.Uint8: engineOf[uint8]{}, tensor.Int8: engineOf[int8]{},
	tensor.Int16: engineOf[int16]{}, tensor.Int32: engineOf[int32]{}, tensor.Int64: engineOf[int64]{},
	tensor.Float32: engineOf[float32]{}, tensor.Float64: engineOf[float64]{},
	tensor.Complex64: engineOf[complex64]{}, tensor.Complex128: engineOf[complex128]{},
}

func (engineOf[T]) lower(s *convShape, a convAlgorithm) (*graph.Kernel, error) {
	return lowerConv[T](s, a)
}

func (engineOf[T]) packing(s *convShape, a convAlgorithm, d tensor.DType) (graph.Packing, bool) {
	p := convPanels[T](s, a, d)
	if p == nil {
		return graph.Packing{}, false
	}
	return multiply.PackingOf[T](d, p), true
}

func (engineOf[T]) lowerVolume(v *convVolume) (*graph.Kernel, error) { return convVolumes[T](v) }

func (engineOf[T]) volumePacking(v *convVolume, d tensor.DType) (graph.Packing, bool) {
	return multiply.PackingOf[T](d, volumePanels[T](v, d)), true
}
