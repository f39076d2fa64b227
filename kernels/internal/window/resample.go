package window

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Separable interpolation resamples one dimension after another. Along a dimension, each index of the result has taps:
// elements of the operand, with weights. The result is the weighted sum of its taps.
//
// For example, let linear interpolation double a dimension of 4 elements x. Index i of the result is at position
// (i+0.5)/2 - 0.5 of the operand, so index 3 is at position 1.25. The taps of index 3 are element 1 with weight 0.75
// and element 2 with weight 0.25. Element 3 of the result is 0.75*x[1] + 0.25*x[2].
//
// A [resampling] describes a call. It has an [axisTaps] for each dimension, which computes the taps. A resampling is a
// selection if each result is a copy of one element or has no taps, as in nearest-neighbour interpolation. The kernel
// of a selection copies along all dimensions at once (selection.go). Other kernels compute weighted sums, with one pass
// for each dimension (resample_pass.go).

// resampling describes a separable interpolation of an operand.
type resampling struct {
	taps         []*axisTaps // by dimension; nil for a dimension that does not change
	outsideValue float64     // the value of results without taps
}

// axisTaps computes the taps of each index of the result along a dimension. An index whose position is outside the
// operand may have no taps.
type axisTaps struct {
	outSize int // size of the dimension in the result
	maxTaps int // maximum number of taps per index
	// isNearest is set if each index is known to have at most one tap of weight 1, and all other taps have weight 0.
	isNearest bool
	// eachTap calls add for each tap of index i. element is the tap's index in the operand.
	eachTap func(i int, add func(element int, weight float64))
}

// shape returns the shape of the result for an operand of shape in.
func (r *resampling) shape(in []int) []int {
	out := slices.Clone(in)
	for d, taps := range r.taps {
		if taps != nil {
			out[d] = taps.outSize
		}
	}
	return out
}

// resampleDType returns the dtype in which elements of a dtype are summed: float64 for float64 and for integers of more
// than 16 bits, otherwise float32.
func resampleDType(dtype tensor.DType) tensor.DType {
	if dtype == tensor.Float64 || dtype.IsIntegral(true) && dtype.Size() > 2 {
		return tensor.Float64
	}
	return tensor.Float32
}

// resampleImpls returns the implementations of an op that resamples. resamplingOf returns the resampling of a call.
func resampleImpls(resamplingOf func(c *graph.Call) (*resampling, error)) []graph.Impl {
	return []graph.Impl{{Name: "plain", Doc: "Resamples dimension by dimension, by loops over contiguous " +
		"elements.",
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			resample, err := resamplingOf(c)
			if err != nil {
				return nil, err
			}
			return resample.compile(c)
		},
		Work: func(c *graph.Call, walk graph.Walk) pricing.Work {
			work := pricing.Work{StartedSteps: 1}
			c.AddStreamed(&work)
			if resample, err := resamplingOf(c); err == nil {
				resample.addWork(&work, c.Meta(0).Shape, walk.ResultLayout(0, c.Out[0]))
			}
			return work
		}}}
}

// compile makes the kernel of a call.
func (r *resampling) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	if call.Out[0].Rank() == 0 {
		return copies.CompileCopy(call)
	}
	if r.isSelection() {
		return r.selectionKernel(call), nil
	}
	if resampleDType(call.Out[0].DType) == tensor.Float32 {
		return resampleKernel[float32](r, call)
	}
	return resampleKernel[float64](r, call)
}

// eachNonzero calls add for the taps of index i whose weight is not 0.
func (t *axisTaps) eachNonzero(i int, add func(element int, weight float64)) {
	t.eachTap(i, func(element int, weight float64) {
		if weight != 0 {
			add(element, weight)
		}
	})
}

// isSelection reports whether the resampling is known to be a selection. It is false if the taps of a dimension are too
// many to check.
func (r *resampling) isSelection() bool {
	for _, taps := range r.taps {
		if taps != nil && !taps.isSelection() {
			return false
		}
	}
	return true
}

// isSelection reports whether each index is known to have at most one tap of weight 1, and all other taps have weight
// 0.
func (t *axisTaps) isSelection() bool {
	const everyIndex = 1
	return t.isNearest || t.hasStaticTable() && t.hasOnlyUnitTaps(everyIndex)
}

// hasOnlyUnitTaps reports whether each of the indices 0, step, 2*step, ... has exactly one tap of weight 1, and all
// other taps have weight 0. Estimates of the work use a step greater than 1 (resample_work.go).
func (t *axisTaps) hasOnlyUnitTaps(step int) bool {
	for i := 0; i < t.outSize; i += step {
		count, unitCount := 0, 0
		t.eachNonzero(i, func(_ int, weight float64) {
			count++
			if weight == 1 {
				unitCount++
			}
		})
		if count != 1 || unitCount != 1 {
			return false
		}
	}
	return true
}

// reference is the reference implementation.
func (r *resampling) reference(self *tensor.Tensor) *tensor.Tensor {
	out := tensor.Zeros(self.DType, r.shape(self.Shape)...)
	switch {
	case out.Numel() == 0:
		return out
	case r.isSelection():
		r.referenceCopies(self, out)
		return out
	case resampleDType(self.DType) == tensor.Float32:
		return referenceSums[float32](r, self)
	}
	return referenceSums[float64](r, self)
}

// referenceCopies computes the result of a selection.
func (r *resampling) referenceCopies(self, out *tensor.Tensor) {
	kit.EachIndex(out.Shape, func(index []int) {
		source, isOutside := slices.Clone(index), false
		for d := range source {
			source[d] = r.sourceIndex(d, index[d])
			isOutside = isOutside || source[d] < 0
		}
		if isOutside {
			out.Set(tensor.FloatScalar(r.outsideValue), index...)
		} else {
			out.Set(self.At(source...), index...)
		}
	})
}

// referenceSums computes weighted sums, one dimension after another. Each product and each sum is rounded to T, the
// type in which the kernel computes.
func referenceSums[T float32 | float64](r *resampling, self *tensor.Tensor) *tensor.Tensor {
	dtype := tensor.DTypeOf[T]()
	current := self.CopyTo(tensor.New(dtype, self.Shape...))
	for _, dim := range r.passOrder(self.Shape) {
		current = referencePass[T](current, dim, r.taps[dim], T(r.outsideValue))
	}
	return current.CopyTo(tensor.New(self.DType, current.Shape...))
}

// referencePass computes weighted sums along one dimension.
func referencePass[T float32 | float64](operand *tensor.Tensor, dim int, taps *axisTaps, outside T) *tensor.Tensor {
	shape := slices.Clone(operand.Shape)
	shape[dim] = taps.outSize
	out := tensor.Zeros(operand.DType, shape...)
	kit.EachIndex(shape, func(index []int) {
		source, sum, count := slices.Clone(index), outside, 0
		taps.eachNonzero(index[dim], func(element int, weight float64) {
			source[dim] = element
			product := T(T(weight) * T(operand.At(source...).Float()))
			if count++; count == 1 {
				sum = product
			} else {
				sum += product
			}
		})
		out.Set(tensor.FloatScalar(float64(sum)), index...)
	})
	return out
}
