package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// affine describes the computation after a product: c = alpha * c + beta * add. As in BLAS, the addend is not read if
// beta is 0. Multiplications by 1 are skipped, because a complex infinity times 1 contains a NaN.
type affine struct {
	alpha, beta tensor.Scalar
	c, add      matrixStrides
	hasAdd      bool
}

// affineLoop applies an affine to rows [i0, i1) and columns [j0, j1) of the matrix at address c. add is the address of
// the addend.
type affineLoop = func(c, add unsafe.Pointer, i0, i1, j0, j1 int)

// affineLoops has, by dtype, the function that makes an [affineLoop].
var affineLoops = map[tensor.DType]func(f *affine) affineLoop{
	tensor.Uint8: newAffineLoop[uint8], tensor.Int8: newAffineLoop[int8],
	tensor.Uint16: newAffineLoop[uint16], tensor.Int16: newAffineLoop[int16],
	tensor.Uint32: newAffineLoop[uint32], tensor.Int32: newAffineLoop[int32],
	tensor.Uint64: newAffineLoop[uint64], tensor.Int64: newAffineLoop[int64],
	tensor.Float32: newAffineLoop[float32], tensor.Float64: newAffineLoop[float64],
	tensor.Complex64: newAffineLoop[complex64], tensor.Complex128: newAffineLoop[complex128],
}

// newAffineLoop returns the loop for elements of type T.
func newAffineLoop[T number](f *affine) affineLoop {
	alpha, beta := scalarOf[T](f.alpha), T(0)
	if f.hasAdd {
		beta = scalarOf[T](f.beta)
	}
	return func(c, add unsafe.Pointer, i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			for j := j0; j < j1; j++ {
				element := (*T)(kit.AddressOf[T](c, i*f.c.row+j*f.c.col))
				if alpha != 1 {
					*element *= alpha
				}
				if beta == 0 {
					continue
				}
				addend := *(*T)(kit.AddressOf[T](add, i*f.add.row+j*f.add.col))
				if beta != 1 {
					addend *= beta
				}
				*element += addend
			}
		}
	}
}

// number has the element types of products.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | complex64 | complex128
}

// scalarOf converts a scalar to an element of type T. Integers wrap.
func scalarOf[T number](scalar tensor.Scalar) (element T) {
	dtype := tensor.DTypeOf[T]()
	if !dtype.IsFloat() && !dtype.IsComplex() {
		scalar = tensor.IntScalar(scalar.Int())
	}
	scalar.Store(dtype, unsafe.Pointer(&element))
	return element
}
