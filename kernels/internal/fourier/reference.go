package fourier

import (
	"math/cmplx"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the reference of a [fourierSpec].

// reference computes the result by the definition of the transform. result is the meta of the result.
func (spec *fourierSpec) reference(self *tensor.Tensor, result tensor.Meta) []*tensor.Tensor {
	out := tensor.Zeros(result.DType, result.Shape...)
	linesShape := slices.Clone(result.Shape) // one element for each line
	linesShape[spec.dim] = 1
	if spec.hasComplexPairs {
		linesShape[len(linesShape)-1] = 1
	}
	kit.EachIndex(linesShape, func(coords []int) {
		coords = slices.Clone(coords)
		values := make([]complex128, spec.points)
		const first, step = 0, 1
		spec.load(values, first, step, func(values []complex128, first, step int) {
			for i := range values {
				coords[spec.dim] = first + i*step
				values[i] = spec.refElement(self, coords)
			}
		})
		for i, value := range refDFT(values, spec.points, spec.isInverse)[:spec.outLen] {
			coords[spec.dim] = i
			spec.setRefElement(out, coords, kit.MulComplex(value, complex(spec.scale, 0)))
		}
	})
	return []*tensor.Tensor{out}
}

// refElement returns the element of the operand at coords. The last coordinate of a complex pair is 0.
func (spec *fourierSpec) refElement(self *tensor.Tensor, coords []int) complex128 {
	value := self.At(coords...).Complex()
	if !spec.hasComplexPairs || spec.isFromReal {
		return value
	}
	return complex(real(value), self.At(imagCoords(coords)...).Float())
}

// setRefElement sets the element of the result at coords. The last coordinate of a complex pair is 0.
func (spec *fourierSpec) setRefElement(out *tensor.Tensor, coords []int, value complex128) {
	if !spec.hasComplexPairs {
		out.Set(tensor.ComplexScalar(value), coords...)
		return
	}
	out.Set(tensor.FloatScalar(real(value)), coords...)
	if !spec.isToReal {
		out.Set(tensor.FloatScalar(imag(value)), imagCoords(coords)...)
	}
}

// imagCoords returns the coordinates of the imaginary part of the complex pair at coords.
func imagCoords(coords []int) []int {
	coords = slices.Clone(coords)
	coords[len(coords)-1] = 1
	return coords
}

// refDFT computes the forward or inverse transform of the given length by its definition, without a scale. x is
// truncated or zero-padded to that length.
func refDFT(x []complex128, length int, isInverse bool) []complex128 {
	out := make([]complex128, length)
	for k := range out {
		for j := range min(length, len(x)) {
			root := unitRoot(j*k%length, length)
			if isInverse {
				root = cmplx.Conj(root)
			}
			out[k] += kit.MulComplex(x[j], root)
		}
	}
	return out
}
